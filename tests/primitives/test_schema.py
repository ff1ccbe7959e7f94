"""Schemas of functions, as every client and every provider of models takes them."""

import datetime
import ipaddress
import json
import pathlib
import uuid
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple

import pytest
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from django_mcp.primitives.schema import ArgumentError
from tests.primitives.makers import make_tool, taking


class Pair(NamedTuple):
    """Two numbers."""

    left: int
    right: int


class Leaf(BaseModel):
    """Part of a tree."""

    name: str


class Tree(BaseModel):
    """It contains itself."""

    leaf: Leaf
    others: list["Tree"] = []


class Shelf(BaseModel):
    """It does not."""

    first: Leaf
    last: Leaf


def schemas(schema: Any) -> Iterator[dict[str, Any]]:
    """Every schema in a schema."""
    if isinstance(schema, dict):
        yield schema
        schema = list(schema.values())
    if isinstance(schema, list):
        for each in schema:
            yield from schemas(each)


def definition(annotation: Any) -> dict[str, Any]:
    def run(value: Any) -> Any: ...

    run.__annotations__ = {"value": annotation, "return": annotation}
    return make_tool(run).definition


def test_every_array_says_what_is_in_it(subtests: pytest.Subtests) -> None:
    for annotation in [tuple[int, str], tuple[int, int], tuple[()], Pair, tuple[int, ...], list, set[int]]:
        with subtests.test(annotation=annotation):
            told = definition(annotation)
            for each in schemas([told["inputSchema"], told["outputSchema"]]):
                assert each.get("type") != "array" or isinstance(each.get("items"), dict)
    assert definition(tuple[int, int])["inputSchema"]["properties"]["value"]["items"] == {"type": "integer"}


def test_references_are_written_out_where_nothing_contains_itself() -> None:
    assert "$ref" not in json.dumps(definition(Shelf))
    tree = definition(Tree)["inputSchema"]
    assert set(tree["$defs"]) == {"Tree"}
    assert "Leaf" not in json.dumps(tree)


def test_no_format_is_stricter_than_what_is_sent(subtests: pytest.Subtests) -> None:
    for annotation in [datetime.time, datetime.timedelta, datetime.datetime]:
        with subtests.test(annotation=annotation):
            shown = definition(annotation)["outputSchema"]
            assert "format" not in shown
            assert shown["type"] == "string"
    assert definition(AwareDatetime)["outputSchema"]["format"] == "date-time"


def test_formats_that_validators_do_not_know_are_left_out(subtests: pytest.Subtests) -> None:
    for annotation in [pathlib.Path, ipaddress.IPv4Network]:
        with subtests.test(annotation=annotation):
            assert "format" not in definition(annotation)["inputSchema"]["properties"]["value"]


def test_a_number_is_no_time_although_the_schema_of_times_has_no_format() -> None:
    def run(at: datetime.time) -> None: ...

    made = make_tool(run)
    assert made.arguments.validate({"at": "09:30"}) == {"at": datetime.time(9, 30)}
    for wrong in (930, "930"):
        with pytest.raises(ArgumentError, match="must be a time"):
            made.arguments.validate({"at": wrong})


class Stay(BaseModel):
    model_config = ConfigDict(strict=True)
    day: datetime.date
    rooms: set[int] = set()
    key: uuid.UUID | None = None


class Trip(BaseModel):
    stays: list[Stay]


def test_a_strict_model_takes_what_json_has_for_dates_and_sets(subtests: pytest.Subtests) -> None:
    """In strict mode, pydantic takes no text for a date, unless it reads the text from JSON."""
    given: dict[str, Any] = {"day": "2026-05-01", "rooms": [1, 2], "key": "123e4567-e89b-12d3-a456-426614174000"}
    stay = Stay(day=datetime.date(2026, 5, 1), rooms={1, 2}, key=uuid.UUID(given["key"]))
    for annotation, value, read in [
        (Stay, given, stay),
        (Stay | None, given, stay),
        (Trip, {"stays": [given]}, Trip(stays=[stay])),
        (Annotated[datetime.date, Field(strict=True)], "2026-05-01", stay.day),
    ]:
        with subtests.test(annotation=annotation):
            assert taking(annotation).arguments.validate({"value": value}) == {"value": read}


def test_what_is_wrong_in_a_strict_model_is_told_as_elsewhere() -> None:
    stays = taking(list[Stay]).arguments
    for value, problem in [
        ([{"day": "soon"}], "Argument 'value[0].day' must be a date like 1999-12-31 (year-month-day), not 'soon'."),
        ([{"day": 20260501}], "Argument 'value[0].day' must be a date like 1999-12-31 (year-month-day), not 20260501."),
        ([{"day": "2026-05-01", "rooms": ["x"]}], "Argument 'value[0].rooms[0]' must be an integer, not 'x'."),
        ([{"day": "2026-05-01"}] * 2000 + [{"dai": 1}], "Missing argument 'value[2000].day'."),
    ]:
        with pytest.raises(ArgumentError) as caught:
            stays.validate({"value": value})
        assert caught.value.problems[0].startswith(problem)
