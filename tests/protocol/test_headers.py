"""Request headers that mirror the body."""

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_mcp.protocol.errors import HeaderMismatch
from django_mcp.protocol.headers import check_mirrors, decode_value


def wrapped(text: str) -> str:
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ("Hello", "Hello"),
        ("us-west1", "us-west1"),
        ("42", "42"),
        ("", ""),
        ("  padded\t", "padded"),
        ("two words", "two words"),
        ("=?base64?SGVsbG8=?=", "Hello"),
        ("=?base64?IHBhZGRlZCA=?=", " padded "),
        ("=?base64?SGVsbG8sIOS4lueVjA==?=", "Hello, 世界"),
        ("=?base64?bGluZTEKbGluZTI=?=", "line1\nline2"),
        (" =?base64?SGVsbG8=?= ", "Hello"),
        ("=?base64??=", ""),
        (wrapped("=?base64?SGVsbG8=?="), "=?base64?SGVsbG8=?="),
    ],
)
def test_a_value_is_read_as_the_specification_writes_it(raw: str, value: str) -> None:
    assert decode_value(raw) == value


@given(st.text(max_size=40))
def test_any_text_comes_back_from_the_form_for_any_text(text: str) -> None:
    assert decode_value(wrapped(text)) == text


@pytest.mark.parametrize(
    "raw",
    [
        "=?base64?SGVsbG8?=",
        "=?base64?SGVsbG8==?=",
        "=?base64?SGVsbG8=x?=",
        "=?base64?S?=",
        "=?base64?=?=",
        "=?base64?SGVs!!!bG8=?=",
        "=?base64?SGVs bG8=?=",
        "=?base64?SGVs-_8=?=",
        "=?base64?é===?=",
        "=?base64?/w==?=",
        "=?base64?7aCA?=",
    ],
)
def test_the_form_with_something_else_than_base64_of_utf8_is_a_mismatch(raw: str) -> None:
    with pytest.raises(HeaderMismatch, match="not Base64"):
        decode_value(raw)


@pytest.mark.parametrize(
    "raw",
    [
        "=?base64?SGVsbG8=",
        "SGVsbG8=?=",
        "SGVsbG8=",
        "=?BASE64?SGVsbG8=?=",
        "=?utf-8?b?SGVsbG8=?=",
        "=?base64?=",
        "?base64?SGVsbG8=?",
        "x=?base64?SGVsbG8=?=",
        "=?base64?SGVsbG8=?=x",
    ],
)
def test_what_only_resembles_the_form_is_taken_literally(raw: str) -> None:
    assert decode_value(raw) == raw


NAMED = [("tools/call", "name", "search"), ("prompts/get", "name", "plan"), ("resources/read", "uri", "x:y")]


@pytest.mark.parametrize(("method", "member", "value"), NAMED)
@pytest.mark.parametrize("spell", [str, wrapped, lambda value: f" {value} "], ids=["plain", "base64", "padded"])
def test_headers_that_repeat_the_body_pass(method: str, member: str, value: str, spell: Any) -> None:
    check_mirrors({"mcp-method": method, "mcp-name": spell(value)}, method, {member: value})


@pytest.mark.parametrize("method", ["tools/list", "server/discover", "ping"])
def test_a_method_that_names_nothing_needs_no_name(method: str) -> None:
    check_mirrors({"mcp-method": method}, method, {"name": "x", "uri": "x:y"})


@pytest.mark.parametrize(("method", "member", "value"), NAMED)
@pytest.mark.parametrize("name", [None, "", "other", "SEARCH", "search2", wrapped("other")])
def test_a_name_that_is_missing_or_another_is_a_mismatch(method: str, member: str, value: str, name: Any) -> None:
    headers = {"mcp-method": method} | ({} if name is None else {"mcp-name": name})
    with pytest.raises(HeaderMismatch, match="Mcp-Name"):
        check_mirrors(headers, method, {member: value})


@pytest.mark.parametrize("given_method", [None, "", "tools/list", "Tools/Call", "tools/call, tools/call"])
def test_a_method_that_is_missing_or_another_is_a_mismatch(given_method: str | None) -> None:
    headers = {"mcp-name": "search"} | ({} if given_method is None else {"mcp-method": given_method})
    with pytest.raises(HeaderMismatch, match="Mcp-Method"):
        check_mirrors(headers, "tools/call", {"name": "search"})


def test_a_name_in_broken_base64_is_a_mismatch() -> None:
    with pytest.raises(HeaderMismatch, match="not Base64"):
        check_mirrors({"mcp-method": "tools/call", "mcp-name": "=?base64?*?="}, "tools/call", {"name": "*"})


@pytest.mark.parametrize("name", ["São Paulo", " padded ", "line\nbreak", "=?base64?SGVsbG8=?=", ""])
def test_a_name_no_plain_header_can_hold_passes_in_base64(name: str) -> None:
    check_mirrors({"mcp-method": "tools/call", "mcp-name": wrapped(name)}, "tools/call", {"name": name})


@pytest.mark.parametrize("name", [None, 5, ["search"]])
def test_a_name_that_is_no_string_is_left_to_who_checks_parameters(name: Any) -> None:
    check_mirrors({"mcp-method": "tools/call"}, "tools/call", {"name": name})


def test_a_mismatch_says_both_sides() -> None:
    with pytest.raises(HeaderMismatch, match=r"'one'.*params\.name.*'two'"):
        check_mirrors({"mcp-method": "tools/call", "mcp-name": "one"}, "tools/call", {"name": "two"})


def test_a_mismatch_does_not_repeat_long_values_in_full() -> None:
    with pytest.raises(HeaderMismatch) as caught:
        check_mirrors({"mcp-method": "tools/call", "mcp-name": "x" * 9000}, "tools/call", {"name": "y" * 9000})
    assert len(caught.value.message) < 600
