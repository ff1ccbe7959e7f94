"""Fetching from an address a stranger chose, without being led anywhere else (CIMD draft 01, section 6.5).

The name is resolved once, every address is judged, and the connection goes to an address that was judged: a second
lookup could answer something else (DNS rebinding). Nothing is sent but the request for the document, no redirect is
followed, and the whole exchange has one deadline.
"""

import http.client
import io
import ipaddress
import socket
import ssl
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast
from urllib.parse import SplitResult

_INSIDE_IPV4 = [
    ipaddress.ip_network(each)
    for each in (
        "192.0.0.0/24",  # IETF protocol assignments
        "192.88.99.0/24",  # 6to4 relays
    )
]
_UNICAST = ipaddress.ip_network("2000::/3")
"""What of IPv6 is given out. All else is special: loopback, local, multicast, and addresses that stand for IPv4 ones
(``::/96``, ``::ffff:0:0/96``, NAT64's ``64:ff9b::/96`` and ``64:ff9b:1::/48``)."""

_INSIDE_IPV6 = [
    ipaddress.ip_network(each)
    for each in (
        "2001::/23",  # IETF protocol assignments, Teredo among them
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4
        "3fff::/20",  # documentation
    )
]


class Unreachable(Exception):
    """There is no such host, or it is none that may be asked."""


def is_public(address: str) -> bool:
    """Whether an IP address is one of the public internet.

    ``ipaddress.is_global`` alone is not enough: in Python 3.11 it holds multicast, IPv4-compatible, NAT64, 6to4 and
    unassigned IPv6 addresses for global.
    """
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    if not found.is_global or found.is_multicast:
        return False
    if isinstance(found, ipaddress.IPv4Address):
        return not any(found in network for network in _INSIDE_IPV4)
    return found in _UNICAST and not any(found in network for network in _INSIDE_IPV6)


def resolve(host: str, port: int) -> list[str]:
    """The addresses of a host, each once. Blocks, as long as the system's resolver does.

    Raises:
        Unreachable: it has none.
    """
    try:
        answers = socket.getaddrinfo(host, port, proto=socket.IPPROTO_TCP)
    except (OSError, UnicodeError) as error:
        raise Unreachable(f"{host!r} has no address: {error}") from None
    return list(dict.fromkeys(str(answer[4][0]) for answer in answers))


def require_public(addresses: Sequence[str]) -> Sequence[str]:
    """*addresses*, if each of them is public: one inside is enough to refuse the host.

    Raises:
        Unreachable: one is not, or there are none.
    """
    if not addresses or not all(is_public(each) for each in addresses):
        raise Unreachable("The host has an address that is not public.")
    return addresses


@contextmanager
def get(url: SplitResult, address: str, context: ssl.SSLContext, deadline: float) -> Iterator[http.client.HTTPResponse]:
    """The response to ``GET url`` from *address*, of which nothing but the head has been read.

    Args:
        url: an https URL in printable ASCII.
        address: where to connect to; the certificate must be that of the URL's host.
        context: what certificates are trusted.
        deadline: by ``time.monotonic()``, for everything until the response is read.

    Raises:
        OSError: the connection failed, the certificate is wrong, or the deadline has passed.
        http.client.HTTPException: the answer is not HTTP.
    """
    with (
        socket.create_connection((address, url.port or 443), timeout=_left(deadline)) as plain,
        context.wrap_socket(plain, server_hostname=url.hostname) as tls,
    ):
        tls.settimeout(_left(deadline))
        tls.sendall(_request(url))
        response = http.client.HTTPResponse(cast("socket.socket", _Paced(tls, deadline)), method="GET")
        response.begin()
        yield response


def _request(url: SplitResult) -> bytes:
    target = (url.path or "/") + (f"?{url.query}" if url.query else "")
    lines = (
        f"GET {target} HTTP/1.1",
        f"Host: {url.netloc}",
        "Accept: application/json, application/*+json",
        "User-Agent: django_mcp",
        "Connection: close",
    )
    return "\r\n".join((*lines, "", "")).encode("ascii")


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("The deadline has passed.")
    return left


class _Paced(io.RawIOBase):
    """A socket to read from until the deadline. A timeout of the socket alone would begin anew with each byte."""

    def __init__(self, connection: ssl.SSLSocket, deadline: float) -> None:
        self._connection = connection
        self._deadline = deadline

    def makefile(self, mode: str) -> io.BufferedReader:  # noqa: ARG002 - what HTTPResponse asks of a socket
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._connection.settimeout(_left(self._deadline))
        return self._connection.recv_into(buffer)
