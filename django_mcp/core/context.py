"""The context: all that a handler, and a tool that asks for it, can know of the call it serves."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from django_mcp.core.concurrency import Runner
from django_mcp.core.principal import Principal
from django_mcp.protocol.envelope import ClientInfo, meta_of
from django_mcp.protocol.errors import RequestId

if TYPE_CHECKING:
    from django_mcp.core.registry import MCPServer


class Context:
    """One call. A tool gets it through a parameter annotated ``Context``.

    Attributes:
        server: the endpoint's ``MCPServer``.
        principal: who calls.
        capabilities: what the client declared it can do.
        request_id: the JSON-RPC id.
        method: the JSON-RPC method.
        params: the request's parameters.
    """

    __slots__ = (
        "_client",
        "_edge",
        "_request",
        "capabilities",
        "method",
        "params",
        "principal",
        "request_id",
        "runner",
        "server",
    )

    def __init__(
        self,
        server: "MCPServer",
        principal: Principal,
        runner: Runner,
        edge: Callable[[], Any],
        request_id: RequestId,
        method: str,
        params: dict[str, Any],
        client: Any,
        capabilities: Mapping[str, Any],
    ) -> None:
        self.server = server
        self.principal = principal
        self.runner = runner
        self._edge = edge
        self._request: Any = None
        self.request_id = request_id
        self.method = method
        self.params = params
        self._client = client
        self.capabilities = capabilities

    @property
    def client(self) -> ClientInfo:
        """What the client says it is; unverified."""
        return ClientInfo.read(self._client)

    @property
    def user(self) -> Any:
        """The Django user who calls, or ``AnonymousUser``."""
        return self.principal.user

    @property
    def meta(self) -> Mapping[str, Any]:
        """The request's ``_meta``."""
        return meta_of(self.params)

    @property
    def request(self) -> Any:
        """A Django request for this call, built on first use.

        It carries path, headers and ``ctx.user``, for code that wants one (``build_absolute_uri``, a template's
        context processors). No middleware has seen it at the ASGI edge.
        """
        if self._request is None:
            self._request = self._edge()
            self._request.user = self.user  # never the one of a session cookie
        return self._request
