"""JSON-RPC 2.0 as MCP uses it: decoding of messages, encoding of results and errors.

MCP narrows JSON-RPC (2026-07-28, Overview, Messages): ids are strings or integers, never null; ``params`` is an object;
a batch is not a message.
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
"""Characters of a request id or progress token, both of which are repeated in every message about the request."""
MAX_STRING_LENGTH = 8192
"""Characters of any other string by which a client names something, such as a URI, tool or cursor. RFC 9110, section
4.1, recommends supporting URIs of at least 8,000 octets."""
MAX_MEMBER_BYTES = 64 * 1024
"""Bytes of any other member of ``params``, such as ``clientInfo``, ``capabilities`` or ``_meta``."""
MAX_BATCH_MESSAGES = 50
"""Messages of a batch (2025-03-26, Base Protocol, Batching)."""
MAX_FILTER_BYTES = 256 * 1024
"""Bytes of the filter of ``subscriptions/listen``, and of all URIs that one session subscribes to."""

_UNLIMITED = frozenset({"arguments", "inputResponses", "requestState"})
"""Members of ``params`` limited by the size of the body alone: a tool's input, and state that the server signed."""


class Request(NamedTuple):
    """A message that expects a response."""

    id: RequestId
    method: str
    params: dict[str, Any]


class Notification(NamedTuple):
    """A message without a response."""

    method: str
    params: dict[str, Any]


class Response(NamedTuple):
    """The client's response to a request of the server."""

    id: RequestId
    result: Any
    error: Any


Message = Request | Notification | Response


def decode(body: bytes) -> Any:
    """Read one JSON value from UTF-8 *body*.

    Raises:
        ParseError: not JSON or UTF-8, nested deeper than about 200 levels, NaN or Infinity, a lone surrogate, a number
            of over 4,300 digits, or a duplicate key (which readers interpret differently; RFC 8259, section 4).
    """
    try:
        value = from_json(body, allow_inf_nan=False)
        # A body in canonical form has no duplicate key and no number too large for a float. Most clients send
        # that, and the comparison takes a sixth of the time of a check of each object.
        if to_json(value) != body:
            json.loads(body, object_pairs_hook=_unique, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise ParseError(f"The body is not valid JSON: {error}") from None
    return value


def decode_messages(body: bytes) -> Any:
    """Read a message or batch, with stricter limits for values that are stored, logged and repeated.

    Raises:
        ParseError: see ``decode``.
        InvalidRequest: see ``check_messages``.
    """
    value = decode(body)
    check_messages(value)
    for message in value if type(value) is list else [value]:
        if type(message) is dict and type(params := message.get("params")) is dict:
            _read_arguments(params)  # here, where a large body is read off the event loop
    return value


def check_messages(value: Any) -> None:
    """Check the limits of a decoded message or batch, before anything loops over what the client sent.

    Raises:
        InvalidRequest: a string, number or object is too large, or a batch has too many messages.
    """
    messages = value if type(value) is list else [value]
    if not 0 < len(messages) <= MAX_BATCH_MESSAGES:
        raise InvalidRequest(f"A batch holds 1 to {MAX_BATCH_MESSAGES} messages; this one holds {len(messages)}.")
    for message in messages:
        if type(message) is dict:
            _check_sizes(message)


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
    # Counting bits is cheap, and decides for all but huge integers.
    return (type(value) is str and len(value) > most) or (
        type(value) is int and value.bit_length() > 3 * most and len(str(value)) > most
    )


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
    """Return a JSON value as a ``Request``, ``Notification`` or ``Response``.

    Raises:
        InvalidRequest: it is none of them; ``request_id`` is set if the id could be read.
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
    method, params = value["method"], value.get("params")
    if params is None or params == []:  # an empty object of some languages
        params = {}
    if type(method) is not str:
        raise InvalidRequest(f'"method" must be a string, not {_kind(method)}.', request_id=request_id)
    if type(params) is not dict:
        raise InvalidRequest(f'"params" must be an object, not {_kind(params)}.', request_id=request_id)
    if type(params.get("arguments")) is str:
        _read_arguments(params)
    return Request(request_id, method, params) if readable else Notification(method, params)  # type: ignore[arg-type]


def _read_arguments(params: dict[str, Any]) -> None:
    """Replace arguments that were sent as one text by the object that it holds, as ``TextValues`` does with parts.

    Some clients turn every value into text, and send an empty one for none. Any other text is an error later.
    """
    text = params.get("arguments")
    if type(text) is not str:
        return
    try:
        value = decode(text.encode()) if text.strip() else None
    except (ParseError, ValueError):  # the latter for half of a surrogate pair
        return
    if value is None or value == [] or type(value) is dict:
        params["arguments"] = value


def id_of(value: Any) -> RequestId | None:
    request_id = value.get("id") if type(value) is dict else None
    # isinstance() would accept booleans, which are no valid ids.
    return request_id if type(request_id) is int or type(request_id) is str else None


class UnencodableResult(ValueError):
    """A result that cannot be encoded as JSON."""


def encode(value: Any) -> bytes:
    """Return *value* as compact JSON. NaN and infinities become null.

    Raises:
        UnencodableResult: it cannot be encoded, for example because of a lone surrogate.
    """
    try:
        return to_json(value, inf_nan_mode="null")
    except (PydanticSerializationError, UnicodeError) as error:
        raise UnencodableResult(str(error)) from None


_ENDS_OF_LINES = ((b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"), (b"\xc2\x85", b"\\u0085"))


def one_line(data: bytes) -> bytes:
    """Return JSON with U+0085, U+2028 and U+2029 escaped, where some readers of event streams and of stdio end a line.

    JSON has them in strings only, where both forms mean the same. Other ends of lines are always escaped.
    """
    for character, escape in _ENDS_OF_LINES:
        if character in data:
            data = data.replace(character, escape)
    return data


def encode_fields(fields: Mapping[str, Any], parts: Mapping[str, bytes]) -> bytes:
    """Return an object of which some members, *parts*, are encoded already.

    Raises:
        UnencodableResult: the others cannot be encoded.
    """
    others = encode({name: value for name, value in fields.items() if name not in parts})
    members = [b"%b:%b" % (to_json(name), data) for name, data in parts.items()]
    return b"{%b}" % b",".join([*([others[1:-1]] if len(others) > len(b"{}") else []), *members])


def encode_result(
    request_id: RequestId, result: Mapping[str, Any] | bytes, added: Mapping[str, Any] | None = None
) -> bytes:
    """Return a response with *result*, an object or its JSON, and the members *added* to it.

    Raises:
        UnencodableResult: an object cannot be encoded.
    """
    if isinstance(result, bytes):
        if added:
            more = encode(added)
            result = b"%b,%b" % (result[:-1], more[1:]) if len(result) > len(b"{}") else more
        return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (to_json(request_id), result)
    return encode({"jsonrpc": JSONRPC, "id": request_id, "result": {**result, **added} if added else result})


def encode_error(request_id: RequestId | None, error: ProtocolError) -> bytes:
    """Return a response with *error*. Without a request id the member is omitted, as MCP requires."""
    message: dict[str, Any] = {"jsonrpc": JSONRPC}
    if request_id is not None:
        message["id"] = request_id
    message["error"] = error.to_wire()
    return to_json(message, inf_nan_mode="null")


_KINDS = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", int: "an integer"}


def _kind(value: Any) -> str:
    return "null" if value is None else _KINDS.get(type(value), "a fractional number")


class Result(NamedTuple):
    """The result of a method.

    Attributes:
        fields: the JSON object in the newest protocol version, without members that single versions add.
        ttl_ms: milliseconds for which clients may cache it; None if not cacheable.
        public: True if it is the same for every caller (2026-07-28, Caching, Cache Scope Field).
        encoded: shared encodings by protocol version, or None.
        parts: large members of ``fields`` as JSON, encoded once and not on the event loop.
        data: ``fields`` as JSON, if the request log has encoded them to know their size.
    """

    fields: dict[str, Any]
    ttl_ms: int | None = None
    public: bool = False
    encoded: dict[str, bytes] | None = None
    parts: Mapping[str, bytes] | None = None
    data: bytes | None = None
