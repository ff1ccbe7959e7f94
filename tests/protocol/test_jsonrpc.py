"""From bytes to a JSON value: one reading, or none."""

import json
from itertools import product
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from django_mcp.protocol.errors import ParseError
from django_mcp.protocol.jsonrpc import decode, encode
from tests.protocol.strategies import OBJECTS, VALUES, spellings

NOT_JSON = {
    "nothing": b"",
    "blanks": b" \r\n",
    "words": b"hello",
    "a cut-off object": b'{"jsonrpc":"2.0"',
    "a cut-off string": b'"abc',
    "a comma too many": b"[1,]",
    "single quotes": b"{'a':1}",
    "something after it": b'{"a":1}x',
    "two values": b"{}{}",
    "a NUL after it": b"{}\x00",
    "a byte order mark": b"\xef\xbb\xbf{}",
    "UTF-16": '{"a":1}'.encode("utf-16"),
    "a leading zero": b"[01]",
    "a bare point": b"[1.]",
    "a plus sign": b"[+1]",
    "a raw control character": b'"a\x01b"',
    "a raw line break in a string": b'"a\nb"',
    "an escape that is none": b'"\\x41"',
    "Python's True": b"True",
}


def test_what_is_not_json_is_a_parse_error(subtests: pytest.Subtests) -> None:
    for case, body in NOT_JSON.items():
        with subtests.test(case), pytest.raises(ParseError, match="not valid JSON"):
            decode(body)


def test_bytes_that_are_not_utf8_are_a_parse_error(subtests: pytest.Subtests) -> None:
    for body in [
        b"\xff",
        b'"\xff"',
        b'{"\xc3":1}',
        b'"\xc0\xaf"',
        b'"\xed\xa0\x80"',
        b'"\xf4\x90\x80\x80"',
        '"é"'.encode("latin-1"),
    ]:
        with subtests.test(body=body), pytest.raises(ParseError):
            decode(body)


def test_a_hundred_thousand_brackets_are_a_parse_error(subtests: pytest.Subtests) -> None:
    for opening, closed in product([b"[", b'{"a":', b'[{"a":'], [False, True]):
        with subtests.test(opening=opening, closed=closed):
            closing = {b"[": b"]", b'{"a":': b"}", b'[{"a":': b"}]"}[opening]
            with pytest.raises(ParseError, match="recursion"):
                decode(opening * 100_000 + (b"1" + closing * 100_000 if closed else b""))


def test_two_hundred_levels_are_read() -> None:
    value = decode(b"[" * 200 + b"]" * 200)
    for _ in range(199):
        (value,) = value
    assert value == []


def test_two_hundred_levels_are_read_where_white_space_makes_it_look_for_keys_twice() -> None:
    assert decode(b'{ "a":' * 200 + b"1" + b"}" * 200)["a"]["a"]


def test_nan_and_infinity_are_a_parse_error(subtests: pytest.Subtests) -> None:
    for body in [b"NaN", b"Infinity", b"-Infinity", b"[NaN]", b'{"a":Infinity}', b'{"a": -Infinity}']:
        with subtests.test(body=body), pytest.raises(ParseError):
            decode(body)


def test_a_number_no_float_can_hold_is_a_parse_error_and_not_infinity(subtests: pytest.Subtests) -> None:
    for body in [b"1e999", b"-1e999", b"[1E+400]", b'{"amount":1e309}', b'{"amount": 9e99999}']:
        with subtests.test(body=body), pytest.raises(ParseError):
            decode(body)


def test_a_lone_surrogate_is_a_parse_error(subtests: pytest.Subtests) -> None:
    for body in [b'"\\ud800"', b'"\\udc00"', b'"\\ude00\\ud83d"', b'{"\\ud800":1}', b'["a\\udfffb"]']:
        with subtests.test(body=body), pytest.raises(ParseError):
            decode(body)


def test_a_pair_of_surrogates_is_the_character_it_stands_for() -> None:
    assert decode(b'"\\ud83d\\ude00"') == "\N{GRINNING FACE}"


def test_an_integer_of_many_digits_keeps_every_one(subtests: pytest.Subtests) -> None:
    for digits in [20, 100, 4300]:
        with subtests.test(digits=digits):
            assert decode(b'{"n": %b}' % (b"7" * digits))["n"] == int("7" * digits)


def test_an_integer_of_more_than_4300_digits_is_a_parse_error(subtests: pytest.Subtests) -> None:
    for digits in [4301, 100_000]:
        with subtests.test(digits=digits), pytest.raises(ParseError):
            decode(b"7" * digits)


TWICE = {
    "at the top": b'{"a":1,"a":2}',
    "with the same value": b'{"a":1,"a":1}',
    "nested in an object": b'{"params":{"name":"x","name":"y"}}',
    "nested in a list": b'{"params":[[{"name":"x","name":"y"}]]}',
    "in a list of its own": b'[{"a":1,"a":1}]',
    "with white space": b'{ "a" : 1 ,\n\t"a" : 2 }',
    "spelt with an escape": b'{"a":1,"\\u0061":2}',
    "spelt with two escapes": b'{"\\u00e9":1,"\\u00E9":2}',
    "a surrogate pair and the character": '{"\N{GRINNING FACE}":1,"\\ud83d\\ude00":2}'.encode(),
    "a solidus and its escape": b'{"/":1,"\\/":2}',
    "the empty key": b'{"":1,"":2}',
    "apart from each other": b'{"a":1,"b":2,"c":3,"a":4}',
    "three times": b'{"a":1,"a":2,"a":3}',
    "the id": b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}',
    "in the second of two objects": b'[{"a":1},{"b":1,"b":2}]',
    "behind an object of the same key": b'{"a":{"a":1},"a":2}',
}


def test_a_key_given_twice_is_refused(subtests: pytest.Subtests) -> None:
    for case, body in TWICE.items():
        with subtests.test(case), pytest.raises(ParseError, match="occurs twice"):
            decode(body)


def test_the_error_names_the_key_given_twice() -> None:
    with pytest.raises(ParseError, match="'method'"):
        decode(b'{"id":1,"method":"a","method":"b"}')


def test_a_long_key_given_twice_is_not_repeated_in_full() -> None:
    key = b"k" * 10_000
    with pytest.raises(ParseError) as caught:
        decode(b'{"%b":1,"%b":2}' % (key, key))
    assert len(caught.value.message) < 300


def test_the_same_key_in_two_objects_or_two_keys_alike_are_fine(subtests: pytest.Subtests) -> None:
    for body in [
        b'{"a":{"a":1}}',
        b'[{"a":1},{"a":1}]',
        b'{"a":1,"A":2}',
        '{"é":1,"e\u0301":2}'.encode(),
        b'{"a":1, "b":2}',
    ]:
        with subtests.test(body=body):
            assert decode(body) == json.loads(body)


def test_any_spelling_of_a_value_is_read(subtests: pytest.Subtests) -> None:
    for body in [b' {"a":1}', b'{"a":1}\r\n', b'{"a" :1}', b'{"\\u0061":1}', b'{"a":1.0}', b'{"a":1e0}']:
        with subtests.test(body=body):
            assert decode(body) == {"a": 1}


@given(st.binary(max_size=60))
@example(b"1e999")
@example(b'{"a":1,"a":2}')
@example(b"\xef\xbb\xbf1")
def test_any_bytes_are_a_value_or_a_parse_error(body: bytes) -> None:
    try:
        value = decode(body)
    except ParseError:
        return
    assert decode(encode(value)) == value


@given(st.text(alphabet='{}[]",:\\u0123456789aeE+-. \ntrufalsn', max_size=40).map(str.encode))
def test_anything_that_looks_like_json_is_a_value_or_a_parse_error(body: bytes) -> None:
    try:
        value = decode(body)
    except ParseError:
        return
    assert decode(encode(value)) == value


@given(st.data(), VALUES)
def test_every_spelling_of_a_value_reads_as_that_value(data: st.DataObject, value: Any) -> None:
    assert decode(data.draw(spellings(value)).encode()) == value


@given(st.data(), VALUES)
def test_a_key_repeated_anywhere_is_refused_in_every_spelling(data: st.DataObject, value: Any) -> None:
    repeated: list[str] = []
    body = data.draw(spellings(value, repeated)).encode()
    assume(repeated)
    with pytest.raises(ParseError, match="occurs twice"):
        decode(body)


@given(OBJECTS, st.text(max_size=5), VALUES)
def test_a_key_repeated_in_the_shortest_encoding_is_refused(members: dict[str, Any], key: str, value: Any) -> None:
    head = encode({**members, key: value})
    repeated = head[:-1] + b"," + encode({key: value})[1:]
    for body in (repeated, b'{"jsonrpc":"2.0","params":%b}' % repeated, b"[%b]" % repeated):
        with pytest.raises(ParseError, match="occurs twice"):
            decode(body)
