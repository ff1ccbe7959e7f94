"""The package's HTTP client: one request, one response, one deadline.

Does not follow redirects, retry, or add more to a request than HTTP requires. Import it inside functions, because it
imports urllib3.
"""

import http.client
import io
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from urllib3 import BaseHTTPResponse, HTTPConnectionPool, HTTPSConnectionPool, PoolManager, ProxyManager, make_headers
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError, LocationParseError, NewConnectionError
from urllib3.exceptions import TimeoutError as LateError


@contextmanager
def send(
    method: str,
    url: str,
    headers: Mapping[str, str],
    *,
    timeout: float,
    body: bytes | None = None,
    address: str | None = None,
    ssl_context: ssl.SSLContext | None = None,
) -> Iterator[BaseHTTPResponse]:
    """Send a request and yield its response with an unread body.

    Args:
        method: HTTP method.
        url: http or https.
        headers: request headers.
        timeout: seconds from connecting to the last byte, without DNS resolution.
        body: request body.
        address: IP address to connect to instead of resolving the host, without a proxy. The certificate must match the
            host.
        ssl_context: trusted certificates, by default the system's.

    Raises:
        TimeoutError: no complete response in time.
        OSError: no response, an incomplete one, or not HTTP.
    """
    if timeout <= 0:
        raise TimeoutError("No time is left for the request.")
    parts = urlsplit(url)
    headers = {"User-Agent": "django_mcp", "Connection": "close", **headers}
    if address is not None:
        headers["Host"] = parts.netloc
        host = f"[{address}]" if ":" in address else address
        url = parts._replace(netloc=host if parts.port is None else f"{host}:{parts.port}").geturl()
    try:
        with _manager(parts, is_pinned=address is not None, ssl_context=ssl_context) as manager:
            response = manager.urlopen(
                method,
                url,
                body=body,
                headers=headers,
                timeout=timeout,
                retries=False,
                redirect=False,
                preload_content=False,
                decode_content=False,
            )
            try:
                yield response
            finally:
                response.close()
    except LocationParseError:  # its message contains the URL, which may be secret
        raise OSError("The URL is invalid.") from None
    except HTTPError as error:
        # urllib3 derives refused connections from its timeout error.
        if isinstance(error, LateError) and not isinstance(error, NewConnectionError):
            raise TimeoutError("The server did not respond in time.") from None
        raise OSError(str(error)) from error


def _manager(parts: SplitResult, *, is_pinned: bool, ssl_context: ssl.SSLContext | None) -> PoolManager:
    proxy = getproxies().get(parts.scheme)
    if is_pinned:
        manager = PoolManager(ssl_context=ssl_context, server_hostname=parts.hostname)
    elif proxy and not proxy_bypass(parts.netloc):
        proxy = proxy if "://" in proxy else f"http://{proxy}"
        name, password = (unquote(each or "") for each in (urlsplit(proxy).username, urlsplit(proxy).password))
        login = make_headers(proxy_basic_auth=f"{name}:{password}") if name else None
        manager = ProxyManager(proxy, proxy_headers=login, ssl_context=ssl_context)
    else:
        manager = PoolManager(ssl_context=ssl_context)
    manager.pool_classes_by_scheme = {"http": _Pool, "https": _SecurePool}
    return manager


class _TimedConnection(HTTPConnection):
    """A connection for one exchange, with a timeout for all of it."""

    def connect(self) -> None:
        self._deadline = time.monotonic() + cast("float", self.timeout)
        super().connect()
        self.sock.settimeout(_left(self._deadline))

    def response_class(self, connection: socket.socket, **options: Any) -> http.client.HTTPResponse:  # type: ignore[override]
        timed = cast("socket.socket", _TimedReader(connection, self._deadline))
        return http.client.HTTPResponse(timed, **options)


class _SecureConnection(_TimedConnection, HTTPSConnection):
    pass


class _Pool(HTTPConnectionPool):
    ConnectionCls = _TimedConnection


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


class _TimedReader(io.RawIOBase):
    """A reader of a socket with a deadline. A socket's own timeout restarts with each byte."""

    def __init__(self, connection: socket.socket, deadline: float) -> None:
        self._connection = connection
        self._deadline = deadline
        self._file = connection.makefile("rb", buffering=0)

    def makefile(self, mode: str) -> io.BufferedReader:  # noqa: ARG002 - what HTTPResponse asks of a socket
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._connection.settimeout(_left(self._deadline))
        return self._file.readinto(buffer)

    def close(self) -> None:
        self._file.close()
        super().close()


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
