"""Values that callers give: what fits is written, what does not is refused in words that help."""

import datetime
from collections.abc import Callable
from typing import Any

import pytest
from django import forms
from django.contrib.sessions.models import Session
from django.core.checks import run_checks
from django.db import models

from django_mcp import MCPServer, ModelResource, register
from django_mcp.model_resources.schema import input_type, json_type
from django_mcp.model_resources.writes import NOT_SET
from django_mcp.primitives import field_schema
from django_mcp.primitives.function import EMPTY, Parameter
from django_mcp.primitives.schema import ArgumentError, Arguments
from tests.model_resources.conftest import Reader, registering
from tests.model_resources.library.models import Book, Copy, Leaf, Place, PlaceField

pytestmark = pytest.mark.postgresql


def accepted(annotation: Any, value: Any) -> Any:
    return Arguments([Parameter("value", annotation, EMPTY, None)], "test").validate({"value": value})["value"]


def refused(annotation: Any, value: Any) -> str:
    with pytest.raises(ArgumentError) as caught:
        accepted(annotation, value)
    return str(caught.value)


@pytest.fixture
def root(server: MCPServer, reader: Callable[..., Reader], books: list[Book]) -> Reader:
    @register(Book, server=server)
    class Books(ModelResource):
        fields = ("title", "author")
        lookup_field = "slug"

    @register(Copy, server=server)
    class Copies(ModelResource):
        fields = ("number", "note", "lent", "due", "opened")
        actions = ("create", "update")
        writable_fields = ("book", "number", "note", "lent", "due", "opened")

    assert Books
    assert Copies
    return reader("root")


@pytest.fixture
def author(server: MCPServer, reader: Callable[..., Reader], books: list[Book]) -> Callable[..., str]:
    """Writes into a book of an author that save_model does not set, and gives the words of the refusal."""

    @register(Book, server=server)
    class Books(ModelResource):
        fields = (
            "title",
            "slug",
            "price",
            "pages",
            "text",
            "extra",
            "binding",
            "reading_time",
            "added",
            "weight",
            "published",
        )
        lookup_field = "slug"
        actions = ("create", "update")
        writable_fields = fields

    assert Books

    def change(**values: Any) -> str:
        answer = reader("root").call("update_book", slug="salt", **values)
        return answer.text if answer.result.get("isError") else ""

    return change


class TestWords:
    def test_a_value_that_must_be_unique_is_told_without_whose_it_is(self, author: Callable[..., str]) -> None:
        assert author(new_slug="tides") == "Argument 'new_slug': Book with this Slug already exists."

    def test_values_that_must_be_unique_together_are_named(self, root: Reader, books: list[Book]) -> None:
        Copy.objects.create(book=books[0], number=1, note="hers")
        words = root.problem("create_copy", book="salt", number=1, note="mine")
        assert words == "Copy with this Book and Number already exists."
        assert root.data("create_copy", book="salt", number=2, note="mine")["number"] == 2

    def test_uniqueness_with_values_that_were_not_given_is_looked_at_too(self, root: Reader, books: list[Book]) -> None:
        Copy.objects.create(book=books[0], number=1, note="x")
        other = Copy.objects.create(book=books[1], number=1, note="x")
        words = root.problem("update_copy", pk=other.pk, book="salt")
        assert words == "Copy with this Book and Number already exists."

    def test_what_is_hidden_is_not_named_where_it_must_be_unique(
        self, server: MCPServer, reader: Callable[..., Reader], books: list[Book]
    ) -> None:
        @register(Copy, server=server)
        class Copies(ModelResource):
            fields = ("note",)
            actions = ("update",)
            writable_fields = ("number",)

        assert Copies
        Copy.objects.create(book=books[0], number=1, note="x")
        other = Copy.objects.create(book=books[0], number=2, note="x")
        words = reader("root").problem("update_copy", pk=other.pk, number=1)
        assert words.startswith("The values conflict")
        assert "ook" not in words

    def test_a_constraint_that_has_words_of_its_own_is_told_in_them(self, root: Reader) -> None:
        assert root.problem("create_copy", book="salt", number=0, note="x") == "Copies are counted from 1."

    def test_a_constraint_that_has_none_is_told_without_its_name(self, root: Reader) -> None:
        words = root.problem("create_copy", book="salt", number=1, note="x", lent="2026-01-02", due="2026-01-01")
        assert words.startswith("The values conflict")
        assert "hidden" not in words

    def test_a_constraint_on_values_that_were_not_given_is_looked_at_too(self, root: Reader, books: list[Book]) -> None:
        copy = Copy.objects.create(book=books[0], number=1, note="x", lent=datetime.date(2026, 1, 2))
        assert root.problem("update_copy", pk=copy.pk, due="2026-01-01").startswith("The values conflict")

    def test_the_model_s_own_clean_is_asked_and_fields_that_cannot_be_written_are_not_named(self, root: Reader) -> None:
        words = root.problem("create_copy", book="salt", number=1, note="lost", lent="2026-01-02")
        assert words == "Argument 'note': What is lost cannot be lent. Somebody has to find it."

    def test_validators_of_a_field_say_which_argument(self, author: Callable[..., str]) -> None:
        assert author(title="") == "Argument 'title': This field is required."
        assert author(price="1.005") == "Argument 'price': Ensure that there are no more than 2 decimal places."
        assert author(new_slug="no slug").startswith("Argument 'new_slug': Enter a valid")

    def test_what_was_not_given_is_not_validated(self, author: Callable[..., str]) -> None:
        Book.objects.filter(slug="salt").update(title="")
        assert author(price="1.00") == ""
        assert Book.objects.get(slug="salt").title == ""
        Book.objects.filter(slug="salt").update(binding="leather", price="1.005")
        assert author(pages=7) == ""
        assert Book.objects.get(slug="salt").binding == "leather"

    def test_texts_are_written_as_they_are_given(self, author: Callable[..., str]) -> None:
        assert author(text="  indented\n") == ""
        assert Book.objects.get(slug="salt").text == "  indented\n"

    def test_words_of_django_are_in_the_language_of_the_caller(
        self, author: Callable[..., str], server: MCPServer, reader: Callable[..., Reader]
    ) -> None:
        root = reader("root")
        params = {"name": "update_book", "arguments": {"slug": "salt", "title": ""}}
        answer = root.request("tools/call", params, headers={"accept-language": "de"})
        assert answer.text == "Argument 'title': Dieses Feld ist zwingend erforderlich."


class TestWrongValues:
    def test_are_refused_in_words_that_name_the_argument(self, author: Callable[..., str]) -> None:
        refusals: list[tuple[dict[str, Any], str]] = [
            ({"title": "x" * 201}, "Argument 'title': Ensure this value has at most 200 characters (it has 201)."),
            ({"text": "x" * 100_001}, "Argument 'text' must have at most 100000 characters, not 100001."),
            ({"title": "a\0b"}, "Argument 'title' must not contain NUL"),
            ({"title": 5}, "Argument 'title' must be a string"),
            ({"title": ["Salt"]}, "Argument 'title' must be a string"),
            ({"title": {"title": "Salt"}}, "Argument 'title' must be a string"),
            ({"pages": 10**30}, "Argument 'pages'"),
            ({"pages": -1}, "Argument 'pages'"),
            ({"pages": "many"}, "Argument 'pages'"),
            ({"pages": "007"}, "Argument 'pages' must be an integer, not '007'"),
            ({"weight": "1,5"}, "Argument 'weight' must be a number, not '1,5'"),
            ({"pages": None}, "Argument 'pages' must be an integer, not null"),
            ({"title": None}, "Argument 'title' must be a string, not null"),
            ({"price": None}, "Argument 'price' must be a number, not null"),
            ({"price": "1000000"}, "Argument 'price'"),
            ({"price": "NaN"}, "Argument 'price'"),
            ({"price": "1E-999999999"}, "Argument 'price'"),
            ({"price": "0E+999999999"}, "Argument 'price'"),
            (
                {"binding": "leather"},
                "Argument 'binding': Select a valid choice. leather is not one of the available choices.",
            ),
            ({"extra": {"a": ["\0"]}}, "Argument 'extra' must not contain NUL"),
            ({"extra": {"\0": 1}}, "Argument 'extra' must not contain NUL"),
            ({"extra": "x" * 100_001}, "Argument 'extra' must have at most 100000 bytes"),
            ({"reading_time": "forever"}, "Argument 'reading_time'"),
            ({"added": "0001-01-01T00:00:00"}, "Argument 'added'"),
            ({"added": "05/31/2030 14:30"}, "Argument 'added': Enter a valid date/time."),
            ({"published": "05/31/2030"}, "Argument 'published': Enter a valid date. Example: 2026-05-31."),
            ({"published": 20300531}, "Argument 'published' must be a"),
            ({"internal": "seen"}, "Unknown argument 'internal'."),
            ({"id": 1}, "Unknown argument 'id'."),
            ({"pk": 1}, "Unknown argument 'pk'."),
            ({"author_id": 1}, "Unknown argument 'author_id'."),
            ({"title__startswith": "S"}, "Unknown argument 'title__startswith'."),
        ]
        before = Book.objects.filter(slug="salt").values().get()
        wrong = []
        for values, words in refusals:
            told = author(**values)
            if not told.startswith(words) or Book.objects.filter(slug="salt").values().get() != before:
                wrong.append((str(values)[:100], told))
        assert wrong == []

    def test_json_is_refused_where_it_is_too_deep_to_be_read_again(self, author: Callable[..., str]) -> None:
        deep: Any = 1
        for _ in range(60):
            deep = [deep]
        assert "must not be nested deeper than 50" in author(extra=deep)

    def test_a_duration_that_no_database_holds_is_refused(self, author: Callable[..., str]) -> None:
        from django.db import connection

        words = author(reading_time="P999999999D")
        assert words == (
            ""
            if connection.vendor == "postgresql"
            else "A value is out of range for the database. Use a smaller or shorter value."
        )

    def test_a_time_has_no_offset(self, root: Reader) -> None:
        words = root.problem("create_copy", book="salt", number=1, note="x", opened="10:00:00Z")
        assert words.startswith("Argument 'opened' must not have a UTC offset")
        assert root.data("create_copy", book="salt", number=1, note="x", opened="10:00:00")["opened"] == "10:00:00"

    def test_long_texts_can_be_written_where_the_column_is_long(self, author: Callable[..., str]) -> None:
        assert author(text="x" * 100_000, title="y" * 200) == ""
        salt = Book.objects.get(slug="salt")
        assert (len(salt.text), len(salt.title)) == (100_000, 200)


class TestTypes:
    def test_a_number_without_limits_still_has_to_be_one_that_can_be_written_out(self) -> None:
        annotation = input_type(models.DecimalField())
        assert "must have a decimal exponent" in refused(annotation, "1E+999999999")


class TestColumnsOfOtherPackages:
    @pytest.fixture
    def leaves(self, server: MCPServer, reader: Callable[..., Reader], people: Any) -> Reader:
        @register(Leaf, server=server)
        class Leaves(ModelResource):
            fields = ("title", "body", "place")
            actions = ("create", "update")
            writable_fields = ("title", "body", "place")
            plural = "leaves"

            def save_model(self, ctx: Any, obj: Any, change: bool) -> None:
                if not change:
                    obj.path, obj.depth = f"{Leaf.objects.count():04d}", 1
                obj.save()

        assert Leaves
        return reader("root")

    def test_take_json_or_text_with_no_limits_but_their_own(self, leaves: Reader) -> None:
        (tool,) = [each for each in leaves.list("tools/list") if each["name"] == "create_leaf"]
        properties = tool["inputSchema"]["properties"]
        assert properties["body"]["description"] == "A BlocksField, as JSON. What is on it."
        assert properties["place"] == {
            "description": "A PlaceField, as text.",
            "anyOf": [{"type": "string"}, {"type": "null"}],
        }

    def test_are_written_as_they_are_shown(self, leaves: Reader) -> None:
        body = [{"type": "h2", "value": "Salt"}, {"type": "p", "value": "Of the sea. " * 100}]
        made = leaves.data("create_leaf", title="Reef", body=body, place="B/7")
        assert (made["body"], made["place"]) == (body, "B/7")
        (listed,) = leaves.data("search_leaves")["rows"]
        assert listed["body"].startswith('[{"type":"h2","value":"Salt"},{"type":"p","value":"Of the sea.')
        assert listed["body"].endswith(f" more characters: {made['uri']})")
        changed = leaves.data("update_leaf", pk=made["pk"], body=body[:1], place=None)
        assert (changed["body"], changed["place"]) == (body[:1], None)
        assert str(Leaf.objects.get().body[0]) == "<h2>Salt</h2>"
        assert leaves.data("search_leaves")["rows"][0]["body"] == body[:1]

    def test_are_refused_where_their_class_or_its_form_field_does_not_take_them(
        self, leaves: Reader, caplog: pytest.LogCaptureFixture, subtests: pytest.Subtests
    ) -> None:
        refusals: list[tuple[dict[str, Any], str]] = [
            ({"body": "Salt"}, "Argument 'body': not a valid value of this field."),
            ({"body": [{"kind": "p"}]}, "Argument 'body': not a valid value of this field."),
            ({"body": [{"type": "p", "value": 7}]}, "Argument 'body': not a valid value of this field."),
            ({"body": []}, "Argument 'body': This field is required."),
            (
                {"body": [{"type": "p", "value": " "}]},
                """Argument 'body': Some blocks are wrong. {"blockErrors": {"0": "Write something."}}""",
            ),
            (
                {"body": [{"type": "p", "value": "x"}, {"type": "script", "value": "x"}]},
                "Argument 'body': only 1 of 2 items of the list have an allowed type.",
            ),
            (
                {"body": [{"type": "p", "value": "x", "colour": "red"}]},
                "Argument 'body': unknown key 'colour' in [0].",
            ),
            ({"place": "7"}, "Argument 'place': not a valid value of this field."),
        ]
        for values, words in refusals:
            with subtests.test(values=values):
                given = {"title": "Reef", "body": [{"type": "p", "value": "x"}], **values}
                assert leaves.problem("create_leaf", **given) == words
        assert not Leaf.objects.exists()
        assert "could not be read" in caplog.text

    def test_may_be_written_through_a_form(self, server: MCPServer, reader: Callable[..., Reader], people: Any) -> None:
        class LeafForm(forms.ModelForm):
            class Meta:
                model = Leaf
                fields = ("title", "body", "place")

            def clean(self) -> None:
                self.instance.path, self.instance.depth = "1", 1

        @register(Leaf, server=server)
        class Leaves(ModelResource):
            fields = ("title", "body", "place")
            actions = ("create", "update")
            form = LeafForm

        assert Leaves
        root = reader("root")
        made = root.data("create_leaf", title="Reef", body=[{"type": "p", "value": "x"}], place="B/7")
        assert (made["body"], made["place"]) == ([{"type": "p", "value": "x"}], "B/7")
        assert root.data("update_leaf", pk=made["pk"], title="Salt")["body"] == made["body"]
        assert root.problem("update_leaf", pk=made["pk"], body=7).startswith("Argument 'body': not a valid value")
        words = root.problem("update_leaf", pk=made["pk"], body=[{"type": "script", "value": "x"}])
        assert words.startswith("Argument 'body': only 0 of 1 items of the list")

    def test_are_read_and_shown_as_the_site_registered_them(
        self, server: MCPServer, reader: Callable[..., Reader], people: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shape = {"type": "object", "properties": {"shelf": {"type": "string"}, "number": {"type": "integer"}}}
        monkeypatch.setattr(field_schema, "_TYPES", dict(field_schema._TYPES))
        field_schema.register_field(
            PlaceField,
            schema=shape,
            from_json=lambda value: Place(value["shelf"], value["number"]),
            to_json=lambda place: {"shelf": place.shelf, "number": place.number},
        )

        @register(Leaf, server=server)
        class Leaves(ModelResource):
            fields = ("title", "place")
            actions = ("create", "update")
            writable_fields = ("title", "body", "place")

            def save_model(self, ctx: Any, obj: Any, change: bool) -> None:
                obj.path, obj.depth = "1", 1
                obj.save()

        assert Leaves
        root, body = reader("root"), [{"type": "p", "value": "x"}]
        made = root.data("create_leaf", title="Reef", body=body, place={"shelf": "B", "number": 7})
        assert made["place"] == {"shelf": "B", "number": 7}
        assert root.data("update_leaf", pk=made["pk"], title="Salt")["place"] == made["place"]
        assert root.data("update_leaf", pk=made["pk"], place=None)["place"] is None
        words = root.problem("update_leaf", pk=made["pk"], place={"shelf": "B"})
        assert words == "Argument 'place': not a valid value of this field."

    def test_are_neither_compared_nor_sorted_by_where_they_hold_json(self, server: MCPServer) -> None:
        declared: list[dict[str, Any]] = [
            {"filterset_fields": ["body"]},
            {"filterset_fields": ["body__gte"]},
            {"filterset_fields": ["body__icontains"]},
            {"ordering_fields": ["body"]},
            {"aggregates": {}, "group_by_fields": ["body"]},
            {"aggregates": {"body": ["max"]}},
        ]
        for attributes in declared:
            with registering(server):
                register(Leaf, type("Leaves", (ModelResource,), {"fields": ["body"], **attributes}), server=server)
                found = {each.id for each in run_checks(tags=["django_mcp"]) if "Leaf" in str(each.msg)}
                assert found == {"django_mcp.E022"}, attributes


def test_a_column_of_another_package_has_the_type_of_its_own_values() -> None:
    class CodeField(models.IntegerField):
        def from_db_value(self, value: int, *_: Any) -> str:
            return f"N{value}"

    class DaysField(models.CharField):
        def from_db_value(self, value: str, *_: Any) -> list[str]:
            return value.split(",")

    class CountedField(models.IntegerField):
        def from_db_value(self, value: int, *_: Any) -> int:
            return value

    class LockedField(models.CharField):
        def from_db_value(self, value: str, *_: Any) -> str:
            raise ValueError("not encrypted")

    assert json_type(CodeField()) == {"type": "string"}
    assert accepted(input_type(CodeField()), "N7") == "N7"
    assert json_type(DaysField(choices=[("mo", "Monday")])) == {"type": "array", "items": {"type": "string"}}
    assert json_type(CountedField()) == {"type": "integer"}
    assert json_type(LockedField()) == {"type": "string"}


class TestFieldsThatAreNoArguments:
    @pytest.mark.parametrize("shown", [("title",), ("title", "depth")])
    def test_are_named_where_they_are_shown_and_in_the_log_in_any_case(
        self,
        server: MCPServer,
        reader: Callable[..., Reader],
        people: Any,
        shown: tuple[str, ...],
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        @register(Leaf, server=server)
        class Leaves(ModelResource):
            fields = shown
            actions = ("create",)
            writable_fields = ("title", "body")

        assert Leaves
        words = reader("root").problem("create_leaf", title="Reef", body=[{"type": "p", "value": "x"}])
        missing = NOT_SET
        named = "Field 'depth', which this tool does not set: This field cannot be null."
        assert words == " ".join([missing, named] if "depth" in shown else [missing])
        assert "library.Leaf could not be written: {'path': ['This field cannot be blank.']" in caplog.text
        assert "'depth': ['This field cannot be null.']" in caplog.text

    def test_a_key_that_nobody_sets_is_not_saved_as_an_empty_text(
        self, server: MCPServer, reader: Callable[..., Reader], people: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        @register(Session, server=server)
        class Sessions(ModelResource):
            fields = ("expire_date",)
            actions = ("create",)
            writable_fields = ("session_data", "expire_date")

        assert Sessions
        given = {"session_data": "nobody", "expire_date": "2026-12-01T00:00:00Z"}
        assert reader("root").problem("create_session", **given) == NOT_SET
        assert not Session.objects.filter(session_data="nobody").exists()
        assert "sessions.Session could not be written: {'session_key'" in caplog.text

    def test_a_key_that_save_model_sets_is_saved(
        self, server: MCPServer, reader: Callable[..., Reader], people: Any
    ) -> None:
        @register(Session, server=server)
        class Sessions(ModelResource):
            fields = ("expire_date",)
            actions = ("create",)
            writable_fields = ("session_data", "expire_date")

            def save_model(self, ctx: Any, obj: Any, change: bool) -> None:
                obj.session_key = "abc"
                super().save_model(ctx, obj, change)

        assert Sessions
        reader("root").data("create_session", session_data="abc", expire_date="2026-12-01T00:00:00Z")
        assert Session.objects.get(session_data="abc").session_key == "abc"
