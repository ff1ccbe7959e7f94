"""Cursors: ours come back as positions, everything else is refused."""

import base64
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from django_mcp.protocol.errors import InvalidParams
from django_mcp.protocol.pagination import decode_cursor, encode_cursor
from tests.protocol.strategies import VALUES


@given(st.integers(min_value=0, max_value=10**12 - 1))
def test_a_cursor_comes_back_as_the_position_it_was_made_of(position: int) -> None:
    assert decode_cursor(encode_cursor(position)) == position


@given(st.integers(min_value=0, max_value=10**12 - 1))
def test_a_cursor_needs_no_quoting_in_a_url(position: int) -> None:
    cursor = encode_cursor(position)
    assert cursor.isascii()
    assert cursor.replace("-", "").replace("_", "").isalnum()


@pytest.mark.parametrize("cursor", [None, ""])
def test_no_cursor_is_the_beginning(cursor: str | None) -> None:
    assert decode_cursor(cursor) == -1


def raw(text: bytes) -> str:
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


STRANGE: dict[str, Any] = {
    "a number as text": "5",
    "words": "next",
    "blanks": " ",
    "not valid Base64": "!!!!",
    "not ASCII": "é",
    "one letter": "A",
    "no position": raw(b"after:"),
    "no prefix": raw(b"5"),
    "another prefix": raw(b"before:5"),
    "a negative position": raw(b"after:-1"),
    "a signed position": raw(b"after:+1"),
    "a fraction": raw(b"after:1.5"),
    "digits of another script": raw("after:\u0663".encode()),
    "a position too large to be one": raw(b"after:" + b"9" * 13),
    "a position of many digits": raw(b"after:" + b"9" * 5000),
    "something after it": raw(b"after:5 "),
    "an integer": 5,
    "zero": 0,
    "true": True,
    "a fraction as number": 1.5,
    "an array": [encode_cursor(5)],
    "an object": {"cursor": encode_cursor(5)},
}


def test_a_cursor_that_is_not_ours_is_refused_with_advice(subtests: pytest.Subtests) -> None:
    for case, cursor in STRANGE.items():
        with subtests.test(case), pytest.raises(InvalidParams, match="start from the first page"):
            decode_cursor(cursor)


ALTERED = {
    "padding": encode_cursor(5) + "=",
    "leading zeros": raw(b"after:007"),
    "stray last bits": encode_cursor(5)[:-1] + chr(ord(encode_cursor(5)[-1]) + 1),
    "a line break at its end": encode_cursor(5) + "\n",
    "a blank before it": " " + encode_cursor(5),
}


def test_a_cursor_of_ours_that_was_altered_is_refused(subtests: pytest.Subtests) -> None:
    for case, cursor in ALTERED.items():
        with subtests.test(case), pytest.raises(InvalidParams):
            decode_cursor(cursor)


@given(VALUES)
@example(encode_cursor(7))
@example("")
def test_any_json_value_is_a_cursor_of_ours_or_refused(value: Any) -> None:
    try:
        position = decode_cursor(value)
    except InvalidParams:
        return
    assert value in (None, "", encode_cursor(position))


@given(st.text(alphabet="ABCDEFYWZ0ZXI6MTQ123=-_", max_size=20).map(lambda end: "YWZ0ZXI6" + end))
def test_anything_that_begins_like_a_cursor_is_one_of_ours_or_refused(cursor: str) -> None:
    try:
        position = decode_cursor(cursor)
    except InvalidParams:
        return
    assert cursor == encode_cursor(position)
