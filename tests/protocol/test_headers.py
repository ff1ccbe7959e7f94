"""Request headers that mirror the body."""

import base64
from contextlib import suppress
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_mcp.protocol.errors import HeaderMismatch
from django_mcp.protocol.headers import check_mirrors, check_parameters, decode_value, encode_value, parameters


def wrapped(text: str) -> str:
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def test_a_value_is_read_as_the_specification_writes_it(subtests: pytest.Subtests) -> None:
    for raw, value in [
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
    ]:
        with subtests.test(raw=raw, value=value):
            assert decode_value(raw) == value


@given(st.text(max_size=40))
def test_any_text_comes_back_as_a_client_writes_it(text: str) -> None:
    written = encode_value(text)
    assert decode_value(written) == text
    assert written.isascii()


def test_a_client_writes_what_a_header_can_hold_as_it_is(subtests: pytest.Subtests) -> None:
    for text in ["us-west1", "two words", "42"]:
        with subtests.test(text=text):
            assert encode_value(text) == text


@given(st.dictionaries(st.sampled_from("abc"), st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=9)))
def test_what_a_client_repeats_of_its_arguments_is_what_the_server_compares(inner: dict[str, Any]) -> None:
    mirrors = [(f"Mcp-Param-{name}", ("place", name)) for name in "abc"]
    arguments = {"place": inner}
    repeated = parameters(mirrors, arguments)
    check_parameters(repeated, mirrors, arguments)
    assert len(repeated) == sum(value is not None for value in inner.values())


@given(st.text(max_size=40))
def test_any_text_comes_back_from_the_form_for_any_text(text: str) -> None:
    assert decode_value(wrapped(text)) == text


def test_the_form_with_something_else_than_base64_of_utf8_is_a_mismatch(subtests: pytest.Subtests) -> None:
    for raw in [
        "=?base64?SGVsbG8?=",
        "=?base64?SGVsbG8==?=",
        "=?base64?SGVsbG8=x?=",
        "=?base64?SGVsbG9=?=",
        "=?base64?SGVsbG8=SGVsbG8=?=",
        "=?base64?SGVsbG8=\n?=",
        "=?base64?S?=",
        "=?base64?=?=",
        "=?base64?SGVs!!!bG8=?=",
        "=?base64?SGVs bG8=?=",
        "=?base64?SGVs-_8=?=",
        "=?base64?é===?=",
        "=?base64?/w==?=",
        "=?base64?7aCA?=",
    ]:
        with subtests.test(raw=raw), pytest.raises(HeaderMismatch, match="not valid Base64"):
            decode_value(raw)


def test_what_only_resembles_the_form_is_taken_literally(subtests: pytest.Subtests) -> None:
    for raw in [
        "=?base64?SGVsbG8=",
        "SGVsbG8=?=",
        "SGVsbG8=",
        "=?BASE64?SGVsbG8=?=",
        "=?utf-8?b?SGVsbG8=?=",
        "=?base64?=",
        "?base64?SGVsbG8=?",
        "x=?base64?SGVsbG8=?=",
        "=?base64?SGVsbG8=?=x",
    ]:
        with subtests.test(raw=raw):
            assert decode_value(raw) == raw


def test_a_character_that_no_plain_header_can_hold_is_a_mismatch(subtests: pytest.Subtests) -> None:
    for raw in ["São", "é", "a\x00b", "a\x1fb", "a\x7fb", "a\nb", "a\rb", "\xa0a", "=?base64?SGVsbG8=\xe9"]:
        with subtests.test(raw=raw), pytest.raises(HeaderMismatch, match="must be visible ASCII"):
            decode_value(raw)


NAMED = [("tools/call", "name", "search"), ("prompts/get", "name", "plan"), ("resources/read", "uri", "x:y")]


def test_headers_that_repeat_the_body_pass(subtests: pytest.Subtests) -> None:
    for method, member, value in NAMED:
        for spelled in (value, wrapped(value), f" {value} "):
            with subtests.test(method=method, name=spelled):
                check_mirrors({"mcp-method": method, "mcp-name": spelled}, method, {member: value})


def test_a_method_that_names_nothing_needs_no_name(subtests: pytest.Subtests) -> None:
    for method in ["tools/list", "server/discover", "ping"]:
        with subtests.test(method=method):
            check_mirrors({"mcp-method": method}, method, {"name": "x", "uri": "x:y"})


def test_a_name_that_is_missing_or_another_is_a_mismatch(subtests: pytest.Subtests) -> None:
    for (method, member, value), name in product(NAMED, [None, "", "other", "SEARCH", "search2", wrapped("other")]):
        with subtests.test(method=method, member=member, value=value, name=name):
            headers = {"mcp-method": method} | ({} if name is None else {"mcp-name": name})
            with pytest.raises(HeaderMismatch, match="Mcp-Name"):
                check_mirrors(headers, method, {member: value})


def test_a_method_that_is_missing_or_another_is_a_mismatch(subtests: pytest.Subtests) -> None:
    for given_method in [None, "", "tools/list", "Tools/Call", "tools/call, tools/call"]:
        with subtests.test(given_method=given_method):
            headers = {"mcp-name": "search"} | ({} if given_method is None else {"mcp-method": given_method})
            with pytest.raises(HeaderMismatch, match="Mcp-Method"):
                check_mirrors(headers, "tools/call", {"name": "search"})


def test_a_name_in_broken_base64_is_a_mismatch() -> None:
    with pytest.raises(HeaderMismatch, match="not valid Base64"):
        check_mirrors({"mcp-method": "tools/call", "mcp-name": "=?base64?*?="}, "tools/call", {"name": "*"})


def test_a_name_no_plain_header_can_hold_passes_in_base64(subtests: pytest.Subtests) -> None:
    for name in ["São Paulo", " padded ", "line\nbreak", "=?base64?SGVsbG8=?=", ""]:
        with subtests.test(name=name):
            check_mirrors({"mcp-method": "tools/call", "mcp-name": wrapped(name)}, "tools/call", {"name": name})


def test_a_name_that_is_no_string_is_left_to_who_checks_parameters(subtests: pytest.Subtests) -> None:
    for name in [None, 5, ["search"]]:
        with subtests.test(name=name):
            check_mirrors({"mcp-method": "tools/call"}, "tools/call", {"name": name})


def test_a_mismatch_says_both_sides() -> None:
    with pytest.raises(HeaderMismatch, match=r"'one'.*params\.name.*'two'"):
        check_mirrors({"mcp-method": "tools/call", "mcp-name": "one"}, "tools/call", {"name": "two"})


def test_a_mismatch_does_not_repeat_long_values_in_full() -> None:
    with pytest.raises(HeaderMismatch) as caught:
        check_mirrors({"mcp-method": "tools/call", "mcp-name": "x" * 9000}, "tools/call", {"name": "y" * 9000})
    assert len(caught.value.message) < 600


REGION = [("Mcp-Param-Region", ("region",))]


def check_region(value: Any, header: str | None) -> None:
    headers = {"mcp-param-other": "x"} | ({} if header is None else {"mcp-param-region": header})
    check_parameters(headers, REGION, {"region": value, "more": 1})


def test_a_header_that_repeats_its_parameter_passes(subtests: pytest.Subtests) -> None:
    for value, header in [
        ("us-west1", "us-west1"),
        ("us-west1", " us-west1\t"),
        ("Hello", "=?base64?SGVsbG8=?="),
        ("SGVsbG8=", "SGVsbG8="),
        ("=?base64?SGVsbG8=", "=?base64?SGVsbG8="),
        ("São Paulo", wrapped("São Paulo")),
        ("=?base64?SGVsbG8=?=", wrapped("=?base64?SGVsbG8=?=")),
        ("", ""),
        ("", wrapped("")),
        ("true", "true"),
        ("42", "42"),
        (42, "42"),
        (42, "42.0"),
        (42, "=?base64?NDI=?="),
        (42.0, "42"),
        (42.0, "42.000"),
        (-7, "-7"),
        (0, "0"),
        (0, "-0"),
        (7, "007"),
        (1.5, "1.5"),
        (2**53 - 1, str(2**53 - 1)),
        (1 - 2**53, str(1 - 2**53)),
        (True, "true"),
        (False, "false"),
        (None, None),
    ]:
        with subtests.test(value=value, header=header):
            check_region(value, header)


def test_a_header_that_says_something_else_than_its_parameter_is_a_mismatch(subtests: pytest.Subtests) -> None:
    for value, header in [
        ("us-west1", "us-west2"),
        ("us-west1", "US-WEST1"),
        ("us-west1", ""),
        ("us-west1", "us-west1, us-west1"),
        ("", "x"),
        ("42", "42.0"),
        ("=?base64?SGVsbG8=?=", "=?base64?SGVsbG8=?="),
        (42, "43"),
        (42, "42.5"),
        (42, "4.2e1"),
        (42, "0x2a"),
        (42, "4_2"),
        (42, "+42"),
        (42, "42."),
        (42, "４２"),
        (42, wrapped("４２")),
        (42, "true"),
        (1, "true"),
        (True, "1"),
        (True, "True"),
        (False, "0"),
        (False, ""),
        (2**53 - 1, str(2**53)),
        ("eu", "é"),
        ("é", "é"),
        ("Hello", "=?base64?SGVsbG8?="),
        ("Hello", "=?base64?SGVs!!!bG8=?="),
        (["eu"], "eu"),
        ({"a": 1}, "eu"),
    ]:
        with subtests.test(value=value, header=header), pytest.raises(HeaderMismatch):
            check_region(value, header)


def test_a_parameter_without_its_header_is_a_mismatch_that_names_both(subtests: pytest.Subtests) -> None:
    for value in ["us-west1", "", 42, 42.0, 0, True, False]:
        with (
            subtests.test(value=value),
            pytest.raises(HeaderMismatch, match=r"Missing header Mcp-Param-Region.*'arguments\.region'"),
        ):
            check_region(value, None)


def test_a_header_without_its_parameter_is_a_mismatch(subtests: pytest.Subtests) -> None:
    for arguments in [{}, {"region": None}, {"more": 1}]:
        with subtests.test(arguments=arguments):
            check_parameters({}, REGION, arguments)
            with pytest.raises(HeaderMismatch, match=r"'eu', but the body has no 'arguments\.region'"):
                check_parameters({"mcp-param-region": "eu"}, REGION, arguments)


def test_a_parameter_no_header_can_hold_is_left_to_who_checks_arguments(subtests: pytest.Subtests) -> None:
    for value in [["eu"], {"a": 1}]:
        with subtests.test(value=value):
            check_region(value, None)


def test_a_number_that_readers_of_headers_could_round_is_a_mismatch(subtests: pytest.Subtests) -> None:
    for case, value in {"2^53": 2**53, "-2^53": -(2**53), "10^5000": 10**5000, "2.0^60": 2.0**60}.items():
        with subtests.test(case):
            for header in (None, "9007199254740992"):
                with pytest.raises(HeaderMismatch, match=r"'arguments\.region' exceeds"):
                    check_region(value, header)


def test_a_parameter_within_an_object_is_read_there() -> None:
    mirrors = [("Mcp-Param-City", ("place", "city"))]
    check_parameters({"mcp-param-city": "Rome"}, mirrors, {"place": {"city": "Rome"}, "city": "Oslo"})
    for arguments in ({"city": "Rome"}, {"place": "Rome"}, {"place": ["Rome"]}, {"place": {"city": {"city": "Rome"}}}):
        with pytest.raises(HeaderMismatch):
            check_parameters({"mcp-param-city": "Rome"}, mirrors, arguments)
    for arguments in ({}, {"place": None}, {"place": "Rome"}, {"place": {"city": None}}):
        check_parameters({}, mirrors, arguments)


@given(st.text(max_size=40) | st.integers(1 - 2**53, 2**53 - 1) | st.booleans())
def test_any_value_in_base64_passes_and_another_does_not(value: str | int | bool) -> None:
    spelled = str(value).lower() if isinstance(value, bool) else str(value)
    check_region(value, wrapped(spelled))
    with pytest.raises(HeaderMismatch):
        check_region(value, wrapped(f"{spelled}1"))


@given(st.text(max_size=40))
def test_no_header_whatsoever_makes_anything_else_than_a_mismatch(raw: str) -> None:
    for value in ("eu", 42, True, 1.5, None, []):
        with suppress(HeaderMismatch):
            check_region(value, raw)
