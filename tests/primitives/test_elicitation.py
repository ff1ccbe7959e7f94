"""Forms for the person at the client, and what becomes of their answers."""

import datetime
import enum
import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from itertools import product
from typing import Annotated, Any, Literal, Optional, Union

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db.models import IntegerChoices, TextChoices
from jsonschema import Draft202012Validator
from mcp_types import _v2025_11_25, _v2026_07_28
from pydantic import AnyUrl, BaseModel, ConfigDict, Field, SecretBytes, SecretStr, TypeAdapter, field_validator
from pydantic import model_validator as checks_whole

from django_mcp.primitives.base import FormError
from django_mcp.primitives.elicitation_schema import FormSchema, form_schema

VERSIONS = (_v2025_11_25, _v2026_07_28)


def schema_of(given: Any) -> dict[str, Any]:
    return checked(FormSchema(given).schema)


def checked(schema: dict[str, Any]) -> dict[str, Any]:
    """The requested schema, which every version's own types take and no version's types take anything away from."""
    Draft202012Validator.check_schema(schema)
    assert json.loads(json.dumps(schema)) == schema
    for types in VERSIONS:
        types.ElicitRequestFormParams.model_validate({"message": "?", "requestedSchema": schema})
        for name, each in schema["properties"].items():
            read = TypeAdapter(types.PrimitiveSchemaDefinition).validate_python(each, strict=True)
            assert read.model_dump(by_alias=True, exclude_unset=True) == each, f"{name} in {types.__name__}"
    return schema


def properties_of(given: Any) -> dict[str, Any]:
    return schema_of(given)["properties"]


def asking(annotation: Any, *default: Any) -> type[BaseModel]:
    """A model with one field ``value``."""
    members = {"__annotations__": {"value": annotation}, "__module__": __name__}
    return type("Asking", (BaseModel,), members | ({"value": default[0]} if default else {}))


def written(value: Mapping[str, Any], *, required: bool = True) -> dict[str, Any]:
    """A schema with one property ``value``."""
    return {"type": "object", "properties": {"value": value}, "required": ["value"] if required else []}


def problems_of(given: Any, content: Any) -> list[str]:
    with pytest.raises(FormError) as caught:
        FormSchema(given).validate(content)
    assert str(caught.value) == " ".join(caught.value.problems)
    return caught.value.problems


class Status(enum.Enum):
    ACTIVE = "active"
    INACTIVE = "inactive"
    PENDING = "pending"


class Board(TextChoices):
    NONE = "none", "Room only"
    HALF = "half", "Half board"


class Floor(IntegerChoices):
    GROUND = 0
    FIRST = 1


class Defaults(BaseModel):
    name: str = "John Doe"
    age: int = 30
    score: float = 95.5
    status: Literal["active", "inactive", "pending"] = "active"
    verified: bool = True


BOARDS = [{"const": "none", "title": "Room only"}, {"const": "half", "title": "Half board"}]


def test_defaults_of_a_model_are_in_the_schema_and_nothing_is_required() -> None:
    assert schema_of(Defaults) == {
        "type": "object",
        "properties": {
            "name": {"type": "string", "default": "John Doe"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
            "verified": {"type": "boolean", "default": True},
        },
    }


def test_an_annotation_becomes_a_question_in_the_few_shapes_there_are(subtests: pytest.Subtests) -> None:
    for annotation, schema in [
        (str, {"type": "string"}),
        (Annotated[str, Field(min_length=2, max_length=5)], {"type": "string", "minLength": 2, "maxLength": 5}),
        (
            Annotated[str, Field(title="Name", description="Of the guest.")],
            {"type": "string", "title": "Name", "description": "Of the guest."},
        ),
        (Annotated[str, Field(pattern="^a")], {"type": "string"}),
        (Annotated[str, Field(json_schema_extra={"format": "email"})], {"type": "string", "format": "email"}),
        (datetime.date, {"type": "string", "format": "date"}),
        (datetime.datetime, {"type": "string", "format": "date-time"}),
        (datetime.time, {"type": "string"}),
        (AnyUrl, {"type": "string", "format": "uri", "minLength": 1}),
        (int, {"type": "integer"}),
        (Annotated[int, Field(ge=1, le=9)], {"type": "integer", "minimum": 1, "maximum": 9}),
        (Annotated[int, Field(gt=1, lt=9)], {"type": "integer", "minimum": 2, "maximum": 8}),
        (Annotated[int, Field(gt=1, ge=5, multiple_of=5)], {"type": "integer", "minimum": 5}),
        (Annotated[float, Field(gt=0.5, lt=1)], {"type": "number", "minimum": 0.5, "maximum": 1}),
        (Decimal, {"type": "number"}),
        (Annotated[Decimal, Field(ge=0, decimal_places=2)], {"type": "number", "minimum": 0}),
        (bool, {"type": "boolean"}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal["only"], {"type": "string", "enum": ["only"]}),
        (Status, {"type": "string", "enum": ["active", "inactive", "pending"]}),
        (Board, {"type": "string", "oneOf": BOARDS}),
        (list[Literal["a", "b"]], {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}),
        (list[Literal["only"]], {"type": "array", "items": {"type": "string", "enum": ["only"]}}),
        (set[Board], {"type": "array", "items": {"anyOf": BOARDS}}),
        (frozenset[Literal["a"]], {"type": "array", "items": {"type": "string", "enum": ["a"]}}),
        (
            Annotated[list[Status], Field(min_length=1, max_length=2)],
            {
                "type": "array",
                "minItems": 1,
                "maxItems": 2,
                "items": {"type": "string", "enum": ["active", "inactive", "pending"]},
            },
        ),
    ]:
        with subtests.test(annotation=annotation, schema=schema):
            assert schema_of(asking(annotation)) == written(schema)


def test_a_model_can_ask_for_each_kind_of_choice_there_is() -> None:
    class Choices(BaseModel):
        plain: Literal["a", "b"]
        titled: Board
        older: Annotated[Literal["a", "b"], Field(json_schema_extra={"enumNames": ["A", "B"]})]
        several: list[Literal["a", "b"]]
        several_titled: list[Board]

    assert properties_of(Choices) == {
        "plain": {"type": "string", "enum": ["a", "b"]},
        "titled": {"type": "string", "oneOf": BOARDS},
        "older": {"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"]},
        "several": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
        "several_titled": {"type": "array", "items": {"anyOf": BOARDS}},
    }


def test_the_docstring_of_an_enum_describes_the_field_and_its_name_does_not() -> None:
    class Cabin(enum.StrEnum):
        """Where you sit."""

        FRONT = "front"

    assert properties_of(asking(Cabin))["value"] == {
        "type": "string",
        "enum": ["front"],
        "description": "Where you sit.",
    }
    assert properties_of(asking(Annotated[Cabin, Field(title="Seat")]))["value"]["title"] == "Seat"
    assert properties_of(asking(list[Cabin]))["value"]["items"] == {"type": "string", "enum": ["front"]}


def test_a_default_is_shown_as_the_client_would_send_it(subtests: pytest.Subtests) -> None:
    for annotation, default, shown in [
        (Status, Status.PENDING, "pending"),
        (Board, Board.HALF, "half"),
        (Optional[Board], Board.HALF, "half"),  # noqa: UP045 - people write it
        (list[Board], [Board.HALF], ["half"]),
        (set[Status], {Status.PENDING, Status.ACTIVE}, ["active", "pending"]),
        (datetime.date, datetime.date(2026, 7, 28), "2026-07-28"),
        (Decimal, Decimal("9.50"), 9.5),
        (bool, False, False),
        (int, 0, 0),
        (str, "", ""),
    ]:
        with subtests.test(annotation=annotation, default=default, shown=shown):
            given = asking(annotation, default)
            assert properties_of(given)["value"]["default"] == shown
            assert FormSchema(given).validate({}).value == default


def test_what_may_be_none_need_not_be_filled_in_and_the_schema_knows_no_null(subtests: pytest.Subtests) -> None:
    annotations = [int | None, Optional[int], Union[None, int]]  # noqa: UP007, UP045 - people write them
    for annotation, default in product(annotations, [(), (None,)]):
        with subtests.test(annotation=annotation, default=default):
            given = asking(annotation, *default)
            assert schema_of(given) == {"type": "object", "properties": {"value": {"type": "integer"}}}
            assert FormSchema(given).validate({}).value is None
            assert FormSchema(given).validate({"value": None}).value is None
            assert FormSchema(given).validate({"value": 3}).value == 3


def test_limits_and_words_of_what_may_be_none_stay() -> None:
    given = asking(Annotated[int | None, Field(ge=1, title="Seats", description="How many.")], None)
    assert properties_of(given) == {
        "value": {"type": "integer", "minimum": 1, "title": "Seats", "description": "How many."}
    }


def test_null_is_no_answer_and_leaves_the_default() -> None:
    assert FormSchema(Defaults).validate({"age": None, "name": None}) == Defaults()


def test_a_model_is_filled_in_by_its_aliases() -> None:
    class Aliased(BaseModel):
        first_name: str = Field(alias="firstName")

    assert schema_of(Aliased)["required"] == ["firstName"]
    assert FormSchema(Aliased).validate({"firstName": "Ada"}).first_name == "Ada"


def test_a_strict_model_takes_what_json_has_for_dates_and_sets() -> None:
    class Strict(BaseModel):
        model_config = ConfigDict(strict=True, extra="forbid")
        day: datetime.date
        boards: set[Board]

    value = FormSchema(Strict).validate({"day": "2026-07-28", "boards": ["half"], "unasked": 1})
    assert value == Strict(day=datetime.date(2026, 7, 28), boards={Board.HALF})


class Booking(BaseModel):
    seats: int = Field(le=9)
    boards: list[Board] = []
    since: int = 0
    until: int = 1

    @field_validator("until")
    @classmethod
    def even(cls, value: int) -> int:
        if value == 13:
            raise ValueError("not on that day")
        return value

    @checks_whole(mode="after")
    def in_order(self) -> "Booking":
        if self.since > self.until:
            raise ValueError("The end is before the start.")
        return self


def test_each_problem_with_a_models_answer_is_a_sentence_that_names_the_field(subtests: pytest.Subtests) -> None:
    for content, problems in [
        ({"seats": 10}, ["seats: Input should be less than or equal to 9."]),
        ({}, ["seats: Field required."]),
        ({"seats": "many"}, ["seats: Input should be a valid integer, unable to parse string as an integer."]),
        ({"seats": 1, "boards": ["half", "full"]}, ["boards.1: Input should be 'none' or 'half'."]),
        ({"seats": 1, "until": 13}, ["until: not on that day."]),
        ({"seats": 1, "since": 3}, ["The end is before the start."]),
        ({"seats": 10, "since": []}, 2),
    ]:
        with subtests.test(content=content, problems=problems):
            found = problems_of(Booking, content)
            assert len(found) == problems if isinstance(problems, int) else found == problems


class Address(BaseModel):
    city: str


class Node(BaseModel):
    children: list["Node"] = []


class Loop(BaseModel):
    next: Optional["Loop"] = None


def test_what_no_form_can_ask_names_the_field_and_says_what_can_be_asked(subtests: pytest.Subtests) -> None:
    for annotation in [
        Address,
        Address | None,
        list[Address],
        list[str],
        list[int],
        list,
        list[list[Literal["a"]]],
        list[Literal["a", 1]],
        dict[str, int],
        int | str,
        Any,
        object,
        None,
        Literal[1, 2],
        Literal["a", 1],
        Floor,
        Callable[[], int],
        tuple[int, str],
    ]:
        with (
            subtests.test(annotation=annotation),
            pytest.raises(ImproperlyConfigured, match=r"Asking.*value.*(?s:.*)A form supports text"),
        ):
            FormSchema(asking(annotation))


def test_a_model_that_contains_itself_is_refused(subtests: pytest.Subtests) -> None:
    for model in [Node, Loop]:
        with subtests.test(model=model), pytest.raises(ImproperlyConfigured, match="A form supports text"):
            FormSchema(model)


def test_a_model_that_is_not_finished_is_refused() -> None:
    class Unfinished(BaseModel):
        value: "Missing"  # noqa: F821

    with pytest.raises(ImproperlyConfigured, match=r"Unfinished.*(?s:.*)not fully defined"):
        FormSchema(Unfinished)


def test_what_a_client_sends_as_text_is_understood(subtests: pytest.Subtests) -> None:
    class Stay(BaseModel):
        model_config = ConfigDict(strict=True)

        boards: list[Literal["half", "none"]]
        nights: int
        quiet: bool
        note: str

    content = {"boards": '["half", "none"]', "nights": "2", "quiet": "True", "note": "[1]"}
    meant = {"boards": ["half", "none"], "nights": 2, "quiet": True, "note": "[1]"}
    for given in (Stay, FormSchema(Stay).schema):
        with subtests.test(given=given):
            answer = FormSchema(given).validate(content)
            assert (answer.model_dump() if isinstance(answer, Stay) else answer) == meant


def test_a_default_that_is_none_of_the_choices_is_refused() -> None:
    with pytest.raises(ImproperlyConfigured, match="default that is not among its choices: c"):
        FormSchema(asking(Literal["a", "b"], "c"))
    with pytest.raises(ImproperlyConfigured, match="default that is not among its choices: c"):
        FormSchema(asking(list[Literal["a", "b"]], ["c"]))


SECRETS: dict[str, Any] = {
    "SecretStr": asking(SecretStr),
    "SecretBytes": asking(SecretBytes | None, None),
    "format": written({"type": "string", "format": "password"}),
    **{
        name: {"type": "object", "properties": {name: {"type": "string"}}}
        for name in ("password", "newPassword", "api_key", "API-Key", "openai_api_key", "client secret", "access_token")
    },
    "cvc": {"type": "object", "properties": {"cvc": {"type": "integer"}}},
    "model": type("Login", (BaseModel,), {"__annotations__": {"card_number": str}, "__module__": __name__}),
}


def test_a_form_never_asks_for_a_secret(subtests: pytest.Subtests) -> None:
    for case, given in SECRETS.items():
        with subtests.test(case), pytest.raises(ImproperlyConfigured, match=r"looks like a secret.*ctx\.elicit_url"):
            FormSchema(given)


def test_a_name_that_only_mentions_a_secret_may_be_asked() -> None:
    class Fine(BaseModel):
        credit_card: Literal["the one that ends in 42"]
        api_key: Board
        forgot_password: bool
        tokens: int
        password_hint: str

    assert len(properties_of(Fine)) == 5


# Written out

WRITTEN: dict[str, tuple[dict[str, Any], list[Any], list[Any]]] = {
    "text": ({"type": "string", "minLength": 2, "maxLength": 3, "title": "T", "default": "ab"}, ["abc"], ["a", 5, []]),
    "email": ({"type": "string", "format": "email"}, ["jo@example.com"], ["jo"]),
    "uri": ({"type": "string", "format": "uri"}, ["https://example.com/", "urn:a:b"], ["example com", "/here"]),
    "date": ({"type": "string", "format": "date"}, ["2026-07-28"], ["tomorrow", "2026-02-30"]),
    "date-time": ({"type": "string", "format": "date-time"}, ["2026-07-28T09:00:00Z"], ["noon"]),
    "number": ({"type": "number", "minimum": 0.5, "maximum": 2, "default": 1}, [1, 1.5], [0, 3, "x"]),
    "integer": ({"type": "integer", "minimum": 1, "maximum": 2, "default": 1}, [1, 2], [0, 3, 1.5, "x"]),
    "boolean": ({"type": "boolean", "default": False, "description": "D"}, [True, False], ["perhaps", []]),
    "choice": ({"type": "string", "enum": ["a", "b"], "default": "a"}, ["a"], ["c", ["a"]]),
    "titled": ({"type": "string", "oneOf": BOARDS, "default": "half"}, ["half"], ["Half board"]),
    "older": ({"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"]}, ["b"], ["B"]),
    "choices": (
        {"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}, "minItems": 1, "maxItems": 2},
        [["a"], ["a", "b"]],
        [[], ["d"], ["a", "b", "c"], "a"],
    ),
    "titled choices": (
        {"type": "array", "items": {"anyOf": BOARDS}, "default": ["half"]},
        [[], ["none", "half"]],
        [["full"]],
    ),
}


def test_a_written_schema_is_sent_as_it_stands_and_checks_answers(subtests: pytest.Subtests) -> None:
    for case, (schema, good, bad) in WRITTEN.items():
        with subtests.test(case):
            given = written(schema)
            assert schema_of(given) == given
            for value in good:
                assert FormSchema(given).validate({"value": value, "unasked": 1}) == {"value": value}
            for value in bad:
                assert all(problem.startswith("value") for problem in problems_of(given, {"value": value}))
            assert problems_of(given, {"value": None}) == ["value: Field required."]
            assert FormSchema(written(schema, required=False)).validate({}) == {}


def test_a_wrong_format_is_shown_a_right_one() -> None:
    given = written({"type": "string", "format": "date"})
    assert problems_of(given, {"value": "tomorrow"}) == ["value: Input should be a date, such as 1999-12-31."]


def test_any_name_may_be_asked_for() -> None:
    given = {"type": "object", "properties": {"class": {"type": "string"}, "e-mail 2": {"type": "integer"}}}
    assert FormSchema(given).validate({"class": "a", "e-mail 2": 2}) == {"class": "a", "e-mail 2": 2}


def test_a_form_without_fields_asks_only_for_a_yes() -> None:
    given = {"type": "object", "properties": {}, "$schema": "https://json-schema.org/draft/2020-12/schema"}
    assert schema_of(given) == given
    assert FormSchema(given).validate({}) == {}


def test_a_written_schema_of_another_shape_is_refused_in_words(subtests: pytest.Subtests) -> None:
    for schema, words in [
        ({"type": "string", "pattern": "a"}, "pattern: Extra inputs are not permitted. Keys of a text field: type"),
        ({"type": "string", "format": "uuid"}, "format: Input should be 'email', 'uri', 'date' or 'date-time'"),
        ({"type": "string", "default": 5}, "default"),
        ({"type": "string", "minLength": "2"}, "minLength"),
        ({"type": "string", "minLength": -1}, "minLength"),
        ({"type": "integer", "default": True}, "default"),
        ({"type": "number", "multipleOf": 5}, "multipleOf"),
        ({"type": "boolean", "title": 5}, "title"),
        ({"type": "string", "enum": []}, "enum"),
        ({"type": "string", "enum": [1]}, "enum.0"),
        ({"type": "string", "enum": ["a", "a"]}, "lists the same choice twice"),
        ({"type": "string", "enum": ["a"], "default": "b"}, "not among its choices: b"),
        ({"type": "string", "enum": ["a"], "enumNames": ["A", "B"]}, "one name in enumNames for each"),
        ({"type": "string", "oneOf": [{"const": "a"}]}, "oneOf.0.title: Field required"),
        ({"type": "array", "items": {"anyOf": BOARDS, "type": "string"}}, "items.type"),
        ({"type": "array", "items": {"anyOf": BOARDS}, "uniqueItems": True}, "uniqueItems"),
        ({"type": "array", "items": {"type": "string"}}, "is not supported in a form"),
        ({"type": "object", "properties": {}}, "is not supported in a form"),
        ({"type": ["string", "null"]}, "is not supported in a form"),
        ({"enum": ["a"]}, "is not supported in a form"),
        ({}, "is not supported in a form"),
        ("string", "is not supported in a form"),
    ]:
        with subtests.test(schema=schema, words=words):
            with pytest.raises(ImproperlyConfigured) as caught:
                FormSchema(written(schema), "tool 'book'")
            assert str(caught.value).startswith("tool 'book': 'value'")
            assert words in str(caught.value)


def test_what_is_no_form_is_refused_in_words(subtests: pytest.Subtests) -> None:
    for given, words in [
        ({}, '"type": "object"'),
        ({"type": "object"}, '"properties", an object'),
        ({"type": "array", "properties": {}}, '"type": "object"'),
        ({"type": "object", "properties": []}, '"properties", an object'),
        ({"type": "object", "properties": {}, "additionalProperties": False}, "must not have additionalProperties"),
        ({"type": "object", "properties": {}, "required": ["x"]}, "names in properties"),
        ({"type": "object", "properties": {}, "required": "x"}, "names in properties"),
        ({"type": "object", "properties": {}, "required": [["x"]]}, "names in properties"),
        ({"type": "object", "properties": {"x": object()}}, "must be JSON"),
        ({"type": "object", "properties": {"x": {"type": "number", "minimum": float("nan")}}}, "must be JSON"),
        (str, "pydantic model class, a Django Form class or a JSON Schema"),
        (Booking(seats=1), "pydantic model class, a Django Form class or a JSON Schema"),
        (None, "pydantic model class, a Django Form class or a JSON Schema"),
    ]:
        with subtests.test(given=given, words=words):
            for make in (FormSchema, form_schema):
                with pytest.raises(ImproperlyConfigured) as caught:
                    make(given)
                assert words in str(caught.value)


def test_changing_a_schema_after_it_was_given_changes_nothing() -> None:
    given = written({"type": "string"})
    form = FormSchema(given)
    given["properties"]["value"]["type"] = "object"
    assert form.schema == written({"type": "string"})


def test_a_form_is_made_once_however_often_the_tool_runs(subtests: pytest.Subtests) -> None:
    for case, given in {"model": Booking, "written": written({"type": "string"})}.items():
        with subtests.test(case):
            again = dict(given) if isinstance(given, dict) else given
            assert form_schema(given) is form_schema(again)


def test_many_problems_and_long_words_are_cut() -> None:
    long = written({"type": "string", "enum": [f"option {number}" for number in range(500)]})
    assert len(problems_of(long, {"value": "x"})[0]) < 520
    many = {"type": "object", "properties": {f"p{n}": {"type": "integer"} for n in range(50)}}
    many["required"] = list(many["properties"])
    assert len(problems_of(many, {})) == 20


def test_a_default_that_would_be_refused_is_not_accepted(subtests: pytest.Subtests) -> None:
    for field, problem in [
        ({"type": "integer", "minimum": 3, "default": 1}, "greater than or equal to 3"),
        ({"type": "string", "maxLength": 2, "default": "abc"}, "at most 2 characters"),
        ({"type": "string", "format": "date", "default": "soon"}, "a date, such as 1999-12-31"),
        (
            {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "maxItems": 1, "default": ["a", "b"]},
            "at most 1 item",
        ),
    ]:
        with (
            subtests.test(field=field),
            pytest.raises(ImproperlyConfigured, match=f"'value' has a default that is not a valid answer.*{problem}"),
        ):
            FormSchema({"type": "object", "properties": {"value": field}})


def test_a_default_of_a_model_that_would_be_refused_is_not_filled_in() -> None:
    given = asking(Annotated[str, Field(min_length=2)], "")
    assert properties_of(given) == {"value": {"type": "string", "minLength": 2}}
    assert FormSchema(given).validate({}).value == ""
    assert properties_of(asking(Annotated[int, Field(ge=1)], 0)) == {"value": {"type": "integer", "minimum": 1}}
