"""Creating, changing and deleting rows: what a declaration opts in to, and for whom."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from django.contrib.auth.models import User

from django_mcp import Context, MCPServer, ModelResource, register
from tests.model_resources.allowing import Books, allow
from tests.model_resources.conftest import Reader
from tests.model_resources.library.models import Book, Copy, Publisher, Review

WRITING = {"create_book", "update_book", "delete_book"}


@pytest.fixture
def ann(server: MCPServer, reader: Callable[..., Reader], books: list[Book], people: Mapping[str, User]) -> Reader:
    """Ann may do everything to books, all of which she sees."""
    register(Book, Books, server=server)
    allow(people["ann"], "add_book", "change_book", "delete_book")
    return reader("ann")


def tool(reader: Reader, name: str) -> dict[str, Any]:
    return next(each for each in reader.list("tools/list") if each["name"] == name)


class TestOptingIn:
    def test_nothing_can_be_written_unless_a_verb_says_so(
        self, server: MCPServer, reader: Callable[..., Reader], books: list[Book]
    ) -> None:
        class Quiet(Books):
            actions = ()

        register(Book, Quiet, server=server)
        assert not reader("root").tool_names() & WRITING

    @pytest.mark.parametrize("verb", ["create", "update", "delete"])
    def test_each_verb_is_a_tool_of_its_own(
        self, server: MCPServer, reader: Callable[..., Reader], books: list[Book], verb: str
    ) -> None:
        register(Book, type("OneVerb", (Books,), {"actions": (verb,)}), server=server)
        assert reader("root").tool_names() & WRITING == {f"{verb}_book"}

    def test_hints_tell_which_verbs_destroy_and_which_may_be_repeated(self, ann: Reader) -> None:
        hints = {name: tool(ann, name)["annotations"] for name in WRITING}
        plain = {"readOnlyHint": False, "openWorldHint": False}
        assert hints == {
            "create_book": {**plain, "destructiveHint": False, "idempotentHint": False},
            "update_book": {**plain, "destructiveHint": True, "idempotentHint": True},
            "delete_book": {**plain, "destructiveHint": True, "idempotentHint": True},
        }

    def test_arguments_are_those_of_write_fields_and_no_others(self, ann: Reader) -> None:
        create, update = tool(ann, "create_book")["inputSchema"], tool(ann, "update_book")["inputSchema"]
        assert set(create["properties"]) == set(Books.writable_fields)
        assert create["required"] == ["title", "slug"]
        assert set(update["properties"]) == {*Books.writable_fields, "new_slug"}
        assert update["required"] == ["slug"]
        assert tool(ann, "delete_book")["inputSchema"]["required"] == ["slug"]

    def test_what_may_be_left_out_has_no_default_that_looks_like_a_value(self, ann: Reader) -> None:
        assert all("default" not in each for each in tool(ann, "update_book")["inputSchema"]["properties"].values())

    def test_an_answer_has_the_schema_of_get(self, ann: Reader) -> None:
        shape = tool(ann, "get_book")["outputSchema"]
        assert tool(ann, "create_book")["outputSchema"] == tool(ann, "update_book")["outputSchema"] == shape


class TestPeople:
    @pytest.mark.parametrize(
        ("permissions", "expected"),
        [
            (["view_book"], set()),
            (["view_book", "add_book"], {"create_book"}),
            (["view_book", "change_book"], {"update_book"}),
            (["view_book", "delete_book"], {"delete_book"}),
            (["add_book", "change_book", "delete_book"], set()),
        ],
    )
    def test_who_may_not_view_and_write_is_neither_shown_nor_given_the_tool(
        self,
        ann: Reader,
        reader: Callable[..., Reader],
        people: Mapping[str, User],
        permissions: list[str],
        expected: set[str],
    ) -> None:
        allow(people["bob"], *permissions)
        bob = reader("bob")
        assert bob.tool_names() & WRITING == expected
        arguments = {
            "create_book": {"title": "New", "slug": "new"},
            "update_book": {"slug": "salt", "title": "Changed"},
            "delete_book": {"slug": "tides"},
        }
        for name in WRITING:
            answer = bob.call(name, **arguments[name])
            if name in expected:
                assert not answer.result.get("isError"), answer.text
            else:
                assert answer.error["message"] == f"Unknown tool: '{name}'."
        assert Book.objects.filter(slug="new").exists() == ("create_book" in expected)
        assert Book.objects.filter(title="Changed").exists() == ("update_book" in expected)
        assert Book.objects.filter(slug="tides").exists() == ("delete_book" not in expected)

    def test_nobody_writes_without_signing_in(self, ann: Reader, reader: Callable[..., Reader]) -> None:
        assert not reader().tool_names() & WRITING
        assert reader().call("delete_book", slug="salt").error["message"] == "Unknown tool: 'delete_book'."

    def test_writing_needs_the_scopes_for_reading_and_those_for_writing(
        self, server: MCPServer, reader: Callable[..., Reader], books: list[Book]
    ) -> None:
        class Scoped(Books):
            scopes = ("books",)
            write_scopes = ("books:write",)

        register(Book, Scoped, server=server)
        for scopes, expected in [("books", set()), ("books:write", set()), ("books books:write", WRITING)]:
            client = reader("root", f"travel:read {scopes}")
            assert client.tool_names() & WRITING == expected
            answer = client.call("update_book", slug="salt", title="Changed")
            assert ("result" in answer.json) == bool(expected)

    def test_who_may_not_change_a_row_they_see_is_told_so(
        self, server: MCPServer, reader: Callable[..., Reader], books: list[Book]
    ) -> None:
        class Owned(Books):
            def has_change_permission(self, ctx: Any, obj: Any = None) -> bool:
                return obj is None or obj.owner == ctx.user

            has_delete_permission = has_change_permission

        register(Book, Owned, server=server)
        ann = reader("ann")
        assert (
            ann.problem("update_book", slug="tides", title="Mine") == "You do not have permission to update this book."
        )
        assert ann.problem("delete_book", slug="tides") == "You do not have permission to delete this book."
        assert ann.data("update_book", slug="salt", title="Mine")["title"] == "Mine"
        assert ann.data("delete_book", slug="salt") == {"deleted": "library://book/salt"}
        assert Book.objects.get(slug="tides").title == "Tides"


class TestCreating:
    def test_it_gives_the_row_as_get_does(self, ann: Reader) -> None:
        made = ann.data("create_book", title="Reef", slug="reef", price="3.50", extra={"a": [1]})
        assert made == ann.data("get_book", slug="reef")
        assert made["uri"] == "library://book/reef"
        assert made["price"] == "3.50"
        assert made["extra"] == {"a": [1]}

    def test_what_is_left_out_has_the_model_s_default(self, ann: Reader) -> None:
        made = ann.data("create_book", title="Reef", slug="reef")
        assert (made["price"], made["binding"], made["pages"], made["extra"]) == ("10.00", "paper", 100, None)

    def test_what_the_model_needs_has_to_be_given(self, ann: Reader) -> None:
        assert ann.problem("create_book", title="Reef") == "Missing argument 'slug'."

    def test_what_neither_caller_nor_site_gave_is_told_in_general_words(
        self, server: MCPServer, reader: Callable[..., Reader], books: list[Book], caplog: pytest.LogCaptureFixture
    ) -> None:
        class Forgetful(Books):
            save_model = ModelResource.save_model

        register(Book, Forgetful, server=server)
        words = reader("root").problem("create_book", title="Reef", slug="reef")
        assert words.startswith("The values conflict with each other or with existing data")
        assert "author" not in words
        assert not Book.objects.filter(slug="reef").exists()
        assert "could not be written" in caplog.text

    def test_a_row_its_creator_could_not_see_is_not_created(
        self, server: MCPServer, reader: Callable[..., Reader], books: list[Book]
    ) -> None:
        class Cheap(Books):
            def get_queryset(self, ctx: Context) -> Any:
                return Book.objects.filter(price__lt=100)

        register(Book, Cheap, server=server)
        words = reader("root").problem("create_book", title="Reef", slug="reef", price="200")
        assert words == "The book was not created: its values would make it invisible to you. Change them and retry."
        assert not Book.objects.filter(slug="reef").exists()
        assert reader("root").data("create_book", title="Reef", slug="reef", price="20")["title"] == "Reef"


class TestChanging:
    def test_only_what_is_given_changes(self, ann: Reader) -> None:
        before = Book.objects.filter(slug="salt").values().get()
        changed = ann.data("update_book", slug="salt", price="1.25")
        assert changed == ann.data("get_book", slug="salt")
        assert changed["price"] == "1.25"
        after = Book.objects.filter(slug="salt").values().get()
        assert {key for key in after if before[key] != after[key]} == {"price"}

    def test_the_same_again_changes_nothing_more(self, ann: Reader) -> None:
        first = ann.data("update_book", slug="salt", title="Pepper", published="2026-01-02")
        assert ann.data("update_book", slug="salt", title="Pepper", published="2026-01-02") == first

    def test_at_least_one_value_has_to_be_given(self, ann: Reader) -> None:
        words = ann.problem("update_book", slug="salt")
        assert words.startswith("Nothing to update. Give at least one of: 'title', 'new_slug', 'price'")

    def test_null_is_a_value_where_there_may_be_none(self, ann: Reader) -> None:
        ann.data("update_book", slug="salt", published="2026-01-02", weight=1.5, extra={})
        emptied = ann.data("update_book", slug="salt", published=None, weight=None, extra=None)
        assert (emptied["published"], emptied["weight"], emptied["extra"]) == (None, None, None)
        assert Book.objects.filter(slug="salt", extra__isnull=True).exists()
        assert "must be a string" in ann.problem("update_book", slug="salt", title=None)

    def test_a_row_can_be_given_another_address(self, ann: Reader) -> None:
        moved = ann.data("update_book", slug="salt", new_slug="pepper")
        assert moved["uri"] == "library://book/pepper"
        assert ann.problem("get_book", slug="salt") == "No book with slug 'salt' found."

    def test_a_row_cannot_be_moved_out_of_its_caller_s_sight(
        self, server: MCPServer, reader: Callable[..., Reader], books: list[Book]
    ) -> None:
        class Cheap(Books):
            def get_queryset(self, ctx: Context) -> Any:
                return Book.objects.filter(price__lt=100)

        register(Book, Cheap, server=server)
        words = reader("root").problem("update_book", slug="salt", price="200", title="Gone")
        assert words.startswith("The book was not updated: the new values would make it invisible")
        salt = Book.objects.get(slug="salt")
        assert (str(salt.price), salt.title) == ("12.50", "Salt")

    def test_a_row_that_the_door_hides_can_be_neither_changed_nor_deleted(
        self, server: MCPServer, reader: Callable[..., Reader], books: list[Book], people: Mapping[str, User]
    ) -> None:
        class Mine(Books):
            def get_queryset(self, ctx: Context) -> Any:
                return Book.objects.filter(owner=ctx.user)

        register(Book, Mine, server=server)
        allow(people["ann"], "change_book", "delete_book")
        ann = reader("ann")
        for slug in ("tides", "nosuch"):
            words = f"No book with slug '{slug}' found."
            assert ann.problem("update_book", slug=slug, title="Mine") == words
            assert ann.problem("delete_book", slug=slug) == words
        assert Book.objects.get(slug="tides").title == "Tides"

    def test_a_door_with_joins_and_annotations_works(
        self, server: MCPServer, reader: Callable[..., Reader], books: list[Book]
    ) -> None:
        class Joined(Books):
            def get_queryset(self, ctx: Context) -> Any:
                return Book.objects.select_related("owner").filter(tags__word__in=["sea", "night"]).distinct()

        register(Book, Joined, server=server)
        assert reader("root").data("update_book", slug="night-ferry", title="Ferry")["title"] == "Ferry"
        assert reader("root").problem("update_book", slug="tides", title="Mine").startswith("No book")


class TestDeleting:
    def test_it_gives_the_address_that_the_row_had(self, ann: Reader) -> None:
        assert ann.data("delete_book", slug="salt") == {"deleted": "library://book/salt"}
        assert not Book.objects.filter(slug="salt").exists()
        assert not Review.objects.exists()
        assert ann.problem("delete_book", slug="salt") == "No book with slug 'salt' found."

    def test_what_something_else_needs_stays_and_it_is_not_said_what(self, ann: Reader, books: list[Book]) -> None:
        Copy.objects.create(book=books[0], number=1, note="from Bob")
        words = ann.problem("delete_book", slug="salt")
        assert words == "This book cannot be deleted because other rows refer to it."
        assert Book.objects.filter(slug="salt").exists()

    def test_a_restricted_row_stays_too(
        self, server: MCPServer, reader: Callable[..., Reader], books: list[Book]
    ) -> None:
        class Publishers(ModelResource):
            fields = ("name",)
            actions = ("delete",)

        register(Publisher, Publishers, server=server)
        house = Publisher.objects.create(name="Small House")
        Copy.objects.create(book=books[0], number=1, note="x", place=house)
        assert "because other rows refer to it" in reader("root").problem("delete_publisher", pk=house.pk)

    def test_delete_model_decides_what_deleting_is(
        self, server: MCPServer, reader: Callable[..., Reader], books: list[Book]
    ) -> None:
        class Soft(Books):
            def get_queryset(self, ctx: Context) -> Any:
                return Book.objects.exclude(shelf="bin")

            def delete_model(self, ctx: Context, obj: Any) -> None:
                obj.shelf = "bin"
                obj.save()

        register(Book, Soft, server=server)
        root = reader("root")
        root.data("delete_book", slug="salt")
        assert root.problem("get_book", slug="salt") == "No book with slug 'salt' found."
        assert Book.objects.get(slug="salt").shelf == "bin"


class TestHooks:
    def test_save_model_knows_the_call_and_whether_the_row_is_new(
        self, server: MCPServer, reader: Callable[..., Reader], books: list[Book]
    ) -> None:
        seen: list[tuple[str, bool]] = []

        class Watched(Books):
            def save_model(self, ctx: Context, obj: Any, change: bool) -> None:
                seen.append((ctx.user.username, change))
                super().save_model(ctx, obj, change)

        register(Book, Watched, server=server)
        reader("root").data("create_book", title="Reef", slug="reef")
        reader("root").data("update_book", slug="reef", title="Atoll")
        assert seen == [("root", False), ("root", True)]

    def test_an_error_after_saving_undoes_all(
        self, server: MCPServer, reader: Callable[..., Reader], books: list[Book], caplog: pytest.LogCaptureFixture
    ) -> None:
        class Failing(Books):
            def save_model(self, ctx: Context, obj: Any, change: bool) -> None:
                super().save_model(ctx, obj, change)
                raise RuntimeError("the printer is on fire")

        register(Book, Failing, server=server)
        words = reader("root").problem("update_book", slug="salt", title="Gone")
        assert "printer" not in words
        assert Book.objects.get(slug="salt").title == "Salt"

    def test_the_site_can_ask_the_person_at_the_client_before_it_deletes(
        self, server: MCPServer, reader: Callable[..., Reader], books: list[Book]
    ) -> None:
        class Asking(Books):
            def delete_model(self, ctx: Context, obj: Any) -> None:
                ctx.confirm(f"Delete {obj.title}?")
                super().delete_model(ctx, obj)

        register(Book, Asking, server=server)
        assert server.tools["delete_book"].is_interactive
        assert not server.tools["get_book"].is_interactive
        reader("root").call("delete_book", slug="salt")  # cannot be asked
        assert Book.objects.filter(slug="salt").exists()


def test_the_number_of_queries_does_not_depend_on_how_many_rows_there_are(
    ann: Reader, books: list[Book], django_assert_num_queries: Any
) -> None:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    ann.data("update_book", slug="salt", title="Warm")
    with CaptureQueriesContext(connection) as few:
        ann.data("update_book", slug="salt", title="Pepper")
    for number in range(30):
        Book.objects.create(title="Many", slug=f"many-{number}", author=books[0].author)
    with django_assert_num_queries(len(few)):
        ann.data("update_book", slug="salt", title="Salt")
