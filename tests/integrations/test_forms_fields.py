"""Every field of ``django.forms`` as an argument: its schema, a value that fits, one that does not, and its words."""

import base64
import datetime
import io
import itertools
import json
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest
from django import forms
from django.core.validators import RegexValidator
from django.db import models
from django.forms import modelform_factory
from django.test.utils import isolate_apps
from django.utils.translation import gettext_lazy
from PIL import Image

from django_mcp import MCPServer, form_tool
from django_mcp.model_resources.form_schema import form_schema
from tests.clients import MODERN, Client


def picture() -> bytes:
    made = io.BytesIO()
    Image.new("RGB", (1, 1)).save(made, "PNG")
    return made.getvalue()


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


PHONE = (forms.IntegerField(min_value=1), forms.CharField(max_length=10))


class Phone(forms.MultiValueField):
    def __init__(self, **options: Any) -> None:
        super().__init__(fields=PHONE, widget=forms.MultiWidget([forms.TextInput, forms.TextInput]), **options)

    def compress(self, data_list: list[Any]) -> str:
        return "-".join(map(str, data_list))


@dataclass
class Example:
    """A field, and what is expected of it. *cleaned* is None where it is the value given."""

    field: forms.Field
    schema: dict[str, Any]
    good: Any
    cleaned: Any
    bad: Any
    words: str
    lacks: set[str] = field(default_factory=set)


FILE = {"filename": "a.txt", "content": encoded(b"words")}
NO_TEXT = {"type": "string", "maxLength": 0}
CABINS = [("economy", "Economy"), ("first", "First class")]
CHOICES_OF_CABINS = "Choose one of: economy, first (First class)."
DECIMAL = {"anyOf": [{"type": "number"}, {"type": "string"}], "minimum": 0, "maximum": 99.5}
NOT_TEXT = "must be a string, not an object."

EXAMPLES = {
    "CharField": Example(
        forms.CharField(min_length=2, max_length=5),
        {"type": "string", "minLength": 2, "maxLength": 5},
        " four ",
        "four",
        {"a": 1},
        NOT_TEXT,
    ),
    "long CharField": Example(
        forms.CharField(max_length=5),
        {"type": "string", "minLength": 1, "maxLength": 5},
        "four",
        "four",
        "longer",
        "Ensure this value has at most 5 characters (it has 6).",
    ),
    "number for CharField": Example(
        forms.CharField(), {"type": "string", "minLength": 1}, "4", "4", 4, "must be a string, not a number."
    ),
    "EmailField": Example(
        forms.EmailField(),
        {"type": "string", "format": "email"},
        "a@example.com",
        "a@example.com",
        "nobody",
        "Enter a valid email address.",
    ),
    "URLField": Example(
        forms.URLField(assume_scheme="https"),
        {"type": "string", "format": "uri"},
        "https://example.com/",
        "https://example.com/",
        "no address",
        "Enter a valid URL.",
    ),
    "SlugField": Example(
        forms.SlugField(),
        {"type": "string", "pattern": "^[-a-zA-Z0-9_]+$"},
        "a-b",
        "a-b",
        "a b",
        "Enter a valid “slug” consisting of letters, numbers, underscores or hyphens.",
    ),
    "RegexField": Example(
        forms.RegexField(r"\A[A-Z]{3}\Z"),
        {"type": "string", "pattern": "^[A-Z]{3}$"},
        "BCN",
        "BCN",
        "bcn",
        "Enter a valid value.",
    ),
    "validator": Example(
        forms.CharField(validators=[RegexValidator(r"^\d+$", "Digits only.")]),
        {"type": "string", "pattern": r"^\d+$"},
        "12",
        "12",
        "x",
        "Digits only.",
    ),
    "validator of Python alone": Example(
        forms.CharField(validators=[RegexValidator(re.compile("^a$", re.IGNORECASE), "An a.")]),
        {"type": "string"},
        "A",
        "A",
        "x",
        "An a.",
        {"pattern"},
    ),
    "UUIDField": Example(
        forms.UUIDField(),
        {"type": "string", "format": "uuid"},
        "b7c6e1a4-4f0e-4c5b-9a53-3c1d7f1f9e10",
        uuid.UUID("b7c6e1a4-4f0e-4c5b-9a53-3c1d7f1f9e10"),
        "7",
        "Enter a valid UUID. Example: b7c6e1a4-4f0e-4c5b-9a53-3c1d7f1f9e10.",
    ),
    "GenericIPAddressField": Example(
        forms.GenericIPAddressField(),
        {"type": "string"},
        "127.0.0.1",
        "127.0.0.1",
        "here",
        "Enter a valid IPv4 or IPv6 address.",
    ),
    "IntegerField": Example(
        forms.IntegerField(min_value=2, max_value=9),
        {"type": "integer", "minimum": 2, "maximum": 9},
        "7",
        7,
        "many",
        "Enter a whole number.",
    ),
    "small IntegerField": Example(
        forms.IntegerField(min_value=2),
        {"type": "integer", "minimum": 2},
        7,
        7,
        1,
        "Ensure this value is greater than or equal to 2.",
    ),
    "IntegerField with steps": Example(
        forms.IntegerField(min_value=10, step_size=5),
        {"type": "integer", "minimum": 10, "multipleOf": 5},
        15,
        15,
        16,
        "Ensure this value is a multiple of step size 5, starting from 10, e.g. 10, 15, 20, and so on.",
    ),
    "IntegerField with steps from elsewhere": Example(
        forms.IntegerField(min_value=1, step_size=5),
        {"description": "In steps of 5 from 1."},
        6,
        6,
        [5],
        "must be a number, not an array.",
        {"multipleOf"},
    ),
    "FloatField": Example(
        forms.FloatField(max_value=1.5), {"type": "number", "maximum": 1.5}, 1.25, 1.25, "NaN", "Enter a number."
    ),
    "DecimalField": Example(
        forms.DecimalField(min_value=0, max_value=Decimal("99.5"), max_digits=4, decimal_places=2),
        {**DECIMAL, "description": "At most 4 digits. At most 2 decimal places."},
        "12.50",
        Decimal("12.50"),
        12.345,
        "Ensure that there are no more than 4 digits in total.",
    ),
    "tiny DecimalField": Example(
        forms.DecimalField(),
        {"anyOf": [{"type": "number"}, {"type": "string"}]},
        1e-7,
        Decimal("1e-7"),
        "1E-999999999",
        "must have a decimal exponent from -1000 to 1000.",
    ),
    "BooleanField": Example(
        forms.BooleanField(required=False),
        {"type": "boolean"},
        True,
        True,
        "maybe",
        "must be true or false, not a string.",
        {"const"},
    ),
    "required BooleanField": Example(
        forms.BooleanField(),
        {"type": "boolean", "description": "It must be true."},
        "true",
        True,
        False,
        "This field is required. It must be true.",
    ),
    "NullBooleanField": Example(
        forms.NullBooleanField(),
        {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
        None,
        None,
        1,
        "must be true or false, not a number.",
    ),
    "ChoiceField": Example(
        forms.ChoiceField(choices=CABINS),
        {"type": "string", "enum": ["economy", "first"], "description": "first: First class."},
        "first",
        "first",
        "second",
        f"Select a valid choice. second is not one of the available choices. {CHOICES_OF_CABINS}",
    ),
    "grouped ChoiceField": Example(
        forms.ChoiceField(choices=[("Sea", [("s", "Ship")]), ("t", "Train")], required=False),
        {"anyOf": [{"type": "string", "enum": ["s", "t"]}, NO_TEXT], "description": "s: Ship; t: Train."},
        "s",
        "s",
        ["s"],
        "must be one of the choices, not an array.",
    ),
    "ChoiceField of a function": Example(
        forms.ChoiceField(choices=lambda: CABINS),
        {"type": "string"},
        "first",
        "first",
        "x",
        f"Select a valid choice. x is not one of the available choices. {CHOICES_OF_CABINS}",
        {"enum"},
    ),
    "ChoiceField of a column": Example(
        models.CharField(choices=CABINS, max_length=9).formfield(),
        {"type": "string", "enum": ["economy", "first"], "description": "first: First class."},
        "first",
        "first",
        "",
        "This field is required.",
    ),
    "ChoiceField of a column that may be blank": Example(
        models.CharField(choices=CABINS, max_length=9, blank=True).formfield(),
        {"anyOf": [{"type": "string", "enum": ["economy", "first"]}, NO_TEXT], "description": "first: First class."},
        "",
        "",
        "second",
        f"Select a valid choice. second is not one of the available choices. {CHOICES_OF_CABINS}",
    ),
    "ChoiceField of a column with a function": Example(
        models.CharField(choices=lambda: CABINS, max_length=9).formfield(),
        {"type": "string"},
        "first",
        "first",
        "x",
        f"Select a valid choice. x is not one of the available choices. {CHOICES_OF_CABINS}",
        {"enum"},
    ),
    "TypedChoiceField": Example(
        forms.TypedChoiceField(choices=[(1, "One"), (2, "Two")], coerce=int),
        {"type": "integer", "minimum": 1, "maximum": 2, "description": "1: One; 2: Two."},
        2,
        2,
        3,
        "Select a valid choice. 3 is not one of the available choices. Choose one of: 1 (One), 2 (Two).",
    ),
    "MultipleChoiceField": Example(
        forms.MultipleChoiceField(choices=CABINS),
        {"type": "array", "items": {"type": "string", "enum": ["economy", "first"]}, "minItems": 1, "maxItems": 500},
        ["first"],
        ["first"],
        "first",
        "must be an array, not a string.",
    ),
    "TypedMultipleChoiceField": Example(
        forms.TypedMultipleChoiceField(choices=[(1, "One"), (2, "Two")], coerce=int, required=False),
        {"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 2}},
        [1, "2"],
        [1, 2],
        [None],
        "must be one of the choices, not null.",
        {"minItems"},
    ),
    "DateField": Example(
        forms.DateField(),
        {"type": "string", "format": "date"},
        "2026-05-31",
        datetime.date(2026, 5, 31),
        "soon",
        "Enter a valid date. Example: 2026-05-31.",
    ),
    "DateField of another country": Example(
        forms.DateField(input_formats=["%d.%m.%Y"]),
        {"type": "string", "format": "date"},
        "2026-05-31",
        datetime.date(2026, 5, 31),
        20260531,
        "must be a string, not a number.",
    ),
    "DateTimeField": Example(
        forms.DateTimeField(),
        {"type": "string", "format": "date-time"},
        "2026-05-31T12:00:00+02:00",
        datetime.datetime(2026, 5, 31, 10, tzinfo=datetime.UTC),
        "0001-01-01T00:00:00Z",
        "must be in the years 2 to 9998.",
    ),
    "SplitDateTimeField": Example(
        forms.SplitDateTimeField(),
        {"type": "string", "format": "date-time"},
        "2026-05-31T12:00:00+02:00",
        datetime.datetime(2026, 5, 31, 10, tzinfo=datetime.UTC),
        "noon",
        "Enter a valid date and time. Example: 2026-05-31T18:30:00+02:00.",
    ),
    "TimeField": Example(
        forms.TimeField(),
        {"type": "string", "pattern": r"^\d\d:\d\d(:\d\d(\.\d+)?)?$"},
        "18:30",
        datetime.time(18, 30),
        "25:00",
        "Enter a valid time. Example: 18:30:00.",
    ),
    "DurationField": Example(
        forms.DurationField(),
        {"type": "string", "format": "duration"},
        "PT90M",
        datetime.timedelta(minutes=90),
        "long",
        "Enter a valid duration. Example: P3DT2H30M, or 2:30:00.",
    ),
    "JSONField": Example(
        forms.JSONField(), {}, {"a": [1, None]}, {"a": [1, None]}, "a\0b", "must not contain NUL characters.", {"type"}
    ),
    "text for JSONField": Example(forms.JSONField(), {}, "words", "words", None, "This field is required."),
    "FileField": Example(
        forms.FileField(max_length=8),
        {
            "type": "object",
            "required": ["filename", "content"],
            "description": "The file's content, not a path or URL. At most 1 MiB.",
        },
        FILE,
        b"words",
        "a.txt",
        "must be an object with 'filename' and 'content', not a string.",
    ),
    "FileField without a name": Example(
        forms.FileField(), {}, FILE, b"words", {"content": ""}, "its 'filename' is required and must be a string."
    ),
    "FileField with a folder for a name": Example(
        forms.FileField(),
        {},
        FILE,
        b"words",
        {**FILE, "filename": ".."},
        "its 'filename' is not a valid file name.",
    ),
    "FileField that is not encoded": Example(
        forms.FileField(),
        {},
        FILE,
        b"words",
        {**FILE, "content": "?"},
        "its 'content': Input should be Base64 and nothing else.",
    ),
    "ImageField": Example(
        forms.ImageField(),
        {"type": "object"},
        {"filename": "a.png", "content": encoded(picture())},
        picture(),
        {"filename": "a.png", "content": encoded(b"words")},
        "Upload a valid image. The file you uploaded was either not an image or a corrupted image.",
    ),
    "ComboField": Example(
        forms.ComboField(fields=[forms.CharField(max_length=20), forms.EmailField()]),
        {"type": "string", "format": "email", "maxLength": 320},
        "a@example.com",
        "a@example.com",
        "a",
        "Enter a valid email address.",
    ),
    "MultiValueField": Example(
        Phone(),
        {
            "type": "array",
            "prefixItems": [{"type": "integer", "minimum": 1}, {"type": "string", "maxLength": 10}],
            "minItems": 2,
            "maxItems": 2,
        },
        [45, "1234"],
        "45-1234",
        [45, {}],
        NOT_TEXT,
    ),
    "Field": Example(
        forms.Field(),
        {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "boolean"}]},
        "x",
        "x",
        {},
        "must be one of the choices, not an object.",
    ),
}


class Shop:
    """A form of one field ``it``, published; what it cleaned last."""

    def __init__(self, server: MCPServer, asked: forms.Field, **options: Any) -> None:
        self.cleaned: Any = None

        def keep(_: Any, form: Any) -> None:
            value = form.cleaned_data["it"]
            self.cleaned = value.read() if hasattr(value, "read") else value

        made = type("ShopForm", (forms.Form,), {"it": asked})
        form_tool(made, name="shop", handle=keep, server=server, **options)
        self.client = Client(server, MODERN, "view")

    @property
    def schema(self) -> dict[str, Any]:
        (tool,) = self.client.list("tools/list")
        schema: dict[str, Any] = tool["inputSchema"]["properties"]["it"]
        return schema

    def problem(self, **arguments: Any) -> str:
        answer = self.client.call("shop", **arguments)
        assert answer.result.get("isError"), answer.text
        return answer.text


@pytest.fixture
def shop(make_server: Callable[..., MCPServer], open_database: None) -> Callable[..., Shop]:
    """Makes shops, each at an endpoint of its own."""
    numbers = itertools.count()
    return lambda asked, **options: Shop(make_server(f"shop{next(numbers)}"), asked, **options)


def test_a_field_has_a_schema_takes_what_fits_and_says_what_does_not(
    shop: Callable[..., Shop], subtests: pytest.Subtests
) -> None:
    for case, example in EXAMPLES.items():
        with subtests.test(case):
            made = shop(example.field)
            assert made.schema | example.schema == made.schema
            assert not example.lacks & made.schema.keys()

            answer = made.client.call("shop", it=example.good)
            assert answer.text == "The form was accepted."
            assert made.cleaned == example.cleaned
            link = "" if example.words.startswith("must ") else ":"
            assert made.problem(it=example.bad).startswith(f"Argument 'it'{link} {example.words}")


def test_every_field_of_django_is_in_the_table() -> None:
    every = {name for name in forms.fields.__all__ if name != "Field"}
    covered = {type(base).__name__ for example in EXAMPLES.values() for base in [example.field]}
    elsewhere = {"FilePathField"}
    assert every - covered - elsewhere == {"MultiValueField"}  # of which there is a class made here


def test_a_path_is_one_of_the_files_there_are(shop: Callable[..., Shop], tmp_path: Any) -> None:
    (tmp_path / "a.txt").write_text("")
    made = shop(forms.FilePathField(str(tmp_path)))
    assert made.schema["enum"] == [str(tmp_path / "a.txt")]
    assert made.problem(it="/etc/passwd").startswith("Argument 'it': Select a valid choice.")


def test_an_initial_value_is_the_default(shop: Callable[..., Shop], subtests: pytest.Subtests) -> None:
    for asked, initial in [
        (forms.CharField(initial="a"), "a"),
        (forms.IntegerField(initial=3), 3),
        (forms.BooleanField(initial=False, required=False), False),
        (forms.DecimalField(initial=Decimal("1.50")), "1.50"),
        (forms.DateField(initial=datetime.date(2026, 1, 2)), "2026-01-02"),
        (forms.TypedChoiceField(choices=[(1, "One")], coerce=int, initial=1), 1),
        (forms.MultipleChoiceField(choices=CABINS, initial=["first"]), ["first"]),
        (forms.JSONField(initial={"a": 1}), {"a": 1}),
    ]:
        with subtests.test(asked=asked, initial=initial):
            made = shop(asked)
            assert made.schema["default"] == initial
            assert made.client.call("shop").text == "The form was accepted."
            assert made.cleaned == asked.clean(asked.prepare_value(asked.initial))


def test_an_initial_value_that_is_a_function_is_used_and_not_told(shop: Callable[..., Shop]) -> None:
    made = shop(forms.CharField(initial=lambda: "just now"))
    assert "default" not in made.schema
    assert made.client.call("shop").text == "The form was accepted."
    assert made.cleaned == "just now"


def test_null_empties_a_field(shop: Callable[..., Shop]) -> None:
    made = shop(forms.CharField(initial="a", required=False))
    assert made.client.call("shop", it=None).text == "The form was accepted."
    assert made.cleaned == ""


def test_labels_and_help_texts_are_told_as_plain_text(shop: Callable[..., Shop]) -> None:
    made = shop(forms.CharField(label="How <i>many</i>", help_text="More &amp; <a href='/x'>more</a>."))
    assert made.schema["title"] == "How many"
    assert made.schema["description"] == "More & more."


def test_a_label_that_repeats_the_name_is_not(shop: Callable[..., Shop]) -> None:
    assert "title" not in shop(forms.CharField(label="It")).schema


def test_labels_are_told_in_the_language_of_whoever_lists_the_tools(shop: Callable[..., Shop]) -> None:
    made = shop(forms.ChoiceField(label=gettext_lazy("Yes"), choices=[("m", gettext_lazy("May"))]))
    answer = made.client.request("tools/list", headers={"accept-language": "de"})
    (tool,) = answer.result["tools"]
    told = tool["inputSchema"]["properties"]["it"]
    assert (told["title"], told["description"]) == ("Ja", "m: Mai.")
    assert (made.schema["title"], made.schema["description"]) == ("Yes", "m: May.")


def test_errors_are_in_the_language_of_whoever_calls(shop: Callable[..., Shop]) -> None:
    made = shop(forms.IntegerField())
    params = {"name": "shop", "arguments": {"it": "x"}}
    answer = made.client.request("tools/call", params, headers={"accept-language": "de"})
    assert answer.text == "Argument 'it': Bitte eine ganze Zahl eingeben."
    missing = {"name": "shop", "arguments": {}}
    answer = made.client.request("tools/call", missing, headers={"accept-language": "de"})
    assert answer.text == "Argument 'it': Dieses Feld ist zwingend erforderlich."


def test_very_many_choices_are_not_named_and_the_nearest_are_when_one_is_wrong(shop: Callable[..., Shop]) -> None:
    made = shop(forms.ChoiceField(choices=[(f"city-{number}", f"City {number}") for number in range(5000)]))
    assert len(str(made.schema)) < 200
    assert made.client.call("shop", it="city-4711").text == "The form was accepted."
    words = made.problem(it="city-47111")
    assert "The choices include: city-4711, " in words
    assert len(words) < 600


def test_labels_of_many_choices_are_not_told(shop: Callable[..., Shop]) -> None:
    made = shop(forms.ChoiceField(choices=[(f"c{number}", f"City {number}") for number in range(100)]))
    assert len(made.schema["enum"]) == 100
    assert "description" not in made.schema


def test_a_file_may_not_be_larger_than_said(shop: Callable[..., Shop]) -> None:
    made = shop(forms.FileField(), max_file_bytes=3)
    words = made.problem(it=FILE)
    assert words.startswith("Argument 'it': its 'content': must be at most 3 bytes when decoded")


def test_a_file_comes_with_its_name_and_type(server: MCPServer, open_database: None) -> None:
    class Letter(forms.Form):
        text = forms.FileField()

    form_tool(
        Letter,
        handle=lambda _, form: f"{form.cleaned_data['text'].name} {form.cleaned_data['text'].content_type}",
        server=server,
    )
    client = Client(server, MODERN, "view")
    assert client.call("letter", text={**FILE, "filename": "../b.txt"}).text == "b.txt text/plain"
    assert client.call("letter", text={**FILE, "content_type": "text/x"}).text == "a.txt text/x"
    data = {**FILE, "content": f"data:text/plain;base64,{FILE['content']}"}
    assert client.call("letter", text=data).text == "a.txt text/plain"


def test_numbers_are_read_the_same_whatever_the_language(shop: Callable[..., Shop]) -> None:
    made = shop(forms.DecimalField(localize=True))
    for given in ("1234.5", 1234.5):
        params = {"name": "shop", "arguments": {"it": given}}
        made.client.request("tools/call", params, headers={"accept-language": "de"})
        assert made.cleaned == Decimal("1234.5")


def test_a_widget_of_the_site_makes_of_a_value_what_it_does_on_its_page(shop: Callable[..., Shop]) -> None:
    class Words(forms.TextInput):
        def value_from_datadict(self, data: Any, files: Any, name: str) -> Any:
            return str(data.get(name, "")).split()

    class WordsField(forms.Field):
        widget = Words

    made = shop(WordsField())
    assert made.client.call("shop", it="a b").text == "The form was accepted."
    assert made.cleaned == ["a", "b"]


def test_a_password_is_marked_and_never_shown_again(server: MCPServer, open_database: None) -> None:
    class Door(forms.Form):
        code = forms.CharField(widget=forms.PasswordInput, initial="1234")

    form_tool(Door, handle=lambda *_: None, server=server)
    (tool,) = Client(server, MODERN, "view").list("tools/list")
    assert tool["inputSchema"]["properties"]["code"] == {"type": "string", "format": "password", "minLength": 1}


def test_careless_text_is_told_what_it_must_be(shop: Callable[..., Shop], subtests: pytest.Subtests) -> None:
    for value, words in [
        ("a\0b", "must not contain NUL characters."),
        ("x" * 100_001, "must have at most 100000 characters, not 100001."),
        ([1] * 1000, "must be a string, not an array."),
        (True, "must be a string, not true or false."),
        ("", "This field is required."),
        (None, "This field is required."),
    ]:
        with subtests.test(value=value, words=words):
            assert (
                shop(forms.CharField()).problem(it=value)
                == f"Argument 'it'{'' if words.startswith('must') else ':'} {words}"
            )


def test_a_huge_list_is_told_how_long_it_may_be(shop: Callable[..., Shop]) -> None:
    made = shop(forms.MultipleChoiceField(choices=CABINS))
    assert made.problem(it=["first"] * 10_000) == "Argument 'it' must have at most 500 items, not 10000."


def test_a_huge_number_is_no_trouble(shop: Callable[..., Shop]) -> None:
    assert (
        shop(forms.FloatField()).problem(it=10**3000)
        == "Argument 'it' must have a decimal exponent from -1000 to 1000."
    )


def test_half_of_a_surrogate_pair_is_turned_down_before_any_form_sees_it(shop: Callable[..., Shop]) -> None:
    made = shop(forms.CharField())
    body, headers = made.client.compose("tools/call", {"name": "shop", "arguments": {"it": "HERE"}})
    answer = made.client.post(json.dumps(body).replace("HERE", "\\ud800").encode(), headers)
    assert answer.code == -32700


@isolate_apps("tests.model_resources.library")
def test_a_decimal_that_may_be_missing_may_be_null() -> None:
    class Offer(models.Model):  # noqa: DJ008 - never shown
        price = models.DecimalField(max_digits=6, decimal_places=2, null=True, blank=True)

        class Meta:
            app_label = "library"

    form = modelform_factory(Offer, fields=["price"])()
    price = form_schema(form, ["price"], 1)["properties"]["price"]
    assert [each["type"] for each in price["anyOf"]] == ["number", "string", "null"]
