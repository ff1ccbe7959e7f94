"""What is started, and what each is asked first."""

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.peers import PEERS, is_installed
from benchmarks.shapes import SHAPES, Request
from benchmarks.targets import UVICORN

APPLICATION = "benchmarks.startup.application:application"
SHAPE = SHAPES["modern-add"]
_CHECK = SHAPE.check()


@dataclass(frozen=True, slots=True)
class Site:
    """One server, and its first request.

    Attributes:
        request: gives it, for a value of ``Host``.
        check: says what is wrong with the body that answers it.
        settings: its settings module, where it is a Django site.
        peer: the package in whose environment it runs; empty for ours.
    """

    name: str
    app: str
    request: Callable[[str], Request]
    check: Callable[[bytes, Request], str | None]
    settings: str = ""
    peer: str = ""

    def arguments(self, port: int) -> list[str]:
        """The words after ``python -m``."""
        return UVICORN.format(app=self.app, port=port).split()


def _page(host: str) -> Request:
    return Request(f"GET /hello/ HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode(), 0, 0)


def _call(host: str) -> Request:
    (request,) = SHAPE.requests(1, host)
    return request


def _says_hello(body: bytes, request: Request) -> str | None:  # noqa: ARG001 - as all checks
    return None if body == b"hello from /hello/" else f"expected the page, got {body[:200]!r}"


BARE = Site("bare Django, a page", APPLICATION, _page, _says_hello, "benchmarks.startup.bare")
PYDANTIC = Site(
    "bare Django with pydantic, a page", APPLICATION, _page, _says_hello, "benchmarks.startup.with_pydantic"
)
PAGE = Site("with django_mcp, a page", APPLICATION, _page, _says_hello, "benchmarks.startup.endpoint")
CALL = Site("with django_mcp, a call", APPLICATION, _call, _CHECK, "benchmarks.startup.endpoint")
SDK = Site("official SDK, a call", "benchmarks.startup.sdk:application", _call, _CHECK)
FASTMCP = Site("fastmcp, a call", "benchmarks.peers.fastmcp_app:application", _call, _CHECK, peer="fastmcp")


def sites() -> list[Site]:
    """All that can be started here: another package only where its environment was made already."""
    found = [BARE, PYDANTIC, PAGE, CALL, SDK]
    (peer,) = (each for each in PEERS if each.name == FASTMCP.peer)
    return [*found, FASTMCP] if is_installed(peer) else found
