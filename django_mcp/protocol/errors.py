"""Exceptions that become JSON-RPC error objects.

Codes: JSON-RPC 2.0 section 5.1, and the MCP range -32020 to -32099 (2026-07-28, Overview, Error Codes). ``http_status``
is that of the Streamable HTTP transport of that revision.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

RequestId = str | int


class ProtocolError(Exception):
    """A JSON-RPC error response.

    Args:
        message: what is wrong, then what to do; clients see it.
        data: any JSON value for ``error.data``; omitted if None.
        request_id: id of the failed request, if it could be read.
    """

    code: ClassVar[int] = -32603
    http_status: ClassVar[int] = 200
    broken_envelope: ClassVar[bool] = False
    """True if the message itself is malformed or rejected: then no protocol version answers with status 200."""
    headers: Sequence[tuple[str, str]] = ()
    """HTTP headers to send with the error."""

    def __init__(self, message: str, data: Any = None, *, request_id: RequestId | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.data = data
        self.request_id = request_id

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON-RPC ``error`` object."""
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.data is not None:
            error["data"] = self.data
        return error


class ParseError(ProtocolError):
    """The body is not JSON."""

    code = -32700
    http_status = 400
    broken_envelope = True


class InvalidRequest(ProtocolError):
    """The body is JSON, but not a JSON-RPC 2.0 message of MCP."""

    code = -32600
    http_status = 400
    broken_envelope = True


class MethodNotFound(ProtocolError):
    """The method does not exist, or needs a capability that this server does not declare."""

    code = -32601
    http_status = 404


class InvalidParams(ProtocolError):
    """The parameters are wrong, or name an unknown tool, prompt or cursor."""

    code = -32602
    http_status = 400


class ResourceNotFound(InvalidParams):
    """The resource does not exist for this caller (2026-07-28, Resources, Error Handling)."""

    def __init__(self, uri: str) -> None:
        super().__init__("Resource not found", {"uri": uri})


class InternalError(ProtocolError):
    """An error of the server. Details go to the log, never into the message."""

    code = -32603


class TooManyRequests(ProtocolError):
    """The caller exceeded a rate limit.

    Args:
        seconds: time until a retry may succeed.
        reason: the exceeded limit, as a sentence.
    """

    code = -32000
    http_status = 429
    broken_envelope = True

    def __init__(self, seconds: int, reason: str = "Rate limit exceeded.") -> None:
        super().__init__(f"{reason} Retry after {seconds} s.", {"retryAfter": seconds})
        self.headers = [("Retry-After", str(seconds))]


class InsufficientScope(ProtocolError):
    """The credential lacks scopes (RFC 6750, section 3.1). Over HTTP the endpoint answers with 403.

    Args:
        scope: all scopes that the operation requires, separated by spaces.
    """

    code = -32000
    http_status = 403

    def __init__(self, scope: str) -> None:
        super().__init__(
            (f"This operation requires the scope {scope}, which the credential does not have."), {"scope": scope}
        )
        self.scope = scope


class HeaderMismatch(ProtocolError):
    """A mirrored HTTP header is missing, malformed, or differs from the body."""

    code = -32020
    http_status = 400


class MissingClientCapability(ProtocolError):
    """The call needs a capability that the client did not declare."""

    code = -32021
    http_status = 400

    def __init__(self, message: str, required: dict[str, dict[str, Any]]) -> None:
        super().__init__(message, {"requiredCapabilities": required})


class UnsupportedProtocolVersion(ProtocolError):
    """The server does not support the protocol version."""

    code = -32022
    http_status = 400
    broken_envelope = True

    def __init__(self, requested: str, supported: Sequence[str]) -> None:
        super().__init__(
            f"Unsupported protocol version {requested!r}. Supported versions: {', '.join(supported)}.",
            {"supported": list(supported), "requested": requested},
        )
