"""Values that clients send as text: read where nothing is lost, and left alone where text may be meant."""

import datetime
import enum
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from django_mcp.primitives.function import EMPTY, Parameter
from django_mcp.primitives.schema import ArgumentError, Arguments


class Guest(BaseModel):
    name: str
    age: int = 18


class Node(BaseModel):
    value: int
    children: list["Node"] = []


class Card(BaseModel):
    by: Literal["card"]
    note: str


class Cash(BaseModel):
    by: Literal["cash"]
    coins: list[int]


class Rank(enum.IntEnum):
    LOW = 1


BIG = 2047948614742839297
Payment = Annotated[Card | Cash, Field(discriminator="by")]


def read(annotation: Any, value: Any) -> Any:
    arguments = Arguments([Parameter("value", annotation, EMPTY, None)], "test", is_json=True)
    return arguments.validate(arguments.read_text({"value": value}))["value"]


@pytest.mark.parametrize(
    ("annotation", "text", "expected"),
    [
        (int, "7", 7),
        (int, " -7 ", -7),
        (int, "7.0", 7),
        (int, str(BIG), BIG),
        (Annotated[int, Field(ge=1)], "7", 7),
        (float, "1.5", 1.5),
        (float, "3", 3.0),
        (bool, "true", True),
        (bool, "False", False),
        (int | None, "7", 7),
        (int | None, "null", None),
        (int | bool, "1", 1),
        (int | bool, "true", True),
        (int | Literal["any"], "7", 7),
        (int | Literal["any"], "any", "any"),
        (Literal[1, 2], "2", 2),
        (Rank, "1", Rank.LOW),
        (list[int], "[1, 2]", [1, 2]),
        (list[int], ["1", str(BIG)], [1, BIG]),
        (list[int], '["1"]', [1]),
        (list[str], '["1", "true"]', ["1", "true"]),
        (set[int], '["1"]', {1}),
        (tuple[int, str], '["1", "2"]', (1, "2")),
        (dict[str, int], '{"a": "1"}', {"a": 1}),
        (dict[str, Any], '{"a": "1"}', {"a": "1"}),
        (Guest, '{"name": "7", "age": "7"}', Guest(name="7", age=7)),
        (list[Guest], [{"name": "true", "age": "7"}], [Guest(name="true", age=7)]),
        (Node, {"value": "1", "children": '[{"value": "2"}]'}, Node(value=1, children=[Node(value=2)])),
        (Payment, {"by": "cash", "coins": ["1"]}, Cash(by="cash", coins=[1])),
        (Payment, '{"by": "card", "note": "7"}', Card(by="card", note="7")),
    ],
    ids=str,
)
def test_text_is_read_where_nothing_is_lost(annotation: Any, text: Any, expected: Any) -> None:
    found = read(annotation, text)
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (str, "7"),
        (str, "true"),
        (str, "null"),
        (str, "[1]"),
        (str | None, "null"),
        (int | str, "7"),
        (list[int] | str, "[1]"),
        (Any, "7"),
        (Any, '{"a": 1}'),
        (list[Any], ["7"]),
        (dict[str, Any], {"a": "[1]"}),
    ],
    ids=str,
)
def test_what_may_be_meant_as_text_stays_text(annotation: Any, text: Any) -> None:
    assert read(annotation, text) == text


def test_decimals_keep_their_digits() -> None:
    assert str(read(Decimal, "1.50")) == "1.50"


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        *((int, text) for text in ("007", "+7", "1_000", "seven", "", "true", "null", "7.5", "9" * 5000, "\ud800")),
        *((float, text) for text in ("1,5", "NaN", "1e400", "12.345678901234567890")),
        *((bool, text) for text in ("yes", "1", "null")),
        (Literal[1, 2], "3"),
        (list[int], "1"),
        (list[int], "[1"),
        (dict[str, int], '{"a": 1, "a": 2}'),
        (datetime.date, "2020"),
        (datetime.timedelta, "30"),
    ],
    ids=lambda each: str(each)[:20].encode("ascii", "replace").decode(),
)
def test_what_is_no_value_of_the_type_is_refused_in_words(annotation: Any, text: Any) -> None:
    with pytest.raises(ArgumentError, match="Argument 'value' must"):
        read(annotation, text)


def test_a_class_that_contains_itself_is_described_once() -> None:
    arguments = Arguments([Parameter("value", Node, EMPTY, None)], "test")
    value: dict[str, Any] = {"value": "1"}
    for _ in range(100):
        value = {"value": "1", "children": [value]}
    found = arguments.read_text({"value": value})["value"]
    for _ in range(100):
        (found,) = found["children"]
    assert found == {"value": 1}
    assert len(arguments._readers["value"]._known) < 10


class Point(BaseModel):
    x: int


class Switch(BaseModel):
    on: bool


class Word(BaseModel):
    x: str
    language: str


class Euros(BaseModel):
    by: Literal["euros"]
    amount: int


class Words(BaseModel):
    by: Literal["words"]
    amount: str


@pytest.mark.parametrize(
    ("annotation", "value", "expected"),
    [
        (Point | Word, {"x": "7"}, Point(x=7)),
        (Point | Word, {"x": "7", "language": "en"}, Word(x="7", language="en")),
        (Euros | Words, {"by": "euros", "amount": "7"}, Euros(by="euros", amount=7)),
        (Euros | Words, {"by": "words", "amount": "7"}, Words(by="words", amount="7")),
        (list[Euros | Words], '[{"by": "euros", "amount": "7"}]', [Euros(by="euros", amount=7)]),
        (Point | Switch | None, {"on": "False"}, Switch(on=False)),
    ],
    ids=str,
)
def test_members_of_a_union_are_read_by_the_form_that_describes_them(
    annotation: Any, value: Any, expected: Any
) -> None:
    arguments = Arguments([Parameter("value", annotation, EMPTY, None)], "test", is_json=True)
    meant = arguments.read_text({"value": value})
    assert arguments.validate(meant)["value"] == expected
    plain = [each.model_dump() for each in expected] if isinstance(expected, list) else expected.model_dump()
    assert meant["value"] == plain, "as approvers see it"


@pytest.mark.parametrize("wrong", ["007", "1_000", "+7", True, 1.5])
@pytest.mark.parametrize("annotation", [Point, Point | Word, Point | Switch, list[Point | Word], Point | None], ids=str)
def test_a_union_is_as_strict_as_its_forms(annotation: Any, wrong: Any) -> None:
    value = {"x": wrong}
    with pytest.raises(ArgumentError, match="must be an integer"):
        read(annotation, [value] if "list" in str(annotation) else value)


def test_one_whole_number_is_one_value_however_it_is_written() -> None:
    arguments = Arguments([Parameter("value", int | None, EMPTY, None)], "test", is_json=True)
    meant = [arguments.read_text({"value": text})["value"] for text in ("7", "7.0", "7e0", " 7 ")]
    assert [repr(each) for each in meant] == ["7"] * 4, "idempotency keys and the log compare what was read"
