"""What a field of a serializer takes, as JSON Schema."""

import datetime
import json
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils.translation import gettext_lazy
from jsonschema import Draft202012Validator
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.test import APIRequestFactory

from tests.contrib.drf.described import shown, shown_by, taken, taken_by
from tests.model_resources.library.models import Author, Book, Tag

STRING = {"type": "string", "minLength": 1}
HAS_BIG_INTEGERS = hasattr(serializers, "BigIntegerField")  # since 3.17
FILE = {"type": "object", "required": ["filename", "content"]}


class Line(serializers.Serializer):
    """Part of an order."""

    quantity = serializers.IntegerField(min_value=1)
    note = serializers.CharField(required=False, allow_blank=True)


class Upper(serializers.Field):
    """A field of a site's own."""


class OneOf(serializers.Field):
    """Another one, that has choices."""

    def __init__(self, choices: Any, *, allow_blank: bool = False, **options: Any) -> None:
        self.choices, self.allow_blank = dict(choices), allow_blank
        super().__init__(**options)


class ByKeyOrName(serializers.ModelSerializer):
    """A relation that takes more than its members."""

    class Meta:
        model = Tag
        fields = ["id", "word"]

    def to_internal_value(self, data: Any) -> Any:
        return Tag.objects.get(pk=data)


class ByHash(serializers.PrimaryKeyRelatedField):
    """A key in another form."""

    def to_internal_value(self, data: Any) -> Any:
        return super().to_internal_value(int(data, 16))


class ByLabel(serializers.RelatedField):
    """A row of a kind of its own."""


def test_a_field_becomes_a_schema(subtests: pytest.Subtests) -> None:
    for field, expected in [
        (serializers.BooleanField(), {"type": "boolean"}),
        (serializers.CharField(), STRING),
        (serializers.CharField(allow_blank=True, max_length=5), {"type": "string", "maxLength": 5}),
        (serializers.CharField(min_length=2), {"type": "string", "minLength": 2}),
        (serializers.CharField(allow_null=True), {"type": ["string", "null"], "minLength": 1}),
        (serializers.EmailField(), {"type": "string", "format": "email"}),
        (serializers.URLField(), {"type": "string", "format": "uri"}),
        (serializers.SlugField(), {**STRING, "pattern": "^[-a-zA-Z0-9_]+$"}),
        (serializers.RegexField(r"^[a-z]+\Z"), {**STRING, "pattern": "^[a-z]+$"}),
        (serializers.RegexField(r"(?i)^[a-z]+$"), STRING),
        (serializers.UUIDField(), {"type": "string", "format": "uuid"}),
        (serializers.IPAddressField(), STRING),
        (serializers.IPAddressField(protocol="IPv4"), {"type": "string", "format": "ipv4"}),
        (serializers.IntegerField(min_value=1, max_value=9), {"type": "integer", "minimum": 1, "maximum": 9}),
        (serializers.IntegerField(max_value=2**31 - 1), {"type": "integer"}),
        *([(serializers.BigIntegerField(), {"type": "integer"})] if HAS_BIG_INTEGERS else []),
        (serializers.FloatField(min_value=0.5), {"type": "number", "minimum": 0.5}),
        (
            serializers.DecimalField(6, 2, min_value=Decimal("0.01"), max_value=100),
            {
                "anyOf": [{"type": "number"}, {"type": "string"}],
                "minimum": 0.01,
                "maximum": 100,
                "description": "At most 6 digits. At most 2 decimal places.",
            },
        ),
        (serializers.DateTimeField(), {"type": "string", "format": "date-time"}),
        (serializers.DateField(), {"type": "string", "format": "date"}),
        (serializers.DateField(input_formats=["%d/%m/%Y"]), {"type": "string", "description": "DD/MM/YYYY."}),
        (serializers.TimeField(), {"type": "string", "description": "hh:mm[:ss[.uuuuuu]]."}),
        (
            serializers.DurationField(),
            {"type": "string", "description": "[DD] [HH:[MM:]]ss, or ISO 8601 such as P1DT2H."},
        ),
        (serializers.ChoiceField(["red", "blue"]), {"type": "string", "enum": ["red", "blue"]}),
        (
            serializers.ChoiceField([(1, "Low"), (2, "High")], allow_null=True),
            {"type": ["integer", "null"], "enum": [1, 2, None], "description": "1: Low; 2: High."},
        ),
        (serializers.ChoiceField(["a"], allow_blank=True), {"type": "string", "enum": ["", "a"]}),
        (serializers.ChoiceField([("in_use", "In use")]), {"type": "string", "enum": ["in_use"]}),
        (
            serializers.ChoiceField([("Warm", [("r", "Red")]), ("b", "Blue")]),
            {"type": "string", "enum": ["r", "b"], "description": "r: Red; b: Blue."},
        ),
        (
            serializers.MultipleChoiceField(choices=["a", "b"], allow_empty=False),
            {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "uniqueItems": True, "minItems": 1},
        ),
        (serializers.ListField(), {"type": "array", "items": {}}),
        (
            serializers.ListField(child=serializers.IntegerField(min_value=0), min_length=1, max_length=3),
            {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1, "maxItems": 3},
        ),
        (serializers.ListField(allow_empty=False), {"type": "array", "items": {}, "minItems": 1}),
        (
            serializers.DictField(child=serializers.FloatField()),
            {"type": "object", "additionalProperties": {"type": "number"}},
        ),
        (serializers.JSONField(), {}),
        (
            Line(),
            {
                "type": "object",
                "description": "Part of an order.",
                "properties": {"quantity": {"type": "integer", "minimum": 1}, "note": {"type": "string"}},
                "required": ["quantity"],
            },
        ),
        (Upper(), {}),
        (OneOf([("active", "Active"), ("in-use", "In use")]), {"type": "string", "enum": ["active", "in-use"]}),
        (
            OneOf([(1, "Low"), (2, "High")], allow_blank=True, allow_null=True),
            {"type": ["string", "integer", "null"], "enum": ["", 1, 2, None], "description": "1: Low; 2: High."},
        ),
        (OneOf([((1, 2), "Low")]), {}),
        (
            ByKeyOrName(),
            {
                "properties": {
                    "word": {"type": "string", "maxLength": 50, "minLength": 1, "pattern": "^[-a-zA-Z0-9_]+$"}
                },
                "description": "An object, or another value that identifies a tag, such as its key.",
            },
        ),
        (ByHash(queryset=User.objects.all()), {"description": "Key of a user."}),
        (ByLabel(queryset=User.objects.all()), {}),
        (
            serializers.PrimaryKeyRelatedField(queryset=User.objects.all()),
            {"type": "integer", "description": "Key of a user."},
        ),
        (
            serializers.PrimaryKeyRelatedField(queryset=User.objects.all(), pk_field=serializers.UUIDField()),
            {"type": "string", "format": "uuid", "description": "Key of a user."},
        ),
        (
            serializers.SlugRelatedField("word", queryset=Tag.objects.all(), many=True),
            {"type": "array", "items": {"type": "string", "description": "The word of a tag."}},
        ),
        (
            serializers.HyperlinkedRelatedField("user-detail", queryset=User.objects.all()),
            {"type": "string", "format": "uri", "description": "URL of a user."},
        ),
        (serializers.ModelField(Book._meta.get_field("pages")), {"type": "integer"}),
        (
            serializers.CharField(label="Your name", help_text="As in your passport.", default="Ann"),
            {**STRING, "title": "Your name", "description": "As in your passport.", "default": "Ann"},
        ),
        (serializers.IntegerField(default=lambda: 5), {"type": "integer"}),
        (
            serializers.DateField(default=datetime.date(2030, 5, 1)),
            {"type": "string", "format": "date", "default": "2030-05-01"},
        ),
    ]:
        with subtests.test(field=field, expected=expected):
            schema = taken_by(field)
            assert schema == expected
            Draft202012Validator.check_schema(schema)


def test_a_file_is_an_object_with_its_name_and_its_bytes_in_base64(subtests: pytest.Subtests) -> None:
    for field in [serializers.FileField(), serializers.ImageField()]:
        with subtests.test(field=field):
            schema = taken_by(field)
            assert (schema["type"], schema["required"]) == (FILE["type"], FILE["required"])
            assert schema["properties"]["content"]["contentEncoding"] == "base64"


def test_a_file_field_that_takes_text_itself_is_text() -> None:
    class Base64File(serializers.FileField):
        def to_internal_value(self, data: Any) -> Any:
            return data

    assert taken_by(Base64File()) == {"type": "string"}


def test_which_files_a_server_has_is_not_told(tmp_path: Any) -> None:
    (tmp_path / "secret.txt").touch()
    assert taken_by(serializers.FilePathField(str(tmp_path))) == {"type": "string"}


def test_choices_that_are_rows_are_not_listed(db: None) -> None:
    User.objects.create_user("somebody")
    assert "enum" not in taken_by(serializers.SlugRelatedField("username", queryset=User.objects.all()))


class BookSerializer(serializers.ModelSerializer):
    now = serializers.HiddenField(default=5)
    secret = serializers.CharField(write_only=True)

    class Meta:
        model = Book
        fields = ["key", "title", "author", "pages", "now", "secret"]
        read_only_fields = ["key"]


def test_what_a_caller_cannot_give_is_left_out() -> None:
    assert set(taken(BookSerializer())["properties"]) == {"title", "author", "pages", "secret"}


def test_a_partial_update_requires_nothing() -> None:
    assert "title" in taken(BookSerializer())["required"]
    assert "required" not in taken(BookSerializer(partial=True))


def test_lists_of_objects_are_told_with_their_limits() -> None:
    schema = taken(Line(many=True, min_length=1, max_length=3))
    assert (schema["type"], schema["minItems"], schema["maxItems"]) == ("array", 1, 3)
    assert schema["items"]["required"] == ["quantity"]


def test_words_wait_for_the_language_of_the_reader() -> None:
    from django.utils import translation

    schema = taken_by(serializers.CharField(help_text=gettext_lazy("Yes"), label=gettext_lazy("No")))
    with translation.override("de"):
        assert (str(schema["description"]), str(schema["title"])) == ("Ja", "Nein")


def test_a_relation_through_a_key_that_is_a_relation_has_the_type_at_its_end() -> None:
    field = serializers.PrimaryKeyRelatedField(queryset=Author.objects.all())
    assert taken_by(field)["type"] == "integer"


class OwnAuthor(serializers.PrimaryKeyRelatedField):
    """The usual way to offer only rows of the user."""

    def get_queryset(self) -> Any:
        return Author.objects.filter(pk=self.context["request"].user)


class OwnAuthorByName(serializers.SlugRelatedField):
    """Likewise."""

    def get_queryset(self) -> Any:
        return Author.objects.filter(pk=self.context["request"].user)


class OwnBook(serializers.ModelSerializer):
    author = OwnAuthor()
    tags = OwnAuthor(many=True)
    co_author = OwnAuthorByName("name", source="author")
    other = OwnAuthor(source="author", read_only=True)

    class Meta:
        model = Book
        fields = ["author", "tags", "co_author", "other"]


def test_a_relation_whose_rows_are_those_of_the_user_is_described_without_one() -> None:
    """``MailRule.account`` of paperless-ngx: a filter by an anonymous user is a TypeError."""
    request = Request(APIRequestFactory().post("/"))
    for context in ({}, {"request": request}):
        found = taken(OwnBook(context=context))["properties"]
        assert found["author"] == {"type": "integer", "description": "Key of an author."}
        assert found["tags"]["items"]["type"] == "integer"
        assert found["co_author"]["description"] == "The name of an author."
        assert shown(OwnBook(context=context))["properties"]["other"] == {"type": "integer"}


def test_a_lazy_help_text_is_told_beside_what_the_type_says_of_itself() -> None:
    for field, more in [
        (
            serializers.DecimalField(8, 6, help_text=gettext_lazy("Grade")),
            "At most 8 digits. At most 6 decimal places.",
        ),
        (serializers.TimeField(help_text=gettext_lazy("Grade")), "hh:mm[:ss[.uuuuuu]]."),
        (serializers.FileField(help_text=gettext_lazy("Grade")), "The file"),
        (
            serializers.PrimaryKeyRelatedField(queryset=Author.objects.all(), help_text=gettext_lazy("Grade")),
            "Key of an author.",
        ),
    ]:
        assert str(taken_by(field)["description"]).startswith(f"Grade. {more}")


MARKED = 'Your <abbr title="International Air Transport Association">IATA</abbr> code &amp; date.<br>'


@pytest.mark.parametrize("as_given", [str, gettext_lazy])
def test_html_of_labels_and_help_texts_is_told_as_text(as_given: Any, subtests: pytest.Subtests) -> None:
    words, plain = as_given(MARKED), "Your IATA code & date."
    nested = type("Nested", (serializers.Serializer,), {"inner": serializers.CharField(help_text=words)})
    for field in (
        serializers.CharField(help_text=words, label=as_given("<b>Airport</b>")),
        serializers.DecimalField(8, 6, help_text=words),
        serializers.FileField(help_text=words),
        serializers.PrimaryKeyRelatedField(queryset=Author.objects.all(), help_text=words),
        serializers.ChoiceField([("a", "First")], help_text=words),
        serializers.ListField(child=serializers.CharField(help_text=words), help_text=words),
        serializers.DictField(child=serializers.CharField(help_text=words), help_text=words),
        nested(help_text=words),
        nested(many=True, help_text=words),
    ):
        with subtests.test(field=field):
            told = json.dumps(taken_by(field), default=str)
            assert "<" not in told
            assert "&amp;" not in told
            assert plain in told
    shown = json.dumps(shown_by(nested(help_text=words)), default=str)
    assert "<" not in shown
    assert plain in shown


def test_a_tag_in_a_span_of_code_is_no_html() -> None:
    field = serializers.CharField(help_text="Write `<user>@<host>`, <b>not</b> a link.")
    assert taken_by(field)["description"] == "Write `<user>@<host>`, not a link."


def test_null_and_truth_values_among_the_choices_are_named_as_json_has_them() -> None:
    choices = [(True, "Certainly"), (False, "Never"), (None, "Unsure")]
    assert taken_by(serializers.ChoiceField(choices))["description"] == "true: Certainly; false: Never; null: Unsure."
