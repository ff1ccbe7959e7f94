"""Calls of a careless model, and the words from which it can repair each of them: all of the words."""

import datetime
import enum
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from django.core.exceptions import PermissionDenied
from pydantic import BaseModel, ConfigDict, Field

from django_mcp import MCPServer, Upload, tool
from tests.behaviour.afresh import afresh
from tests.clients import LEGACY, MODERN, Client


class Guest(BaseModel):
    name: str
    age: int
    diet: Literal["none", "vegan"] = "none"


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")
    street: str
    city: str = "Porto"


class Card(BaseModel):
    by: Literal["card"]
    number: str


class Transfer(BaseModel):
    by: Literal["transfer"]
    iban: str


class Board(enum.Enum):
    NONE = "none"
    HALF = "half"
    FULL = "full"


GOOD: Mapping[str, Any] = {"city": "Porto", "arrival": "2030-05-01"}


@pytest.fixture(autouse=True)
def book(server: MCPServer) -> None:
    @tool(server=server)
    def book_hotel(
        city: Annotated[str, Field(min_length=1, max_length=20)],
        arrival: datetime.date,
        nights: Annotated[int, Field(ge=1, le=30)] = 1,
        board: Board = Board.NONE,
        guests: list[Guest] = [],  # noqa: B006
        address: Strict | None = None,
        budget: Annotated[Decimal, Field(max_digits=6, decimal_places=2)] | None = None,
        rating: float = 0.0,
        pets: bool = False,
        room: int | Literal["any"] = "any",
        pay: Annotated[Card | Transfer, Field(discriminator="by")] | None = None,
        code: Annotated[str, Field(pattern="^[A-Z]{3}$")] | None = None,
        tags: Annotated[list[str], Field(max_length=3)] = [],  # noqa: B006
        at: datetime.time | None = None,
        since: datetime.datetime | None = None,
        photo: Annotated[bytes, Upload(max_bytes=12)] | None = None,
    ) -> str:
        """Book a hotel."""
        return "booked"


TAKES = (
    "It takes 'city', 'arrival', 'nights', 'board', 'guests', 'address', 'budget', 'rating', 'pets', 'room', 'pay', "
    "'code', 'tags', 'at', 'since', 'photo'."
)
NESTED: Any = 5
for _ in range(60):
    NESTED = [NESTED]

BAD: dict[str, tuple[Mapping[str, Any], str]] = {
    "a word for a number": ({"nights": "two"}, "Argument 'nights' must be an integer, not 'two'."),
    "a fraction": ({"nights": 1.5}, "Argument 'nights' must be an integer, not 1.5."),
    "too little": ({"nights": 0}, "Argument 'nights' must be at least 1, not 0."),
    "too much": ({"nights": 31}, "Argument 'nights' must be at most 30, not 31."),
    "an empty text for a number": ({"nights": ""}, "Argument 'nights' must be an integer, not ''."),
    "null": ({"nights": None}, "Argument 'nights' must be an integer, not null; omit it instead."),
    "null for what is required": ({"city": None}, "Argument 'city' must be a string, not null."),
    "a number for a text": ({"city": 5}, "Argument 'city' must be a string, not 5; write \"5\"."),
    "an empty text": ({"city": ""}, "Argument 'city' must not be empty."),
    "a long text": ({"city": "x" * 21}, "Argument 'city' must have at most 20 characters, not 21."),
    "nothing": ({"city": ...}, "Missing argument 'city'."),
    "an unknown name": ({"breakfast": True}, f"Unknown argument 'breakfast'. {TAKES}"),
    "a near name": ({"nigths": 2}, f"Unknown argument 'nigths'. Did you mean 'nights'? {TAKES}"),
    "a name in capitals": ({"Tags": []}, f"Unknown argument 'Tags'. Did you mean 'tags'? {TAKES}"),
    "another case": (
        {"board": "HALF"},
        "Argument 'board' must be 'none', 'half' or 'full', not 'HALF'. Did you mean 'half'?",
    ),
    "no such choice": ({"board": "all"}, "Argument 'board' must be 'none', 'half' or 'full', not 'all'."),
    "an American date": (
        {"arrival": "05/31/2030"},
        "Argument 'arrival' must be a date like 1999-12-31 (year-month-day), not '05/31/2030'.",
    ),
    "a date in words": (
        {"arrival": "tomorrow"},
        "Argument 'arrival' must be a date like 1999-12-31 (year-month-day), not 'tomorrow'.",
    ),
    "a day that is none": (
        {"arrival": "2030-02-30"},
        "Argument 'arrival' must be a date that exists, like 1999-12-31, not '2030-02-30'.",
    ),
    "a date with a time": (
        {"arrival": "2030-05-01T10:00:00"},
        "Argument 'arrival' must be a date without a time, like 1999-12-31, not '2030-05-01T10:00:00'.",
    ),
    "a time of twelve hours": ({"at": "3 pm"}, "Argument 'at' must be a time like 14:30:00, not '3 pm'."),
    "a moment in words": (
        {"since": "last week"},
        "Argument 'since' must be a date and time like 1999-12-31T14:30:00Z, not 'last week'.",
    ),
    "NaN": ({"rating": "NaN"}, "Argument 'rating' must be a finite number, not 'NaN'."),
    "a decimal comma": ({"budget": "12,50"}, "Argument 'budget' must be a decimal number like 12.50, not '12,50'."),
    "more digits than there are": (
        {"budget": "1.234"},
        "Argument 'budget' must be a number with no more than 2 digits after the decimal point, not '1.234'.",
    ),
    "a word for true": ({"pets": "perhaps"}, "Argument 'pets' must be true or false, not 'perhaps'."),
    "one for many": ({"tags": "sea"}, "Argument 'tags' must be an array, not 'sea'; write [\"sea\"]."),
    "many for one": ({"city": ["Porto"]}, "Argument 'city' must be a string, not [\"Porto\"]."),
    "too many": ({"tags": ["x"] * 5000}, "Argument 'tags' must have at most 3 items, not 5000."),
    "other JSON in a text": (
        {"guests": '{"name": "Ann", "age": 5}'},
        (
            'Argument \'guests\' must be an array, not \'{"name": "Ann", "age": 5}\'; '
            "send the JSON value itself, not a string that contains it."
        ),
    ),
    "an array in a text": (
        {"address": '["Rua"]'},
        (
            "Argument 'address' must be an object, not '[\"Rua\"]'; "
            "send the JSON value itself, not a string that contains it."
        ),
    ),
    "an object for a list of them": (
        {"guests": {"name": "Ann", "age": 5}},
        'Argument \'guests\' must be an array, not {"name":"Ann","age":5}; write [{"name":"Ann","age":5}].',
    ),
    "a list for an object": ({"address": ["Rua"]}, "Argument 'address' must be an object, not [\"Rua\"]."),
    "a misspelt key inside": (
        {"guests": [{"nmae": "Ann", "age": 5}]},
        "Missing argument 'guests[0].name'. Did you misspell it as 'nmae'?",
    ),
    "an unknown key inside": (
        {"address": {"street": "Rua", "citty": "Porto"}},
        "Unknown argument 'address.citty'. Did you mean 'city'? 'address' takes 'street', 'city'.",
    ),
    "a wrong type inside": (
        {"guests": [{"name": "Ann", "age": "old", "diet": "Vegan"}]},
        (
            "Argument 'guests[0].age' must be an integer, not 'old'. "
            "Argument 'guests[0].diet' must be 'none' or 'vegan', not 'Vegan'. Did you mean 'vegan'?"
        ),
    ),
    "deep nesting": ({"nights": NESTED}, f"Argument 'nights' must be an integer, not {'[' * 60}5{']' * 18}…."),
    "neither of two": ({"room": "sea view"}, "Argument 'room' must be an integer or 'any', not 'sea view'."),
    "no form of several": ({"pay": {"by": "cash"}}, "Argument 'pay.by' must be one of 'card', 'transfer', not 'cash'."),
    "a form without its name": ({"pay": {"number": "1"}}, "Missing argument 'pay.by'."),
    "a form without its parts": ({"pay": {"by": "card"}}, "Missing argument 'pay.number'."),
    "no such pattern": ({"code": "bcn"}, "Argument 'code' must be a string that matches ^[A-Z]{3}$, not 'bcn'."),
    "no Base64": ({"photo": "(image)"}, "Argument 'photo' must be Base64 and nothing else, not '(image)'."),
    "an address for a file": (
        {"photo": "https://example.com/a.png"},
        "Argument 'photo' must be Base64 and nothing else, not 'https://example.com/a.png'.",
    ),
    "a large file": (
        {"photo": "A" * 20},
        ("Argument 'photo' must be at most 12 bytes when decoded, not 15 bytes (received 'AAAAAAAAAAAAAAAAAAAA')."),
    ),
    "several mistakes": (
        {"city": ..., "nights": "x", "pets": 5},
        (
            "Missing argument 'city'. Argument 'nights' must be an integer, not 'x'. "
            "Argument 'pets' must be true or false, not 5."
        ),
    ),
}


def test_a_bad_call_is_told_how_to_repair_it(client: Client, subtests: pytest.Subtests) -> None:
    for kind, (changes, sentence) in BAD.items():
        with subtests.test(kind=kind):
            arguments = {name: value for name, value in {**GOOD, **changes}.items() if value is not ...}
            answer = client.request("tools/call", {"name": "book_hotel", "arguments": arguments})
            assert answer.status == 200
            assert answer.result["isError"] is True
            assert answer.text == sentence


def test_a_good_call_is_none_of_them(client: Client) -> None:
    assert client.call("book_hotel", **GOOD).text == "booked"


# What is no call of this tool at all is an error of the protocol.


def test_what_is_no_call_is_told_what_one_is(client: Client, subtests: pytest.Subtests) -> None:
    cases = [
        (
            {"name": "book_hotel", "arguments": "city=Porto"},  # the JSON of an object would be read
            (
                '"params.arguments" must be an object, like {"name": "value"}, not a string. '
                "Send the object itself, not a string that holds it."
            ),
        ),
        (
            {"name": "book_hotel", "arguments": ["Porto", "2030-05-01"]},
            '"params.arguments" must be an object, like {"name": "value"}, not an array.',
        ),
        (
            {"name": "book_hotel", "arguments": 5},
            '"params.arguments" must be an object, like {"name": "value"}, not a number.',
        ),
        ({"arguments": dict(GOOD)}, '"params.name" must be a string.'),
        ({"name": "book_hotels", "arguments": dict(GOOD)}, "Unknown tool: 'book_hotels'. Did you mean 'book_hotel'?"),
        ({"name": "BookHotel", "arguments": dict(GOOD)}, "Unknown tool: 'BookHotel'. Did you mean 'book_hotel'?"),
        ({"name": "find_flight", "arguments": {}}, "Unknown tool: 'find_flight'."),
    ]
    for params, message in cases:
        with subtests.test(params=params, message=message):
            answer = client.request("tools/call", params)
            assert (answer.code, answer.error["message"]) == (-32602, message)


def test_a_near_name_is_only_offered_to_whom_the_tool_exists_for(server: MCPServer, client: Client) -> None:
    @tool(server=server, permission="travel.delete_hotel")
    def delete_hotel() -> None: ...

    for name in ("delete_hotel", "delete_hotels"):
        assert client.call(name).error["message"] == f"Unknown tool: {name!r}."

    @tool(server=server, visible=lambda ctx: True)
    def delete_hostel() -> None: ...

    for name in ("delete_hotel", "delete_hotels"):
        assert client.call(name).error["message"] == f"Unknown tool: {name!r}. Did you mean 'delete_hostel'?"


def test_a_tool_that_refuses_the_caller_suggests_what_one_that_is_not_there_does(
    server: MCPServer, client: Client
) -> None:
    @tool(server=server)
    def book_motel() -> None:
        raise PermissionDenied

    words = [client.call(name).error["message"] for name in ("book_motel", "book_kotel")]
    assert words[0] == "Unknown tool: 'book_motel'. Did you mean 'book_hotel'?"
    assert words[1].replace("kotel", "motel") == words[0].replace("book_hotel", "book_motel")


def test_a_name_that_means_something_else_is_not_suggested(
    server: MCPServer, client: Client, subtests: pytest.Subtests
) -> None:
    for there, wanted in [
        ("max_weight", "sum_weight"),
        ("set_price", "get_price"),
        ("delete_book", "get_book"),
        ("list_books", "books"),
    ]:
        with subtests.test(there=there, wanted=wanted), afresh():
            tool(server=server, name=there)(lambda: "")
            assert client.call(wanted).error["message"] == f"Unknown tool: {wanted!r}."


@pytest.mark.parametrize("version", [MODERN, LEGACY])
def test_what_json_does_not_have_never_reaches_a_tool(client: Client, subtests: pytest.Subtests) -> None:
    for value in ['"\\ud800"', '"a\\udfff b"', "NaN", "Infinity", "[" * 100_000]:
        with subtests.test(value=value):
            params = f'{{"name":"book_hotel","arguments":{{"city":{value}}}}}'
            body = f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}'
            headers = {"mcp-protocol-version": client.version, "mcp-method": "tools/call"}
            answer = client.post(body.encode(), headers)
            assert answer.code == -32700
            assert "not valid JSON" in answer.error["message"]


def test_a_nul_is_a_character_like_others(client: Client) -> None:
    assert client.call("book_hotel", **{**GOOD, "city": "Po\0rto"}).text == "booked"


def test_one_mistake_made_hundreds_of_times_is_not_told_hundreds_of_times(client: Client) -> None:
    text = client.call("book_hotel", **GOOD, guests=[{"name": "Ann", "age": "x"}] * 200).text
    assert text.startswith("Argument 'guests[0].age' must be an integer, not 'x'. Argument 'guests[1].age' must")
    assert text.endswith("And 181 more errors.")
    assert len(text) < 2000
