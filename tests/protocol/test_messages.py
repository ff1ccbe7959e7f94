"""From a JSON value to a message, and from an answer to bytes."""

import json
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_mcp.protocol.errors import InternalError, InvalidParams, InvalidRequest, ParseError, ProtocolError
from django_mcp.protocol.jsonrpc import (
    Notification,
    Request,
    Response,
    UnencodableResult,
    decode,
    encode,
    encode_error,
    encode_result,
    parse,
)
from tests.protocol.strategies import IDS, OBJECTS, TEXT, VALUES


def request(**members: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": "ping", **members}


def test_an_integer_or_a_string_is_an_id(subtests: pytest.Subtests) -> None:
    for request_id in [0, 1, -1, 2**53, 10**40, "", "1", "abc", "\N{GRINNING FACE}"]:
        with subtests.test(request_id=request_id):
            assert parse(request(id=request_id)) == Request(request_id, "ping", {})


NO_IDS = {
    "null": None,
    "a fraction": 1.5,
    "a whole number written as a fraction": 1.0,
    "true": True,
    "false": False,
    "an object": {"a": 1},
    "an array": [1],
}


def test_nothing_else_is_an_id(subtests: pytest.Subtests) -> None:
    for case, request_id in NO_IDS.items():
        with subtests.test(case):
            with pytest.raises(InvalidRequest, match='"id" must be a string or an integer') as caught:
                parse(request(id=request_id))
            assert caught.value.request_id is None


def test_a_null_id_is_not_taken_for_a_notification() -> None:
    with pytest.raises(InvalidRequest, match="not null"):
        parse(request(id=None))


def test_without_an_id_it_is_a_notification() -> None:
    message = {"jsonrpc": "2.0", "method": "notifications/initialized", "params": {"a": 1}}
    assert parse(message) == Notification("notifications/initialized", {"a": 1})


def test_a_message_is_an_object_and_the_error_says_what_came(subtests: pytest.Subtests) -> None:
    for value, kind in [
        (None, "null"),
        (True, "a boolean"),
        (1, "an integer"),
        (1.5, "a fractional number"),
        ("ping", "a string"),
        ([], "an array"),
        ([{"jsonrpc": "2.0", "id": 1, "method": "ping"}], "an array"),
    ]:
        with subtests.test(value=value, kind=kind), pytest.raises(InvalidRequest, match=f"not {kind}"):
            parse(value)


def test_another_jsonrpc_version_is_refused_under_the_id_it_came_with(subtests: pytest.Subtests) -> None:
    for version in [None, "1.0", 2.0, 2, "2", "", [], {"2.0": "2.0"}]:
        with subtests.test(version=version):
            with pytest.raises(InvalidRequest, match=r'"jsonrpc" must be "2\.0"') as caught:
                parse(request(jsonrpc=version))
            assert caught.value.request_id == 1


def test_a_message_without_jsonrpc_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="jsonrpc"):
        parse({"id": "x", "method": "ping"})


def test_an_id_that_is_none_is_never_repeated(subtests: pytest.Subtests) -> None:
    for members in [{"jsonrpc": "1.0", "id": None}, {"jsonrpc": "1.0", "id": [1]}, {"id": True}]:
        with subtests.test(members=members):
            with pytest.raises(InvalidRequest) as caught:
                parse({"jsonrpc": "2.0", "method": "ping", **members})
            assert caught.value.request_id is None


def test_a_message_without_method_is_refused_under_its_id(subtests: pytest.Subtests) -> None:
    for members in [{}, {"params": {}}, {"Method": "ping"}, {"result": 1, "error": {}}]:
        with subtests.test(members=members):
            with pytest.raises(InvalidRequest, match='"method"') as caught:
                parse({"jsonrpc": "2.0", "id": 7, **members})
            assert caught.value.request_id == 7


def test_a_method_is_a_string(subtests: pytest.Subtests) -> None:
    for method in [None, 1, 1.5, True, [], {}, ["ping"]]:
        with subtests.test(method=method):
            with pytest.raises(InvalidRequest, match='"method" must be a string') as caught:
                parse(request(method=method))
            assert caught.value.request_id == 1


def test_params_that_are_empty_in_another_language_are_none(subtests: pytest.Subtests) -> None:
    for params in (None, []):
        with subtests.test(params=params):
            assert parse({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": params}) == Request(1, "ping", {})


def test_params_are_an_object(subtests: pytest.Subtests) -> None:
    for params, asked in product([1, 1.5, "x", "", True, [1], ["name"], [[]]], [True, False]):
        with subtests.test(params=params, asked=asked):
            message = request(params=params)
            if not asked:
                del message["id"]
            with pytest.raises(InvalidRequest, match='"params" must be an object') as caught:
                parse(message)
            assert caught.value.request_id == (1 if asked else None)


def test_an_answer_of_the_client_is_a_response(subtests: pytest.Subtests) -> None:
    for result in [{}, {"a": 1}, None, 0, []]:
        with subtests.test(result=result):
            assert parse({"jsonrpc": "2.0", "id": "q", "result": result}) == Response("q", result, None)


def test_an_error_of_the_client_is_a_response() -> None:
    error = {"code": -1, "message": "no"}
    assert parse({"jsonrpc": "2.0", "id": 3, "error": error}) == Response(3, None, error)


def test_a_response_needs_an_id_that_is_one(subtests: pytest.Subtests) -> None:
    for members in [{"result": 1}, {"error": {}}, {"id": None, "error": {}}, {"id": True, "result": {}}]:
        with subtests.test(members=members), pytest.raises(InvalidRequest):
            parse({"jsonrpc": "2.0", **members})


def test_members_nobody_knows_are_ignored() -> None:
    assert parse(request(more={"a": [1]})) == Request(1, "ping", {})


def outcome(value: Any) -> Request | Notification | Response | ProtocolError:
    try:
        return parse(decode(encode(value)))
    except ProtocolError as error:
        return error


@given(VALUES)
def test_any_json_value_is_a_message_or_a_protocol_error(value: Any) -> None:
    assert isinstance(outcome(value), Request | Notification | Response | ProtocolError)


NEARLY_A_MESSAGE = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | VALUES,
        "id": IDS | VALUES,
        "method": TEXT | VALUES,
        "params": OBJECTS | VALUES,
        "result": VALUES,
        "error": VALUES,
    },
)


@given(NEARLY_A_MESSAGE)
def test_anything_like_a_message_is_one_or_a_protocol_error_with_an_id_that_can_be_sent(value: Any) -> None:
    message = outcome(value)
    if isinstance(message, ProtocolError):
        answer = json.loads(encode_error(message.request_id, message))
        assert answer.get("id", value.get("id")) == value.get("id")
        assert answer.get("id", 0) is not None
    else:
        assert value["jsonrpc"] == "2.0"
        if not isinstance(message, Notification):
            assert (type(message.id), message.id) == (type(value["id"]), value["id"])


@given(st.binary(max_size=80))
def test_any_bytes_are_a_message_or_a_protocol_error(body: bytes) -> None:
    try:
        message = parse(decode(body))
    except ProtocolError:
        return
    assert isinstance(message, Request | Notification | Response)


@given(IDS, TEXT, OBJECTS)
def test_a_request_comes_out_as_it_went_in(request_id: Any, method: str, params: dict[str, Any]) -> None:
    body = encode({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})
    assert parse(decode(body)) == Request(request_id, method, params)


@given(TEXT, OBJECTS)
def test_a_notification_comes_out_as_it_went_in(method: str, params: dict[str, Any]) -> None:
    body = encode({"jsonrpc": "2.0", "method": method, "params": params})
    assert parse(decode(body)) == Notification(method, params)


@given(IDS, OBJECTS, st.booleans())
def test_a_result_is_read_back_as_the_response_it_is(
    request_id: Any, result: dict[str, Any], encoded_before: bool
) -> None:
    body = encode_result(request_id, encode(result) if encoded_before else result)
    assert parse(decode(body)) == Response(request_id, result, None)


@given(IDS, TEXT, VALUES)
def test_an_error_is_read_back_as_the_response_it_is(request_id: Any, message: str, data: Any) -> None:
    error = InvalidParams(message, data)
    expected = {"code": -32602, "message": message} | ({} if data is None else {"data": data})
    assert parse(decode(encode_error(request_id, error))) == Response(request_id, None, expected)


def test_a_result_looks_the_same_whether_it_was_encoded_before_or_not() -> None:
    result = {"content": [{"type": "text", "text": "é\n"}], "n": 1.5}
    assert encode_result("a", result) == encode_result("a", encode(result))


def test_an_error_without_an_id_leaves_the_member_out() -> None:
    assert json.loads(encode_error(None, ParseError("no"))) == {
        "jsonrpc": "2.0",
        "error": {"code": -32700, "message": "no"},
    }


def test_the_id_zero_and_the_empty_id_are_sent() -> None:
    assert json.loads(encode_error(0, InternalError("x")))["id"] == 0
    assert json.loads(encode_error("", InternalError("x")))["id"] == ""


def test_what_json_has_no_number_for_becomes_null(subtests: pytest.Subtests) -> None:
    for value in [float("nan"), float("inf"), float("-inf")]:
        with subtests.test(value=value):
            assert encode({"a": [value]}) == b'{"a":[null]}'


def test_what_has_no_json_form_is_unencodable(subtests: pytest.Subtests) -> None:
    for value in ["\ud800", ["a\udfff"], {"a": "\ud800"}, {"\ud800": 1}, object(), {"a": object()}]:
        with subtests.test(value=value):
            with pytest.raises(UnencodableResult):
                encode(value)
            with pytest.raises(UnencodableResult):
                encode_result(1, {"value": value})


def test_a_value_that_holds_itself_is_unencodable() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(UnencodableResult):
        encode(loop)


def test_no_line_break_is_ever_written() -> None:
    body = encode({"text": "one\r\ntwo\N{LINE SEPARATOR}"})
    assert b"\n" not in body
    assert b"\r" not in body
