"""Where calls are watched from: one hook around ``dispatch``, which is nothing where nobody watches."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol

from django_mcp.protocol.jsonrpc import Result

if TYPE_CHECKING:
    from django_mcp.core.concurrency import Runner
    from django_mcp.core.context import Context
    from django_mcp.core.principal import Principal
    from django_mcp.core.registry import MCPServer


class Observer(Protocol):
    """Watches calls."""

    def wants(self, context: "Context") -> bool:
        """Whether a call is watched."""

    async def watch(self, context: "Context", serve: Callable[[], Awaitable[Result]]) -> Result:
        """Serve a call, and take down what came of it.

        Args:
            context: of the call.
            serve: does it.

        Raises:
            ProtocolError: the call failed, or what came of it could not be taken down.
            InputRequired, Cancelled: as *serve* does.
        """

    async def refused(
        self,
        server: "MCPServer",
        principal: "Principal | None",
        runner: "Runner",
        edge: Callable[[], Any],
        message: Any,
        reason: str,
    ) -> None:
        """Take down a request that was turned down before anything was looked at.

        Args:
            server: the endpoint.
            principal: the caller; None where nobody knows who it is.
            runner: of the edge.
            edge: gives a Django request.
            message: decoded, where it was read.
            reason: in the words that the client reads.
        """


class Watch:
    """Holds the observer.

    Attributes:
        observer: who watches; None for nobody.
    """

    __slots__ = ("observer",)

    def __init__(self) -> None:
        self.observer: Observer | None = None


watching = Watch()
