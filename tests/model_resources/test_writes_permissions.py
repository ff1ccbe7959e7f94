"""Writing with permissions for single rows, as django-guardian and rules have them."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from django.contrib.auth.models import User

from django_mcp import Context, MCPServer, register
from tests.model_resources.allowing import Books, allow
from tests.model_resources.conftest import Reader
from tests.model_resources.library.models import Book


@pytest.fixture
def ann(server: MCPServer, reader: Callable[..., Reader], books: list[Book]) -> Reader:
    class Single(Books):
        object_permissions = True

        def has_view_permission(self, ctx: Any, obj: Any = None) -> bool:
            return ctx.user.is_authenticated and (obj is None or obj.shelf in {"A", "B"})

        def has_change_permission(self, ctx: Any, obj: Any = None) -> bool:
            return ctx.user.is_authenticated and (obj is None or obj.shelf == "A")

        has_delete_permission = has_change_permission

        def has_add_permission(self, ctx: Any) -> bool:
            return True

    register(Book, Single, server=server)
    return reader("ann")


def test_a_row_that_may_not_be_viewed_is_missing_in_the_words_of_get(ann: Reader) -> None:
    words = ann.problem("get_book", slug="foghorn")
    assert words == "No book with slug 'foghorn' found."
    assert ann.problem("update_book", slug="foghorn", title="Mine") == words
    assert ann.problem("delete_book", slug="foghorn") == words
    assert ann.problem("update_book", slug="nosuch", title="Mine") == words.replace("foghorn", "nosuch")
    assert Book.objects.get(slug="foghorn").title == "Foghorn"


def test_a_row_that_may_be_viewed_and_not_changed_is_refused(ann: Reader) -> None:
    assert ann.problem("update_book", slug="tides", title="Mine") == "You do not have permission to update this book."
    assert ann.data("update_book", slug="salt", title="Mine")["title"] == "Mine"


def test_a_row_hidden_from_the_caller_while_they_waited_for_it_is_missing(
    server: MCPServer, reader: Callable[..., Reader], books: list[Book], people: Mapping[str, User]
) -> None:
    allow(people["ann"], "change_book", "delete_book")

    class Racing(Books):
        object_permissions = True

        def get_queryset(self, ctx: Context) -> Any:
            return Book.objects.exclude(shelf="Z")

        def has_view_permission(self, ctx: Any, obj: Any = None) -> bool:
            if obj is not None:  # somebody else is faster, as soon as the row was found
                Book.objects.filter(pk=obj.pk).update(shelf="Z")
            return True

    register(Book, Racing, server=server)
    ann = reader("ann")
    assert ann.problem("update_book", slug="salt", title="Mine") == "No book with slug 'salt' found."
    assert ann.problem("delete_book", slug="tides") == "No book with slug 'tides' found."
    assert not Book.objects.filter(title="Mine").exists()
