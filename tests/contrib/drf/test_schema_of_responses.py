"""What a field of a serializer shows, as JSON Schema, and what becomes of values that do not fit."""

import datetime
from functools import cached_property
from typing import Annotated, Any

import pytest
from django.db import models
from pydantic import Field
from rest_framework import serializers
from typing_extensions import TypedDict

from django_mcp.contrib.drf.requests import UNFIT, filter_to_schema
from tests.contrib.drf.described import shown, shown_by
from tests.model_resources.library.models import Author, Book

STRING = {"type": "string"}
HAS_BIG_INTEGERS = hasattr(serializers, "BigIntegerField")  # since 3.17


class Loose(serializers.Field):
    """Shows whatever it has."""


class Told(serializers.CharField):
    """Says what it shows."""

    def to_representation(self, value: Any) -> list[int]:
        return [1]


class Untold(serializers.CharField):
    """Shows something of its own, and does not say what."""

    def to_representation(self, value: Any):
        return {}


def test_a_field_becomes_a_schema(subtests: pytest.Subtests) -> None:
    for field, expected in [
        (serializers.BooleanField(allow_null=True), {"type": ["boolean", "null"]}),
        (serializers.CharField(max_length=3), STRING),
        (serializers.UUIDField(), STRING),
        (serializers.UUIDField(format="int"), {"type": "integer"}),
        (serializers.IntegerField(max_value=3), {"type": "integer"}),
        *([(serializers.BigIntegerField(coerce_to_string=True), STRING)] if HAS_BIG_INTEGERS else []),
        (serializers.FloatField(), {"type": "number"}),
        (serializers.DecimalField(5, 2), STRING),
        (serializers.DecimalField(5, 2, coerce_to_string=False), {"type": "number"}),
        (serializers.DateField(), STRING),
        (serializers.DateTimeField(format="%d.%m."), STRING),
        (serializers.ChoiceField(["a", "b"]), STRING),
        (serializers.ChoiceField([1, 2]), {"type": "integer"}),
        (serializers.MultipleChoiceField(choices=["a"]), {"type": "array", "items": STRING}),
        (serializers.FileField(), {"type": ["string", "null"]}),
        (
            serializers.ListField(child=serializers.FloatField()),
            {"type": "array", "items": {"type": ["number", "null"]}},
        ),
        (serializers.JSONField(), {}),
        (serializers.StringRelatedField(many=True), {"type": "array", "items": STRING}),
        (Loose(), {}),
        (Told(), {"type": "array", "items": {"type": "integer"}}),
        (Untold(), {}),
    ]:
        with subtests.test(field=field, expected=expected):
            assert shown_by(field) == expected


class Mark(TypedDict):
    stars: int
    day: datetime.date


class Shelf(models.Model):  # noqa: DJ008
    """A model that has no table."""

    name = models.CharField(max_length=5, null=True)  # noqa: DJ001

    class Meta:
        app_label = "library"
        managed = False

    @property
    def size(self) -> int:
        return 1

    @cached_property
    def names(self) -> list[str]:
        return []

    def best(self) -> float | None:
        return None


def forget(model: type[models.Model]) -> None:
    from django.apps import apps

    del apps.all_models["library"][model._meta.model_name]
    apps.clear_cache()


forget(Shelf)


class ShelfSerializer(serializers.ModelSerializer):
    mark = serializers.SerializerMethodField()
    anything = serializers.SerializerMethodField()
    secret = serializers.CharField(write_only=True)

    class Meta:
        model = Shelf
        fields = ["name", "size", "names", "best", "mark", "anything", "secret"]

    def get_mark(self, shelf: Any) -> Mark | None:
        return None

    def get_anything(self, shelf: Any):
        return None


def test_what_is_computed_has_the_type_it_is_annotated_with() -> None:
    properties = shown(ShelfSerializer())["properties"]
    assert properties.keys() == {"name", "size", "names", "best", "mark", "anything"}
    assert properties["name"] == {"type": ["string", "null"]}
    assert properties["size"] == {"type": "integer"}
    assert properties["names"] == {"type": "array", "items": STRING}
    assert properties["best"] == {"anyOf": [{"type": "number"}, {"type": "null"}]}
    assert properties["anything"] == {}
    (mark, null) = properties["mark"]["anyOf"]
    assert null == {"type": "null"}
    assert "required" not in mark
    assert mark["properties"]["stars"] == {"type": "integer"}
    assert "$ref" not in str(properties)


class BookSerializer(serializers.ModelSerializer):
    author_name = serializers.SlugRelatedField("name", source="author", read_only=True)

    class Meta:
        model = Book
        fields = ["author", "owner", "tags", "author_name"]
        read_only_fields = fields


class Route(TypedDict):
    """Refers to another type, in words of its own."""

    first: Annotated[Mark, Field(description="The first one.")]
    others: list[Mark]


def test_what_is_said_of_a_type_where_it_is_used_stays_with_it() -> None:
    class Made(serializers.Serializer):
        value = serializers.SerializerMethodField()

        def get_value(self, obj: Any) -> Route: ...

    described = shown(Made())["properties"]["value"]["properties"]
    assert described["first"] == {**described["others"]["items"], "description": "The first one."}


def test_relations_have_the_types_of_keys() -> None:
    assert shown(BookSerializer())["properties"] == {
        "author": {"type": "integer"},
        "owner": {"type": ["integer", "null"]},
        "tags": {"type": "array", "items": {"type": "integer"}},
        "author_name": STRING,
    }


class Nested(serializers.ModelSerializer):
    class Meta:
        model = Author
        fields = ["name", "born"]


class Outer(serializers.Serializer):
    author = Nested(allow_null=True)
    authors = Nested(many=True)


def test_serializers_in_serializers_are_objects() -> None:
    properties = shown(Outer())["properties"]
    inner = {"name": STRING, "born": {"type": ["string", "null"]}}
    assert properties["author"] == {"type": ["object", "null"], "properties": inner}
    assert properties["authors"] == {"type": "array", "items": {"type": "object", "properties": inner}}


SCHEMA = {
    "type": "object",
    "properties": {
        "number": {"type": "integer"},
        "maybe": {"anyOf": [{"type": "number"}, {"type": "null"}]},
        "rows": {"type": "array", "items": {"type": "object", "properties": {"name": STRING}}},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "word": {"enum": ["a", "b"]},
    },
}


def test_what_does_not_fit_a_promise_is_left_out_and_nothing_else(subtests: pytest.Subtests) -> None:
    for value, left in [
        ({"number": 1, "maybe": None, "more": [1]}, {"number": 1, "maybe": None, "more": [1]}),
        ({"number": "1", "maybe": "x"}, {}),
        ({"number": True}, {}),
        ({"maybe": 1}, {"maybe": 1}),
        ({"rows": [{"name": "a"}, {"name": 5, "size": 1}]}, {"rows": [{"name": "a"}, {"size": 1}]}),
        ({"rows": [{"name": "a"}, "b"]}, {}),
        ({"counts": {"a": 1, "b": "many"}}, {"counts": {"a": 1}}),
        ({"word": "c"}, {}),
    ]:
        with subtests.test(value=value, left=left):
            assert filter_to_schema(SCHEMA, value) == left


def test_of_another_kind_altogether_nothing_is_left() -> None:
    assert filter_to_schema(SCHEMA, [1]) is UNFIT
