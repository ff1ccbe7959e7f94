"""Relations that are written: only to rows that exist for the caller."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from django.contrib.auth.models import User

from django_mcp import Context, MCPServer, ModelResource, register
from tests.model_resources.allowing import allow
from tests.model_resources.conftest import Reader
from tests.model_resources.library.models import Author, Book, Tag, Ticket


class Authors(ModelResource):
    fields = ("name",)
    title_field = "name"

    def get_queryset(self, ctx: Context) -> Any:
        return Author.objects.exclude(name="Carl Dahl")


class Tags(ModelResource):
    fields = ("word",)
    lookup_field = "word"
    title_field = "word"

    def get_queryset(self, ctx: Context) -> Any:
        return Tag.objects.exclude(word="night")


class Books(ModelResource):
    fields = ("title", "author", "tags", "price")
    lookup_field = "slug"
    actions = ("create", "update")
    writable_fields = ("title", "slug", "author", "tags", "price")


@pytest.fixture
def ann(server: MCPServer, reader: Callable[..., Reader], books: list[Book], people: Mapping[str, User]) -> Reader:
    register(Author, Authors, server=server)
    register(Tag, Tags, server=server)
    register(Book, Books, server=server)
    allow(people["ann"], "add_book", "change_book")
    Tag.objects.create(word="harbour")
    return reader("ann")


def author(name: str) -> int:
    return Author.objects.get(name=name).pk


def words_of(slug: str) -> set[str]:
    return set(Book.objects.get(slug=slug).tags.values_list("word", flat=True))


class TestOneRow:
    def test_is_given_by_what_addresses_it(self, ann: Reader) -> None:
        made = ann.data("create_book", title="Reef", slug="reef", author=author("Anna Berg"))
        assert made["author"] == {"uri": f"library://author/{author('Anna Berg')}", "title": "Anna Berg"}

    def test_hidden_and_missing_have_the_same_words(self, ann: Reader) -> None:
        hidden = author("Carl Dahl")
        for tool, values in [("create_book", {"title": "Reef", "slug": "reef"}), ("update_book", {"slug": "salt"})]:
            words = ann.problem(tool, **values, author=hidden)
            assert words.startswith(f"Argument 'author': no author with pk '{hidden}' found. Choose one of: ")
            assert ann.problem(tool, **values, author=999_999) == words.replace(f"'{hidden}'", "'999999'")
        assert Book.objects.get(slug="salt").author.name == "Anna Berg"

    def test_who_may_not_view_the_other_model_finds_no_row_of_it(
        self, ann: Reader, reader: Callable[..., Reader], people: Mapping[str, User]
    ) -> None:
        allow(people["bob"], "view_book", "change_book")
        key = author("Anna Berg")
        words = reader("bob").problem("update_book", slug="tides", author=key)
        assert words == f"Argument 'author': no author with pk '{key}' found."

    def test_rows_that_must_be_asked_about_are_asked_about(
        self, server: MCPServer, reader: Callable[..., Reader], books: list[Book]
    ) -> None:
        class Asked(ModelResource):
            fields = ("name",)
            object_permissions = True

            def has_view_permission(self, ctx: Any, obj: Any = None) -> bool:
                return obj is None or obj.name == "Anna Berg"

        class Plain(Books):
            fields = ("title", "author")
            writable_fields = ("title", "author")

        register(Author, Asked, server=server)
        register(Book, Plain, server=server)
        root = reader("root")
        assert "no author" in root.problem("update_book", slug="salt", author=author("Carl Dahl"))
        assert root.data("update_book", slug="foghorn", author=author("Anna Berg"))["author"]

    def test_a_hidden_row_that_is_there_already_stays_when_something_else_changes(self, ann: Reader) -> None:
        shown = ann.data("update_book", slug="foghorn", title="Horn")
        assert shown["author"] is None
        assert Book.objects.get(slug="foghorn").author.name == "Carl Dahl"

    def test_null_takes_the_relation_away(
        self, server: MCPServer, reader: Callable[..., Reader], books: list[Book]
    ) -> None:
        class Tickets(ModelResource):
            fields = ("holder", "about")
            actions = ("create", "update")
            writable_fields = ("holder", "about")

        register(Tag, Tags, server=server)
        register(Ticket, Tickets, server=server)
        root = reader("root")
        made = root.data("create_ticket", holder="Ann", about="sea")
        assert made["about"]["title"] == "sea"
        assert root.data("update_ticket", pk=made["pk"], about=None)["about"] is None
        assert "no tag" in root.problem("update_ticket", pk=made["pk"], about="night")

    def test_limits_of_the_choice_hold(
        self,
        server: MCPServer,
        reader: Callable[..., Reader],
        books: list[Book],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(Book._meta.get_field("author").remote_field, "limit_choices_to", {"name": "Nobody"})
        register(Author, Authors, server=server)
        register(Book, type("Few", (Books,), {"fields": ("author",), "writable_fields": ("author",)}), server=server)
        words = reader("root").problem("update_book", slug="salt", author=author("Anna Berg"))
        assert words.startswith("Argument 'author': no author")


class TestSets:
    def test_are_given_by_what_addresses_their_rows(self, ann: Reader) -> None:
        made = ann.data(
            "create_book", title="Reef", slug="reef", author=author("Anna Berg"), tags=["sea", "harbour", "sea"]
        )
        assert [each["title"] for each in made["tags"]] == ["sea", "harbour"]
        assert ann.data("update_book", slug="reef", tags=["harbour"])["tags"][0]["title"] == "harbour"
        assert words_of("reef") == {"harbour"}
        assert ann.data("update_book", slug="reef", tags=[])["tags"] == []

    def test_rows_that_the_caller_cannot_see_stay_in_them(self, ann: Reader) -> None:
        assert words_of("night-ferry") == {"sea", "night"}
        ann.data("update_book", slug="night-ferry", tags=["harbour"])
        assert words_of("night-ferry") == {"harbour", "night"}

    def test_hidden_and_missing_have_the_same_words(self, ann: Reader) -> None:
        words = ann.problem("update_book", slug="salt", tags=["harbour", "night"])
        assert words.startswith("Argument 'tags': no tag with word 'night' found. Choose one of: ")
        assert ann.problem("update_book", slug="salt", tags=["harbour", "nosuch"]) == words.replace("night", "nosuch")
        assert words_of("salt") == {"sea"}

    def test_what_is_not_given_stays_as_it_is(self, ann: Reader) -> None:
        ann.data("update_book", slug="salt", title="Pepper")
        assert words_of("salt") == {"sea"}

    def test_nothing_is_written_where_a_set_cannot_be(self, ann: Reader) -> None:
        ann.problem("update_book", slug="salt", title="Pepper", tags=["night"])
        assert Book.objects.get(slug="salt").title == "Salt"

    @pytest.mark.parametrize("value", ["sea", [1], [["sea"]], ["a\0"], None, ["x"] * 501], ids=str)
    def test_wrong_values_are_refused(self, ann: Reader, value: Any) -> None:
        assert ann.problem("update_book", slug="salt", tags=value).startswith("Argument 'tags")

    def test_take_one_question_however_many_rows_are_given(self, ann: Reader) -> None:
        from django.db import connection
        from django.test.utils import CaptureQueriesContext

        Tag.objects.bulk_create([Tag(word=f"word-{number}") for number in range(40)])
        counts = []
        ann.data("update_book", slug="tides", tags=["word-0"])
        for words in (["word-1", "sea"], [f"word-{number}" for number in range(2, 40)]):
            with CaptureQueriesContext(connection) as queries:
                ann.data("update_book", slug="tides", tags=words)
            counts.append(len(queries))
        assert counts[1] == counts[0]
