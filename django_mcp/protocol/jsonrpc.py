"""JSON-RPC 2.0 as MCP uses it: bytes to messages, results and errors to bytes.

What MCP narrows (2026-07-28, Overview, Messages): ids are strings or integers and never null, ``params`` is an
object, and a batch is not a message.
"""

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pydantic_core import PydanticSerializationError, from_json, to_json

from django_mcp.protocol.errors import InvalidRequest, ParseError, ProtocolError, RequestId
from django_mcp.protocol.meta import meta_of

JSONRPC = "2.0"

MAX_ID_LENGTH = 1024
"""Characters of a request's id and of a progress token, which are repeated in every message about the request."""
MAX_STRING_LENGTH = 8192
"""Characters of any other string by which a client names something: a URI, a tool, a cursor. RFC 9110 section 4.1
recommends that URIs of at least 8,000 octets are supported."""
MAX_MEMBER_BYTES = 64 * 1024
"""Bytes of any other member of ``params``, such as ``clientInfo``, ``capabilities`` and ``_meta``."""
MAX_FILTER_BYTES = 256 * 1024
"""Bytes of the filter of ``subscriptions/listen``, and of all URIs that one session is subscribed to."""

_UNLIMITED = frozenset({"arguments", "inputResponses", "requestState"})
"""Members of ``params`` that only the size of the body limits: what tools work with, and what the server sealed."""


class Request(NamedTuple):
    """A call that wants an answer."""

    id: RequestId
    method: str
    params: dict[str, Any]


class Notification(NamedTuple):
    """A message that gets none."""

    method: str
    params: dict[str, Any]


class Response(NamedTuple):
    """The client's answer to a request of ours."""

    id: RequestId
    result: Any
    error: Any


Message = Request | Notification | Response


def decode(body: bytes) -> Any:
    """Read one JSON value from UTF-8 *body*.

    Raises:
        ParseError: not JSON, not UTF-8, nested deeper than some 200 levels, NaN or Infinity, a lone surrogate, a number
            of more than 4,300 digits, or an object with the same key twice (two readers of such an object
            need not agree on what it says; RFC 8259 section 4).
    """
    try:
        value = from_json(body, allow_inf_nan=False)
        # A body that is its own shortest encoding holds no key twice and no number too large for a float.
        # Most clients send just that, and comparing costs a sixth of looking at each object.
        if to_json(value) != body:
            json.loads(body, object_pairs_hook=_unique, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise ParseError(f"The body is not valid JSON: {error}") from None
    return value


def decode_messages(body: bytes) -> Any:
    """Read a message, or a batch of them, and check the length of what a client names and describes itself with.

    Such strings are kept, logged, compared and repeated, so the limit of the body is none for them.

    Raises:
        ParseError: see ``decode``.
        InvalidRequest: a string or an object is larger than it may be.
    """
    value = decode(body)
    if len(body) > MAX_ID_LENGTH:  # in what is shorter nothing can be too long
        for message in value if type(value) is list else [value]:
            if type(message) is dict:
                _check_sizes(message)
    return value


def _check_sizes(message: Mapping[str, Any]) -> None:
    request_id = id_of(message)
    is_repeatable = not _is_longer(request_id, MAX_ID_LENGTH)
    if (wrong := next(_too_large(message), None)) is not None:
        raise InvalidRequest(f'"{wrong}.', request_id=request_id if is_repeatable else None)


def _too_large(message: Mapping[str, Any]) -> Iterator[str]:
    for name in ("id", "method"):
        if _is_longer(message.get(name), MAX_ID_LENGTH):
            yield f'{name}" must not be longer than {MAX_ID_LENGTH} characters'
    params = message.get("params")
    if type(params) is not dict:
        return
    if _is_longer(meta_of(params).get("progressToken"), MAX_ID_LENGTH):
        yield f'params._meta.progressToken" must not be longer than {MAX_ID_LENGTH} characters'
    for name, value in params.items():
        if name in _UNLIMITED:
            continue
        if _is_longer(value, MAX_STRING_LENGTH):
            yield f'params.{name[:100]}" must not be longer than {MAX_STRING_LENGTH} characters'
        most = MAX_FILTER_BYTES if name == "notifications" else MAX_MEMBER_BYTES
        if type(value) in {dict, list} and len(to_json(value)) > most:
            yield f'params.{name[:100]}" must not be larger than {most} bytes'


def _is_longer(value: Any, most: int) -> bool:
    return type(value) is str and len(value) > most


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        msg = f"the key {twice[:100]!r} occurs twice in one object"
        raise ValueError(msg)
    return members


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        msg = f"the number {digits[:100]} is too large"
        raise ValueError(msg)
    return number


def parse(value: Any) -> Message:
    """Tell what kind of message a JSON value is.

    Raises:
        InvalidRequest: it is none; ``request_id`` is set where the id could be read.
    """
    if type(value) is not dict:
        raise InvalidRequest(f"A message must be a JSON object, not {_kind(value)}.")
    request_id = value.get("id")
    readable = type(request_id) is int or type(request_id) is str
    if value.get("jsonrpc") != JSONRPC:
        raise InvalidRequest('"jsonrpc" must be "2.0".', request_id=request_id if readable else None)
    if "id" in value and not readable:
        raise InvalidRequest(f'"id" must be a string or an integer, not {_kind(request_id)}.')
    if "method" not in value:
        if readable and ("result" in value) != ("error" in value):
            return Response(request_id, value.get("result"), value.get("error"))  # type: ignore[arg-type]
        raise InvalidRequest('A message must have a "method".', request_id=request_id)
    method, params = value["method"], value.get("params", {})
    if type(method) is not str:
        raise InvalidRequest(f'"method" must be a string, not {_kind(method)}.', request_id=request_id)
    if type(params) is not dict:
        raise InvalidRequest(f'"params" must be an object, not {_kind(params)}.', request_id=request_id)
    return Request(request_id, method, params) if readable else Notification(method, params)  # type: ignore[arg-type]


def id_of(value: Any) -> RequestId | None:
    """The id of a message that need not be one; None where it has none, or no right one."""
    request_id = value.get("id") if type(value) is dict else None
    return request_id if type(request_id) is int or type(request_id) is str else None


class UnencodableResult(ValueError):
    """A result that has no JSON form."""


def encode(value: Any) -> bytes:
    """The shortest JSON of *value*, without line breaks; NaN and the infinities become null.

    Raises:
        UnencodableResult: it holds what JSON cannot (a lone surrogate, say).
    """
    try:
        return to_json(value, inf_nan_mode="null")
    except (PydanticSerializationError, UnicodeError) as error:
        raise UnencodableResult(str(error)) from None


def encode_result(request_id: RequestId, result: dict[str, Any] | bytes) -> bytes:
    """A response that carries *result*, an object or its JSON.

    Raises:
        UnencodableResult: the object has no JSON form.
    """
    if type(result) is bytes:
        return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (to_json(request_id), result)
    return encode({"jsonrpc": JSONRPC, "id": request_id, "result": result})


def encode_error(request_id: RequestId | None, error: ProtocolError) -> bytes:
    """A response that carries *error*. Without a readable id the member is left out, as MCP has it, not null."""
    message: dict[str, Any] = {"jsonrpc": JSONRPC}
    if request_id is not None:
        message["id"] = request_id
    message["error"] = error.to_wire()
    return to_json(message, inf_nan_mode="null")


_KINDS = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", int: "an integer"}


def _kind(value: Any) -> str:
    return "null" if value is None else _KINDS.get(type(value), "a fractional number")


class Result(NamedTuple):
    """A method's result.

    Attributes:
        fields: the JSON object, in the newest protocol version's shape, without what only a version adds.
        ttl_ms: how long a client may keep it, in milliseconds; None where the method is not cacheable.
        public: the answer is the same for every caller (2026-07-28, Caching, Cache Scope Field).
        encoded: for a result that many requests share, a dict for its encodings by protocol version; else None.
    """

    fields: dict[str, Any]
    ttl_ms: int | None = None
    public: bool = False
    encoded: dict[str, bytes] | None = None
