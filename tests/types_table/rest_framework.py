"""Fields of serializers."""

from typing import Any

from rest_framework import serializers
from rest_framework.generics import CreateAPIView

from django_mcp import MCPServer
from django_mcp.contrib.drf import drf_tools
from tests.model_resources.library.models import Tag
from tests.types_table.cases import Case

CABINS = [("economy", "Economy"), ("first", "First class")]


class Line(serializers.Serializer):
    quantity = serializers.IntegerField(min_value=1)


def case(label: str, field: serializers.Field, bad: Any) -> Case:
    """A view whose serializer has one field."""
    serializer = type("OneField", (serializers.Serializer,), {"value": field})
    view = type("OneView", (CreateAPIView,), {"serializer_class": serializer, "permission_classes": []})

    def publish(server: MCPServer) -> None:
        drf_tools(view, name="row", mounted=False, server=server)

    return Case(label, publish, "value", bad)


CASES = [
    case("serializers.BooleanField()", serializers.BooleanField(), "maybe"),
    case("serializers.CharField(max_length=20)", serializers.CharField(max_length=20), {"first": "Ann"}),
    case("serializers.CharField()", serializers.CharField(), ""),
    case("serializers.EmailField()", serializers.EmailField(), "nobody"),
    case("serializers.URLField()", serializers.URLField(), "no address"),
    case("serializers.SlugField()", serializers.SlugField(), "two words"),
    case('serializers.RegexField(r"^[A-Z]{3}$")', serializers.RegexField(r"^[A-Z]{3}$"), "bcn"),
    case("serializers.UUIDField()", serializers.UUIDField(), "7"),
    case("serializers.IPAddressField()", serializers.IPAddressField(), "here"),
    case(
        "serializers.IntegerField(min_value=1, max_value=9)", serializers.IntegerField(min_value=1, max_value=9), "many"
    ),
    case("serializers.FloatField()", serializers.FloatField(), "much"),
    case("serializers.DecimalField(6, 2)", serializers.DecimalField(6, 2), "1.234"),
    case("serializers.DateTimeField()", serializers.DateTimeField(), "noon"),
    case("serializers.DateField()", serializers.DateField(), "soon"),
    case("serializers.TimeField()", serializers.TimeField(), "25:00"),
    case("serializers.DurationField()", serializers.DurationField(), "long"),
    case("serializers.ChoiceField(choices=…)", serializers.ChoiceField(CABINS), "second"),
    case("serializers.MultipleChoiceField(choices=…)", serializers.MultipleChoiceField(choices=CABINS), "economy"),
    case("serializers.FileField()", serializers.FileField(), "terms.txt"),
    case("serializers.ImageField()", serializers.ImageField(), {"filename": "a.png", "content": "d29yZHM="}),
    case(
        "serializers.ListField(child=serializers.IntegerField())",
        serializers.ListField(child=serializers.IntegerField()),
        [1, "two"],
    ),
    case(
        "serializers.DictField(child=serializers.FloatField())",
        serializers.DictField(child=serializers.FloatField()),
        {"a": "much"},
    ),
    case("serializers.JSONField()", serializers.JSONField(), None),
    case("Line()", Line(), {"quantity": 0}),
    case("Line(many=True)", Line(many=True), [{"quantity": 1}, {}]),
    case(
        "serializers.PrimaryKeyRelatedField(queryset=Tag.objects.all())",
        serializers.PrimaryKeyRelatedField(queryset=Tag.objects.all()),
        "first",
    ),
    case(
        'serializers.SlugRelatedField("word", queryset=Tag.objects.all())',
        serializers.SlugRelatedField("word", queryset=Tag.objects.all()),
        {"word": "sea"},
    ),
]
