"""Fields of forms."""

from typing import Any

from django import forms

from django_mcp import MCPServer, form_tool
from tests.types_table.cases import Case

CABINS = [("economy", "Economy"), ("first", "First class")]


def case(label: str, asked: forms.Field, bad: Any) -> Case:
    """A form of one field."""
    made = type("OneForm", (forms.Form,), {"value": asked})

    def publish(server: MCPServer) -> None:
        form_tool(made, name="form", handle=lambda *_: None, server=server)

    return Case(label, publish, "value", bad)


CASES = [
    case("forms.CharField(max_length=20)", forms.CharField(max_length=20), {"first": "Ann"}),
    case("forms.EmailField()", forms.EmailField(), "nobody"),
    case("forms.URLField()", forms.URLField(assume_scheme="https"), "no address"),
    case("forms.SlugField()", forms.SlugField(), "two words"),
    case('forms.RegexField(r"^[A-Z]{3}$")', forms.RegexField(r"^[A-Z]{3}$"), "bcn"),
    case("forms.UUIDField()", forms.UUIDField(), "7"),
    case("forms.GenericIPAddressField()", forms.GenericIPAddressField(), "here"),
    case("forms.IntegerField(min_value=1, max_value=9)", forms.IntegerField(min_value=1, max_value=9), "many"),
    case("forms.IntegerField(step_size=5)", forms.IntegerField(step_size=5), 7),
    case("forms.FloatField()", forms.FloatField(), "much"),
    case("forms.DecimalField(decimal_places=2)", forms.DecimalField(decimal_places=2), "1.234"),
    case("forms.BooleanField(required=False)", forms.BooleanField(required=False), "maybe"),
    case("forms.BooleanField()", forms.BooleanField(), False),
    case("forms.NullBooleanField()", forms.NullBooleanField(), "maybe"),
    case("forms.ChoiceField(choices=…)", forms.ChoiceField(choices=CABINS), "second"),
    case(
        "forms.TypedChoiceField(choices=…, coerce=int)",
        forms.TypedChoiceField(choices=[(1, "One"), (2, "Two")], coerce=int),
        3,
    ),
    case("forms.MultipleChoiceField(choices=…)", forms.MultipleChoiceField(choices=CABINS), "economy"),
    case("forms.DateField()", forms.DateField(), "soon"),
    case("forms.DateTimeField()", forms.DateTimeField(), "noon"),
    case("forms.SplitDateTimeField()", forms.SplitDateTimeField(), "noon"),
    case("forms.TimeField()", forms.TimeField(), "25:00"),
    case("forms.DurationField()", forms.DurationField(), "long"),
    case("forms.JSONField()", forms.JSONField(), None),
    case("forms.FileField()", forms.FileField(), "terms.txt"),
    case("forms.ImageField()", forms.ImageField(), {"filename": "a.png", "content": "d29yZHM="}),
]
