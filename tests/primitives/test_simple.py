"""Types that are read without pydantic mean the same as with it."""

import itertools
import json
import math
import typing
from typing import Annotated, Any, Literal, Optional

import pytest
from pydantic import Field, ValidationError

from django_mcp.primitives import simple, typed
from django_mcp.primitives.functions import EMPTY, Parameter

SIMPLE: list[Any] = [
    bool,
    float,
    int,
    str,
    Any,
    list,
    dict,
    list[int],
    list[Any],
    list[list[str]],
    list[Literal["a", "b"]],
    list[int | None],
    typing.List[int],  # noqa: UP006 - as some still write it
    dict[str, Any],
    dict[str, float],
    dict[Any, int],
    dict[str, list[int]],
    dict[str, dict[str, bool]],
    typing.Dict[str, int],  # noqa: UP006
    int | None,
    None | str,
    Optional[float],  # noqa: UP045
    list[str] | None,
    dict[str, Any] | None,
    Literal["a", "b"] | None,
    Literal["a"],
    Literal["a", "b"],
    Literal[1],
    Literal[2, 1],
]
OTHER: list[Any] = [
    bytes,
    tuple[int, ...],
    set[int],
    int | str,
    int | str | None,
    dict[int, str],
    list[bytes],
    Literal["a", 1],
    Literal[True],
    Literal[None],  # noqa: PYI061 - as some write it
    typing.List,  # noqa: UP006
    Annotated[int, Field(ge=1)],
    type("Own", (str,), {}),
    object,
    None,
    EMPTY,
    "int",
]
DEFAULTS = (EMPTY, None, True, 0, 7, 0.5, "a", "")
VALUES: list[Any] = [
    None,
    True,
    0,
    1,
    2**70,
    1.0,
    1.5,
    -0.0,
    math.inf,
    math.nan,
    "",
    "a",
    "1",
    "yes",
    "é",
    b"a",
    [],
    [1],
    ["a", 1.5],
    [None],
    [[]],
    [["a"]],
    (1, 2),
    {1, 2},
    {},
    {"a": 1},
    {"a": "1"},
    {"a": None},
    {"a": [1]},
    {"a": {"b": True}},
    {1: 1},
]


def outcome(call: Any, *arguments: Any, **options: Any) -> str:
    """What a call gives, or which errors it finds, to be compared."""
    try:
        return repr(call(*arguments, **options))
    except ValidationError as error:
        return repr(error.errors(include_url=False))


def test_arguments_are_described_and_checked_as_by_pydantic(subtests: pytest.Subtests) -> None:
    for annotation in SIMPLE:
        with subtests.test(annotation=annotation):
            for default, words in itertools.product(DEFAULTS, (None, "What it is.")):
                parameters = [Parameter("x", annotation, default, words), Parameter("more", int, EMPTY, None)]
                own, other = simple.arguments(parameters), typed.arguments(parameters, "test")
                assert own is not None
                assert json.dumps(own.schema) == json.dumps(other.schema)
                for given in ({}, {"x": 1, "y": 2}, *({"x": value} for value in VALUES)):
                    arguments = {"more": 1, **given}
                    assert outcome(own.validate, arguments) == outcome(other.validate, arguments)


def test_results_are_described_checked_and_shown_as_by_pydantic(subtests: pytest.Subtests) -> None:
    for annotation in SIMPLE:
        with subtests.test(annotation=annotation):
            own, other = simple.result(annotation), typed.result(annotation, "test")
            assert own is not None
            assert json.dumps([own.schema, own.is_wrapped]) == json.dumps([other.schema, other.is_wrapped])
            for value in VALUES:
                found = outcome(own.validate, value)
                assert found == outcome(other.validate, value)
                if not found.startswith("[{'type'"):
                    checked = own.validate(value)
                    assert shown(own, checked) == shown(other, checked)


def shown(checked: simple.CheckedResult, value: Any) -> str:
    if checked.dump is None:
        return repr(value)
    try:
        return repr(checked.dump(value, mode="json", by_alias=True))
    except ValueError as error:
        return str(error)


def test_no_arguments_are_arguments_too() -> None:
    own, other = simple.arguments([]), typed.arguments([], "test")
    assert own is not None
    assert own.schema == other.schema
    assert outcome(own.validate, {}) == outcome(other.validate, {})


def test_all_else_is_left_to_pydantic(subtests: pytest.Subtests) -> None:
    for annotation in OTHER:
        with subtests.test(annotation=annotation):
            assert simple.simple(annotation) is None


def test_defaults_that_are_no_json_are_left_to_pydantic(subtests: pytest.Subtests) -> None:
    for default in [[], {}, math.nan, math.inf, (), b"", Field(default=1), object()]:
        with subtests.test(default=default):
            assert simple.arguments([Parameter("x", Any, default, None)]) is None
