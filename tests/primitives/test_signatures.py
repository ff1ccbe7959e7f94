"""From a signature to a schema."""

import dataclasses
import datetime
import enum
import functools
import uuid
from decimal import Decimal
from itertools import product
from typing import Annotated, Any, Literal, NotRequired, Optional

import pytest
from django.core.exceptions import ImproperlyConfigured
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from django_mcp import Context
from django_mcp.primitives.schema import ArgumentError
from django_mcp.primitives.tool import Tool
from tests.primitives import postponed
from tests.primitives.makers import make_prompt, make_resource, make_tool, taking


class Board(enum.Enum):
    NONE = "none"
    HALF = "half"


class Floor(enum.IntEnum):
    GROUND = 0
    FIRST = 1


class City(BaseModel):
    name: str = Field(min_length=1)
    population: int | None = None


class Trip(BaseModel):
    cities: list[City] = Field(min_length=1, max_length=2)
    home: City


class Part(BaseModel):
    name: str
    parts: list["Part"] = []


@dataclasses.dataclass
class Point:
    x: float
    y: float = 0.0


class Filter(TypedDict):
    field: str
    value: NotRequired[int]


# For each annotation: what a caller may send, and what not.
TYPES: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "int": (int, [0, -5, 10**12], ["x", 1.5, None, [], {}]),
    "float": (float, [0, 1.5, -2], ["x", None, [], {}]),
    "bool": (bool, [True, False], ["perhaps", None, [], 2]),
    "str": (str, ["", "a"], [1, 1.5, True, None, [], {}]),
    "anything": (Any, [None, 1, "a", [], {"a": [1]}], []),
    "optional": (Optional[int], [1, None], ["x", []]),  # noqa: UP045 - people write it
    "int | str": (int | str, [1, "a"], [None, [], {}]),
    "list of ints": (list[int], [[], [1, 2]], [1, "1", ["x"], [None], {}, None]),
    "tuple of two": (tuple[int, str], [[1, "a"]], [[1], [1, "a", 2], ["a", 1], {}]),
    "dict of ints": (dict[str, int], [{}, {"a": 1}], [{"a": "x"}, [], "a", None]),
    "literal": (Literal["a", "b", 3], ["a", "b", 3], ["c", "A", None, 4, []]),
    "enum": (Board, ["none", "half"], ["full", "NONE", None, 1]),
    "enum of ints": (Floor, [0, 1], [2, "ground", None]),
    "date": (datetime.date, ["2026-02-28"], ["2026-02-30", "tomorrow", None, []]),
    "uuid": (uuid.UUID, ["7d444840-9dc0-11d1-b245-5ffdce74fad2"], ["7d44", "", None, 5]),
    "decimal": (Decimal, [1, 1.5, "2.50"], [None, [], {}]),
    "range": (Annotated[int, Field(ge=1, le=9)], [1, 9], [0, 10, "x"]),
    "exclusive range": (Annotated[float, Field(gt=0, lt=1)], [0.5], [0, 1]),
    "multiple": (Annotated[int, Field(multiple_of=5)], [0, 15], [7]),
    "length": (Annotated[str, Field(min_length=2, max_length=3)], ["ab", "abc"], ["a", "abcd", ""]),
    "pattern": (Annotated[str, Field(pattern="^[A-Z]{3}$")], ["BCN"], ["bcn", "BCNX", ""]),
    "items": (Annotated[list[int], Field(min_length=1, max_length=2)], [[1], [1, 2]], [[], [1, 2, 3]]),
    "model": (
        City,
        [{"name": "Porto"}, {"name": "Porto", "population": None}],
        [{}, {"name": ""}, {"name": 1}, "Porto"],
    ),
    "nested models": (
        Trip,
        [{"cities": [{"name": "Porto"}], "home": {"name": "Ghent", "population": 1}}],
        [{"cities": [], "home": {"name": "a"}}, {"cities": [{"name": "a"}]}, {"cities": [{}], "home": {"name": "a"}}],
    ),
    "model of itself": (
        Part,
        [{"name": "a"}, {"name": "a", "parts": [{"name": "b", "parts": []}]}],
        [{"name": "a", "parts": [{}]}, {"parts": []}],
    ),
    "dataclass": (Point, [{"x": 1}, {"x": 1.5, "y": 2}], [{"y": 1}, {"x": "a"}, []]),
    "typed dict": (
        Filter,
        [{"field": "a"}, {"field": "a", "value": 1}],
        [{}, {"field": 1}, {"field": "a", "value": "x"}],
    ),
    "list of models": (list[City], [[], [{"name": "a"}]], [[{}], {"name": "a"}]),
}


def allows(tool: Tool, arguments: dict[str, Any]) -> bool:
    checker = Draft202012Validator(tool.definition["inputSchema"], format_checker=Draft202012Validator.FORMAT_CHECKER)
    return bool(checker.is_valid(arguments))


def test_what_fits_the_type_fits_the_schema_and_is_accepted(subtests: pytest.Subtests) -> None:
    for kind, (annotation, good, _) in TYPES.items():
        tool = taking(annotation)
        for value in good:
            with subtests.test(kind, value=value):
                assert allows(tool, {"value": value})
                assert "value" in tool.arguments.validate({"value": value})


def test_what_does_not_fit_the_type_fails_the_schema_and_is_refused(subtests: pytest.Subtests) -> None:
    for kind, (annotation, _, bad) in TYPES.items():
        tool = taking(annotation)
        for value in bad:
            with subtests.test(kind, value=value):
                assert not allows(tool, {"value": value})
                with pytest.raises(ArgumentError, match="value"):
                    tool.arguments.validate({"value": value})


def test_an_argument_without_default_is_required_and_no_other_is_allowed(subtests: pytest.Subtests) -> None:
    for kind, (annotation, good, _) in TYPES.items():
        tool = taking(annotation)
        for wrong in ({}, {"value": good[0], "more": 1}):
            with subtests.test(kind, arguments=wrong):
                assert not allows(tool, wrong)
                with pytest.raises(ArgumentError):
                    tool.arguments.validate(wrong)


def test_the_function_receives_what_it_is_annotated_with(subtests: pytest.Subtests) -> None:
    for annotation, sent, received in [
        (datetime.date, "2026-02-28", datetime.date(2026, 2, 28)),
        (datetime.datetime, "2026-02-28T10:00:00Z", datetime.datetime(2026, 2, 28, 10, tzinfo=datetime.UTC)),
        (Decimal, "2.50", Decimal("2.50")),
        (Board, "half", Board.HALF),
        (City, {"name": "Porto"}, City(name="Porto")),
        (Point, {"x": 1}, Point(1.0)),
        (tuple[int, str], [1, "a"], (1, "a")),
        (set[int], [1, 2], {1, 2}),
        (list[City], [{"name": "Porto"}], [City(name="Porto")]),
    ]:
        with subtests.test(annotation=annotation, sent=sent, received=received):
            value = taking(annotation).arguments.validate({"value": sent})["value"]
            assert value == received
            assert type(value) is type(received)


def test_an_unannotated_parameter_takes_anything() -> None:
    def echo(value):
        return value

    tool = make_tool(echo)
    assert tool.arguments.schema["properties"] == {"value": {}}
    assert tool.arguments.validate({"value": [None]}) == {"value": [None]}


def test_a_function_without_parameters_takes_an_empty_object() -> None:
    def now() -> str: ...

    tool = make_tool(now)
    assert tool.definition["inputSchema"] == {"type": "object", "properties": {}, "additionalProperties": False}
    assert tool.arguments.validate({}) == {}


def test_the_schema_says_each_thing_once_and_needs_no_titles() -> None:
    def search(city: str, limit: Annotated[int, Field(ge=1, le=50, description="At most.")] = 10) -> None: ...

    assert make_tool(search).definition["inputSchema"] == {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "limit": {"type": "integer", "minimum": 1, "maximum": 50, "default": 10, "description": "At most."},
        },
        "required": ["city"],
        "additionalProperties": False,
    }


# Defaults


def test_a_default_is_shown_and_given_to_the_function(subtests: pytest.Subtests) -> None:
    for annotation, default, shown in [
        (int, 3, 3),
        (str | None, None, None),
        (Board, Board.HALF, "half"),
        (datetime.date, datetime.date(2026, 1, 2), "2026-01-02"),
        (list[int], [1], [1]),
        (City, City(name="Porto"), {"name": "Porto", "population": None}),
        (bool, False, False),
    ]:
        with subtests.test(annotation=annotation, default=default, shown=shown):
            tool = taking(annotation, default)
            assert "required" not in tool.arguments.schema
            assert tool.arguments.schema["properties"]["value"]["default"] == shown
            assert tool.arguments.validate({}) == {"value": default}


def test_a_default_json_cannot_show_is_left_out_and_works() -> None:
    default = object()
    tool = taking(Any, default)
    assert tool.arguments.schema["properties"] == {"value": {}}
    assert tool.arguments.validate({})["value"] is default


def test_a_mutable_default_is_fresh_in_every_call(subtests: pytest.Subtests) -> None:
    for default, change in [
        ([], lambda value: value.append(1)),
        ({}, lambda value: value.update(a=1)),
        (set(), lambda value: value.add(1)),
    ]:
        with subtests.test(default=default, change=change):
            tool = taking(type(default), default)
            change(tool.arguments.validate({})["value"])
            assert tool.arguments.validate({})["value"] == type(default)()
            assert default == type(default)()


def test_a_field_as_the_default_describes_and_bounds_the_parameter() -> None:
    def book(nights: int = Field(ge=1, description="How many."), rooms: int = Field(1, ge=1)) -> None: ...

    tool = make_tool(book)
    assert tool.arguments.schema["required"] == ["nights"]
    assert tool.arguments.schema["properties"] == {
        "nights": {"type": "integer", "minimum": 1, "description": "How many."},
        "rooms": {"type": "integer", "minimum": 1, "default": 1},
    }
    assert tool.arguments.validate({"nights": 2}) == {"nights": 2, "rooms": 1}
    with pytest.raises(ArgumentError, match="rooms"):
        tool.arguments.validate({"nights": 2, "rooms": 0})


def test_a_field_with_a_factory_makes_the_default_anew() -> None:
    def tag(tags: list[str] = Field(default_factory=list)) -> None: ...  # noqa: B008

    tool = make_tool(tag)
    assert "required" not in tool.arguments.schema
    tool.arguments.validate({})["tags"].append("x")
    assert tool.arguments.validate({}) == {"tags": []}


def test_a_default_inside_annotated_makes_the_argument_optional() -> None:
    def tag(size: Annotated[int, Field(default=7)]) -> None: ...

    tool = make_tool(tag)
    assert "required" not in tool.arguments.schema
    assert tool.arguments.validate({}) == {"size": 7}


# Names


AWKWARD = """
self_ copy model_config model_fields model_dump json schema validate dict fields _private __dunder name uri arguments
args kwargs cls type id class_ func function call context äöü items keys get update
"""


def test_a_parameter_may_have_any_name(subtests: pytest.Subtests) -> None:
    for name in AWKWARD.split():
        with subtests.test(name=name):
            scope: dict[str, Any] = {}
            exec(f"def echo({name}: int, other: int = 1) -> int:\n    return {name}", scope)
            tool = make_tool(scope["echo"])
            assert tool.arguments.schema["properties"] == {
                name: {"type": "integer"},
                "other": {"type": "integer", "default": 1},
            }
            arguments = tool.arguments.validate({name: 5})
            assert arguments == {name: 5, "other": 1}
            assert tool.function.call(**tool.keywords(None, arguments)) == 5


# The context


def test_the_context_is_no_argument_and_is_found_by_its_annotation() -> None:
    def where(city: str, anything: Context, limit: int = 1) -> None: ...

    tool = make_tool(where)
    assert list(tool.arguments.schema["properties"]) == ["city", "limit"]
    assert tool.keywords("the context", {"city": "a", "limit": 1}) == {
        "city": "a",
        "limit": 1,
        "anything": "the context",
    }
    with pytest.raises(ArgumentError, match="Unknown argument 'anything'"):
        tool.arguments.validate({"city": "a", "anything": 1})


def test_a_subclass_of_the_context_is_the_context() -> None:
    class Own(Context): ...

    def where(ctx: Own) -> None: ...

    assert make_tool(where).function.context == "ctx"


def test_a_second_context_is_refused_by_function_rather_than_missing_in_every_call() -> None:
    def where(one: Context, two: Context) -> None: ...

    with pytest.raises(ImproperlyConfigured, match="where"):
        make_tool(where)


def test_a_parameter_only_named_context_is_an_argument() -> None:
    def where(context: str) -> None: ...

    assert list(make_tool(where).arguments.schema["properties"]) == ["context"]


# Kinds of callables


class Desk:
    """The desk."""

    def method(self, nights: int, ctx: Context) -> str:
        """Book at the desk."""
        return f"{nights} nights"

    @classmethod
    def of_class(cls, nights: int) -> str:
        return f"{nights} nights"

    @staticmethod
    def static(nights: int) -> str:
        return f"{nights} nights"

    def __call__(self, nights: int) -> str:
        return f"{nights} nights"


class Silent:
    async def __call__(self, nights: int) -> str:
        """Book silently.

        Args:
            nights: How many.
        """
        return f"{nights} nights"


def decorated(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs).upper()

    return wrapper


@decorated
def wrapped(nights: int) -> str:
    """Wrapped."""
    return f"{nights} nights"


def test_any_callable_with_a_signature_can_be_a_tool(subtests: pytest.Subtests) -> None:
    for call, name, answer in [
        (Desk().method, "method", "2 nights"),
        (Desk.of_class, "of_class", "2 nights"),
        (Desk.static, "static", "2 nights"),
        (Desk(), "Desk", "2 nights"),
        (wrapped, "wrapped", "2 NIGHTS"),
        (functools.cache(Desk.static), "static", "2 nights"),
    ]:
        with subtests.test(call=call, name=name, answer=answer):
            tool = make_tool(call)
            assert tool.name == name
            assert tool.arguments.schema["properties"] == {"nights": {"type": "integer"}}
            arguments = tool.arguments.validate({"nights": 2})
            assert tool.function.call(**tool.keywords(None, arguments)) == answer
            assert "outputSchema" not in tool.definition


def test_a_method_is_described_by_its_docstring_and_an_object_by_its_class() -> None:
    assert make_tool(Desk().method).description == "Book at the desk."
    assert make_tool(Desk()).description == "The desk."


def test_an_object_of_a_class_without_docstring_is_described_by_its_call() -> None:
    tool = make_tool(Silent())
    assert tool.description == "Book silently."
    assert tool.arguments.schema["properties"]["nights"]["description"] == "How many."


def test_an_object_whose_call_is_a_coroutine_function_is_asynchronous() -> None:
    assert make_tool(Silent()).function.is_async
    assert not make_tool(Desk()).function.is_async


def multiply(factor: int, value: int, offset: int = 0) -> int:
    """Multiply and move."""
    return factor * value + offset


def test_a_partial_is_a_tool_with_the_types_and_words_of_its_function(subtests: pytest.Subtests) -> None:
    for call in [functools.partial(multiply, 3), functools.partial(functools.partial(multiply, 3))]:
        with subtests.test(call=call):
            tool = make_tool(call, name="triple")
            assert tool.description == "Multiply and move."
            assert tool.arguments.schema["properties"] == {
                "value": {"type": "integer"},
                "offset": {"type": "integer", "default": 0},
            }
            assert tool.definition["outputSchema"] == {"type": "integer"}
            assert tool.function.call(**tool.arguments.validate({"value": 2})) == 6


def test_a_partial_without_a_name_has_that_of_its_function() -> None:
    assert make_tool(functools.partial(multiply, 3)).name == "multiply"


def test_a_partial_of_a_coroutine_function_is_asynchronous() -> None:
    async def wait(seconds: int) -> None: ...

    assert make_tool(functools.partial(wait, 1)).function.is_async


def test_parameters_no_caller_can_name_are_refused_by_function_and_parameter(subtests: pytest.Subtests) -> None:
    for maker, signature in product(
        [make_tool, make_prompt, lambda call: make_resource(call, "x:{a}")],
        ["*args", "**options", "a, /", "a, *rest", "a, **rest", "*, a, **rest"],
    ):
        with subtests.test(maker=maker, signature=signature):
            scope: dict[str, Any] = {}
            exec(f"def greedy({signature}): ...", scope)
            with pytest.raises(ImproperlyConfigured, match=r"^greedy: parameter .*(args|options|a|rest) cannot"):
                maker(scope["greedy"])


def test_keyword_only_parameters_are_arguments_like_others() -> None:
    def book(*, nights: int) -> None: ...

    assert make_tool(book).arguments.schema["required"] == ["nights"]


# Postponed annotations


def test_postponed_annotations_are_read() -> None:
    tool = make_tool(postponed.book)
    assert tool.function.context == "ctx"
    properties = tool.arguments.schema["properties"]
    assert list(properties) == ["stay", "board", "guests"]
    assert properties["board"]["enum"] == ["none", "half"]
    assert properties["guests"]["maximum"] == 9
    assert tool.arguments.validate({"stay": {"nights": 1, "city": "a"}})["stay"] == postponed.Stay(nights=1, city="a")
    assert tool.definition["outputSchema"]["required"] == ["nights", "city"]


def test_an_annotation_that_exists_for_type_checkers_only_is_refused_by_name(subtests: pytest.Subtests) -> None:
    for call, named in [(postponed.price, "price"), (postponed.total, "total"), (postponed.Desk().open, "Desk.open")]:
        with (
            subtests.test(call=call, named=named),
            pytest.raises(ImproperlyConfigured, match=f"{named}.*'Decimal'.*TYPE_CHECKING"),
        ):
            make_tool(call)


def test_a_partial_of_such_a_function_is_refused_by_name_too() -> None:
    with pytest.raises(ImproperlyConfigured, match=r"price.*Decimal"):
        make_tool(functools.partial(postponed.price))


class NoSchema: ...


def test_a_parameter_of_a_type_without_schema_is_refused_by_function_and_type(subtests: pytest.Subtests) -> None:
    for annotation in [NoSchema, list[NoSchema], NoSchema | None, dict[str, NoSchema]]:
        with subtests.test(annotation=annotation), pytest.raises(ImproperlyConfigured, match=r"(?s)'take'.*NoSchema"):
            taking(annotation)


def test_a_lambda_has_to_be_given_a_name() -> None:
    with pytest.raises(ImproperlyConfigured, match="lambda"):
        make_tool(lambda value: value)
    assert make_tool(lambda value: value, name="echo").name == "echo"
