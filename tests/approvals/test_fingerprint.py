"""Which calls are the same call: what was approved runs, however it is written, and nothing else does."""

import dataclasses
import datetime
import enum
import ipaddress
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, SecretStr
from typing_extensions import TypedDict

from django_mcp import MCPServer, tool
from django_mcp.approvals.decisions import approve
from django_mcp.models import Approval
from tests.approvals.asking import People, kind_of, newest, serve

Ask = Callable[..., dict[str, Any]]
NFC, NFD = "\u00e9", "e\u0301"


class Colour(str, enum.Enum):  # noqa: UP042 - as many sites have them
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1


@dataclasses.dataclass
class Stay:
    nights: int
    rooms: list[int] = dataclasses.field(default_factory=list)


class Options(TypedDict, total=False):
    note: str | None


class Guest(BaseModel):
    model_config = ConfigDict(extra="allow", populate_by_name=True)
    name: str = Field(alias="fullName")
    note: str | None = None
    pin: SecretStr = SecretStr("0")


class Adult(BaseModel):
    age: int


class Child(BaseModel):
    age: int
    school: str = "none"


DATE = "2030-05-01T23:30:00-05:00"
EXACT = "1.0000000000000000000000000000"

Case = tuple[str, Any, Any, Any]
"""What it is about, the annotation of the argument, a value that is approved, and one that is sent then."""
DIFFERENT: list[Case] = [
    ("one and true", Any, 1, True),
    ("zero and false", Any, 0, False),
    ("one and its text", Any, 1, "1"),
    ("null and its text", Any, None, "null"),
    ("a list and what it holds", Any, [1], 1),
    ("an empty list and an empty object", Any, [], {}),
    ("a list and an object", Any, ["a", 1], {"a": 1}),
    ("the order of a list", Any, [1, 2], [2, 1]),
    ("nested once more", Any, [[1], 2], [[1, 2]]),
    ("whole numbers that floats cannot tell apart", int, 2**53, 2**53 + 1),
    ("large whole numbers", int, 10**30, 10**30 + 1),
    ("floats side by side", float, 0.1, math.nextafter(0.1, 1)),
    ("decimals of more digits than are usual", Decimal, EXACT + "1", EXACT + "2"),
    ("large decimals", Decimal, "1" + "0" * 29, "1" + "0" * 28 + "1"),
    ("the sign of a decimal", Decimal, "1.5", "-1.5"),
    ("the place of its point", Decimal, "1.5", "15"),
    ("composed and decomposed letters", str, NFC, NFD),
    ("a space at the end", str, "pay", "pay "),
    ("a letter nobody sees", str, "pay", "pa\u200by"),
    ("small and capital letters", str, "a", "A"),
    ("a member and the text of its name", Colour | str, "red", "Colour.RED"),
    (
        "keys that are members, and texts",
        dict[Colour | str, int],
        {"red": 1, "Colour.RED": 2},
        {"red": 3, "Colour.RED": 2},
    ),
    ("moments in zones where it is another day", datetime.datetime, DATE, "2030-05-02T04:30:00Z"),
    ("moments with a zone and one without", datetime.datetime, "2030-05-01T13:00:00Z", "2030-05-01T12:00:00"),
    ("a second", datetime.time, "12:00:00", "12:00:01"),
    ("times that last", datetime.timedelta, "P3000000DT0.000001S", "P3000000DT0.000002S"),
    ("bytes", bytes, "AAAA", "AAAB"),
    ("sets", set[int], [1, 2], [1, 3]),
    ("dataclasses", Stay, {"nights": 1, "rooms": [1]}, {"nights": 1, "rooms": [2]}),
    ("a key that is absent and one that is null", Options, {}, {"note": None}),
    ("a field that is absent and one that is null", Guest, {"fullName": "a"}, {"fullName": "a", "note": None}),
    ("more than a model asks for", Guest, {"fullName": "a", "x": 1}, {"fullName": "a", "x": 2}),
    ("a secret", Guest, {"fullName": "a", "pin": "1"}, {"fullName": "a", "pin": "2"}),
    ("a model and another one like it", Adult | Child, {"age": 8}, {"age": 8, "school": "none"}),
    ("what has no form of its own", ipaddress.IPv4Address, "10.0.0.1", "10.0.0.2"),
    ("the same inside", list[ipaddress.IPv4Address], ["10.0.0.1"], ["10.0.0.2"]),
]
SAME: list[Case] = [
    ("a whole number as a float", int, 5, 5.0),
    ("a float as a whole number", float, 5.0, 5),
    ("the same where anything goes", Any, {"a": 5}, {"a": 5.0}),
    ("zeros at the end of a decimal", Decimal, "1.50", "1.5"),
    ("a decimal as a number", Decimal, "15e-1", 1.5),
    ("zeros", Decimal, "0.00", "-0"),
    ("two words for noon in Greenwich", datetime.datetime, "2030-05-01T12:00:00Z", "2030-05-01T12:00:00+00:00"),
    ("a moment of the site's zone", datetime.datetime, "2030-05-01T12:00:00Z", "2030-05-01T12:00:00"),
    ("the order of keys", dict[str, int], {"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ("the order of a set", set[str], ["a", "b"], ["b", "a", "a"]),
    ("two alphabets of Base64", bytes, "+/+/", "-_-_"),
    ("a name and its alias", Guest, {"fullName": "a"}, {"name": "a"}),
    ("a default of a dataclass", Stay, {"nights": 1}, {"nights": 1, "rooms": []}),
    ("a member", Level, 1, 1.0),
    ("what has no form of its own", ipaddress.IPv4Address, "10.0.0.1", "10.0.0.1"),
]


def asked(server: MCPServer, people: People, annotation: Any) -> tuple[Ask, list[Any]]:
    """What calls a tool that takes one value, and the values with which it ran."""
    ran: list[Any] = []

    def act(value: Any) -> str:
        ran.append(value)
        return "done"

    server.remove(lambda _: True)
    Approval.objects.all().delete()
    act.__annotations__["value"] = annotation
    tool(server=server, policy="ask")(act)
    return lambda value: serve(server, people["ann"], "act", {"value": value}), ran


def test_what_is_different_is_not_approved_with_it(server: MCPServer, people: People) -> None:
    wrong = []
    for about, annotation, approved, made in DIFFERENT:
        act, ran = asked(server, people, annotation)
        act(approved)
        assert approve(newest(), people["cleo"])
        was_refused = kind_of(act(made)) == "approval_required" and ran == []
        act(approved)
        if not was_refused or len(ran) != 1:  # the approval is still there
            wrong.append(about)
    assert wrong == []


def test_what_means_the_same_is_the_same_call(server: MCPServer, people: People) -> None:
    wrong = []
    for about, annotation, approved, made in SAME:
        act, ran = asked(server, people, annotation)
        act(approved)
        assert approve(newest(), people["cleo"])
        if act(made).get("isError") or len(ran) != 1:
            wrong.append(about)
    assert wrong == []


def test_a_default_and_null_are_different_where_they_are_not_the_same(server: MCPServer, people: People) -> None:
    @tool(server=server, policy="ask")
    def book(day: str | None = "today") -> str:
        return str(day)

    serve(server, people["ann"], "book", {})
    assert approve(newest(), people["cleo"])
    assert kind_of(serve(server, people["ann"], "book", {"day": None})) == "approval_required"
    assert serve(server, people["ann"], "book", {"day": "today"})["content"][0]["text"] == "today"


def test_what_a_function_is_given_cannot_be_written_into_another_argument(server: MCPServer, people: People) -> None:
    ran: list[Any] = []

    @tool(server=server, policy="ask")
    def send(a: str, b: str, given: dict[str, str] | None = None) -> str:
        ran.append((a, b, given))
        return "sent"

    first = {"a": "x", "b": "y", "given": {"a": "x"}}
    serve(server, people["ann"], "send", first)
    assert approve(newest(), people["cleo"])
    for other in (
        {"a": "x", "b": "z", "given": {"a": "x"}},
        {"a": "y", "b": "x", "given": {"a": "x"}},
        {"a": "x", "b": 'y","given":{"a":"x"}'},
        {"a": "x", "b": "y", "given": {"b": "y"}},
    ):
        assert kind_of(serve(server, people["ann"], "send", other)) == "approval_required"
    assert ran == []
    serve(server, people["ann"], "send", first)
    assert len(ran) == 1


def test_the_ticket_does_not_tell_what_a_secret_was(server: MCPServer, people: People) -> None:
    @tool(server=server, policy="ask")
    def enter(pin: SecretStr) -> str:
        return "in"

    tickets = []
    for pin in ("hush-1234", "hush-4321"):
        serve(server, people["ann"], "enter", {"pin": pin})
        tickets.append(newest())
    first, second = tickets
    assert first.digest != second.digest
    assert "hush" not in str(vars(first))
    assert first.arguments == {"pin": "***"}
