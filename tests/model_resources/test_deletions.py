"""Deleting a row asks for the rows that are deleted with it, as Django's admin does."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User

from django_mcp import MCPServer, ModelResource, ToolError, from_admin, register
from tests.model_resources.allowing import allow
from tests.model_resources.conftest import Reader
from tests.model_resources.library.models import Author, Book, Publisher, Review
from tests.model_resources.looking import look


class Authors(ModelResource):
    """Authors, who can be deleted."""

    fields = ("name",)
    actions = ("delete",)


class Books(ModelResource):
    """Books, which are deleted with their author."""

    fields = ("title",)


class ShelfA(Books):
    """Those on shelf A, which is one of Anna's two."""

    def get_queryset(self, ctx: Any) -> Any:
        return super().get_queryset(ctx).filter(shelf="A")


class NotTides(Books):
    """Those that may be deleted are decided one by one."""

    def has_delete_permission(self, ctx: Any, obj: Any = None) -> bool:
        return obj is None or obj.slug != "tides"


class Withdrawing(Authors):
    """Deletes nothing."""

    def delete_model(self, ctx: Any, obj: Any) -> None:
        obj.is_anonymous_writer = True
        obj.save()


class Noting(Authors):
    """Deletes, and does something else."""

    def delete_model(self, ctx: Any, obj: Any) -> None:
        super().delete_model(ctx, obj)


@pytest.fixture
def anna(books: list[Book], people: Mapping[str, User]) -> Author:
    """An author with books, whom Ann may delete."""
    allow(people["ann"], "delete_author")
    Review.objects.all().delete()
    return Author.objects.get(name="Anna Berg")


def test_an_author_is_not_deleted_by_callers_who_may_not_delete_the_books(
    server: MCPServer, reader: Callable[..., Reader], anna: Author, people: Mapping[str, User]
) -> None:
    register(Author, Authors, server=server)
    register(Book, Books, server=server)
    words = "This author cannot be deleted: books would be deleted with it, which you do not have permission to delete."
    assert reader("ann").problem("delete_author", pk=anna.pk) == words
    with pytest.raises(ToolError, match="books would be deleted"):
        look(server, people["ann"], "delete_author", pk=anna.pk)
    assert Book.objects.filter(author=anna).count() == 2
    allow(people["ann"], "delete_book")
    reader("ann").data("delete_author", pk=anna.pk)
    assert not Book.objects.filter(author=anna).exists()


@pytest.mark.parametrize("declared", [ShelfA, NotTides])
def test_rows_that_the_caller_may_not_see_or_delete_keep_what_they_would_go_with(
    server: MCPServer, reader: Callable[..., Reader], anna: Author, people: Mapping[str, User], declared: Any
) -> None:
    allow(people["ann"], "delete_book")
    register(Author, Authors, server=server)
    register(Book, declared, server=server)
    assert "cannot be deleted" in reader("ann").problem("delete_author", pk=anna.pk)
    assert Author.objects.filter(pk=anna.pk).exists()


def test_models_are_named_to_callers_only_if_they_may_see_one_of_the_rows(
    server: MCPServer, reader: Callable[..., Reader], anna: Author
) -> None:
    class Hidden(Books):
        def get_queryset(self, ctx: Any) -> Any:
            return Book.objects.none()

    register(Author, Authors, server=server)
    register(Book, Hidden, server=server)
    assert "other rows would be deleted" in reader("ann").problem("delete_author", pk=anna.pk)


def test_the_rule_holds_for_rows_further_down(
    server: MCPServer, reader: Callable[..., Reader], anna: Author, people: Mapping[str, User]
) -> None:
    allow(people["ann"], "delete_publisher", "delete_author")
    register(Book, Books, server=server)

    @register(Publisher, server=server)
    class Publishers(ModelResource):
        fields = ("name",)
        actions = ("delete",)

    assert "books would be deleted" in reader("ann").problem("delete_publisher", pk=anna.publisher_id)


@pytest.mark.parametrize(("declared", "is_deleted"), [(Withdrawing, False), (Noting, True)])
def test_a_deletion_of_the_sites_own_is_refused_only_if_it_deletes_the_books(
    server: MCPServer, reader: Callable[..., Reader], anna: Author, declared: Any, is_deleted: bool
) -> None:
    register(Author, declared, server=server)
    register(Book, Books, server=server)
    if is_deleted:
        assert "cannot be deleted" in reader("ann").problem("delete_author", pk=anna.pk)
    else:
        reader("ann").data("delete_author", pk=anna.pk)
    anna.refresh_from_db()
    assert anna.is_anonymous_writer is not is_deleted
    assert Book.objects.filter(author=anna).count() == 2


def test_models_of_the_same_admin_are_asked_for_without_a_declaration(
    server: MCPServer, reader: Callable[..., Reader], anna: Author, people: Mapping[str, User]
) -> None:
    site = admin.AdminSite()
    site.register([Author, Book])

    register(Author, server=server)(from_admin(site.get_model_admin(Author), fields=["name"], actions=["delete"]))
    assert "cannot be deleted" in reader("ann").problem("delete_author", pk=anna.pk)
    allow(people["ann"], "delete_book")
    reader("ann").data("delete_author", pk=anna.pk)
