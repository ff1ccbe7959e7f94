"""Writing as the database sees it: rows are locked, and all is written or nothing."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import OperationalError, connection, connections

from django_mcp import Context, MCPServer, ModelResource, register
from django_mcp.model_resources.form_errors import CONFLICT_MESSAGE
from tests.model_resources.conftest import Reader
from tests.model_resources.library.models import Author, Book, Copy, RareCopy

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgresql]

AT_ONCE = {"postgresql": "SET lock_timeout = 1", "sqlite": "PRAGMA busy_timeout = 0"}


def change_from_elsewhere(model: Any, **values: Any) -> str:
    """What happens to somebody who changes the rows of a model now, and does not wait."""
    outcome: list[str] = []

    def change() -> None:
        try:
            with connection.cursor() as cursor:
                cursor.execute(AT_ONCE[connection.vendor])
            model.objects.update(**values)
            outcome.append("changed")
        except OperationalError:
            outcome.append("locked")
        finally:
            connections.close_all()

    thread = threading.Thread(target=change)
    thread.start()
    thread.join()
    return outcome[0]


class Books(ModelResource):
    fields = ("title", "price")
    lookup_field = "slug"
    actions = ("update", "delete")
    writable_fields = ("title", "price")
    outcomes: list[str]

    def save_model(self, ctx: Context, obj: Any, change: bool) -> None:
        self.outcomes.append(change_from_elsewhere(Book, price=1))
        super().save_model(ctx, obj, change)

    def delete_model(self, ctx: Context, obj: Any) -> None:
        self.outcomes.append(change_from_elsewhere(Book, price=1))
        super().delete_model(ctx, obj)


@pytest.fixture
def outcomes(server: MCPServer, books: list[Book]) -> Iterator[list[str]]:
    Books.outcomes = []
    register(Book, Books, server=server)
    yield Books.outcomes
    del Books.outcomes


@pytest.mark.parametrize(("tool", "values"), [("update_book", {"title": "Pepper"}), ("delete_book", {})])
def test_nobody_else_changes_a_row_between_its_being_read_and_written(
    reader: Callable[..., Reader], outcomes: list[str], tool: str, values: dict[str, Any]
) -> None:
    reader("root").data(tool, slug="salt", **values)
    assert outcomes == ["locked"]
    assert change_from_elsewhere(Book, price=2) == "changed"


@pytest.mark.parametrize("model", [RareCopy, Copy])
def test_a_row_in_two_tables_is_locked_in_both(
    server: MCPServer, reader: Callable[..., Reader], books: list[Book], model: Any
) -> None:
    outcomes = []

    @register(RareCopy, server=server)
    class Rarities(ModelResource):
        fields = ("number", "note", "worth")
        lookup_field = "id"
        actions = ("update",)
        writable_fields = ("number", "note", "worth")

        def save_model(self, ctx: Context, obj: Any, change: bool) -> None:
            values = {"worth": 1} if model is RareCopy else {"note": "gone"}
            outcomes.append(change_from_elsewhere(model, **values))
            super().save_model(ctx, obj, change)

    assert Rarities
    copy = RareCopy.objects.create(book=books[0], number=1, note="x", worth=5)
    Copy.objects.create(book=books[0], number=2, note="x")
    root = reader("root")
    name = server.model_resources[RareCopy].name
    assert root.data(f"update_{name}", id=copy.pk, note="new")["worth"] == "5.00"
    assert outcomes == ["locked"]
    assert root.problem(f"update_{name}", id=copy.pk, number=2).startswith(CONFLICT_MESSAGE)


def test_what_the_database_finds_wrong_in_the_end_is_not_written(
    server: MCPServer, reader: Callable[..., Reader], books: list[Book], caplog: pytest.LogCaptureFixture
) -> None:
    class Dangling(Books):
        def save_model(self, ctx: Context, obj: Any, change: bool) -> None:
            obj.author_id = 999_999
            obj.save()

    register(Book, Dangling, server=server)
    words = reader("root").problem("update_book", slug="salt", title="Pepper")
    # SQLite says so when the transaction ends, where nobody can tell any more what it is about.
    assert words.startswith(CONFLICT_MESSAGE if connection.vendor == "postgresql" else "Internal server error.")
    assert "author" not in words
    assert Book.objects.get(slug="salt").title == "Salt"


def test_nothing_is_left_of_a_row_that_could_not_be_created(
    server: MCPServer, reader: Callable[..., Reader], books: list[Book]
) -> None:
    class Hiding(ModelResource):
        fields = ("name",)
        actions = ("create",)
        writable_fields = ("name",)

        def get_queryset(self, ctx: Context) -> Any:
            return Author.objects.exclude(name="Nobody")

        def save_model(self, ctx: Context, obj: Any, change: bool) -> None:
            super().save_model(ctx, obj, change)
            Author.objects.filter(name="Anna Berg").update(email="changed@example.com")

    register(Author, Hiding, server=server)
    assert (
        reader("root").problem("create_author", name="Nobody")
        == "The author was not created: its values would make it invisible to you. Change them and retry."
    )
    assert not Author.objects.filter(name="Nobody").exists()
    assert not Author.objects.filter(email="changed@example.com").exists()
