"""The package's HTTP client: one request, one response, one deadline.

Does not follow redirects, retry, or add more to a request than HTTP requires. Import it inside functions, because it
imports urllib3.
"""

import http.client
import io
import ipaddress
import queue
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, cast
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from urllib3 import BaseHTTPResponse, HTTPConnectionPool, HTTPSConnectionPool, PoolManager, ProxyManager, make_headers
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    LocationParseError,
    NewConnectionError,
    ProxyError,
    SSLError,
)
from urllib3.exceptions import TimeoutError as LateError

from django_mcp.core.after_fork import FreshLock


class NoConnection(ConnectionError):
    """No connection could be made: no address, no route, no answer, or no certificate that is trusted."""


class Resolver:
    """DNS lookups with a deadline, which ``getaddrinfo`` lacks.

    A lookup runs in a thread of its own. One that is given up keeps its place until it ends, so hosts that never answer
    cannot pile up threads. Hosts that strangers name get a resolver of their own, so they cannot use up the places of
    the site's webhooks and issuers.

    Args:
        most: maximum number of unfinished lookups in this process.
    """

    def __init__(self, most: int) -> None:
        # Fresh after a fork: threads of the parent hold places, and would never release them in the child.
        self._places = FreshLock(partial(threading.BoundedSemaphore, most))

    def resolve(self, host: str, port: int, timeout: float) -> Sequence[str]:
        """Return the IP addresses of a host, without duplicates.

        Raises:
            BlockingIOError: too many lookups are unfinished.
            TimeoutError: no answer within *timeout* seconds.
            OSError: it has none.
        """
        try:
            return [str(ipaddress.ip_address(host.strip("[]")))]
        except ValueError:
            pass
        if timeout <= 0:
            raise TimeoutError
        if not self._places.acquire(blocking=False):
            raise BlockingIOError("Too many DNS lookups are unanswered.")
        answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        thread = threading.Thread(target=self._look_up, args=(host, port, answers), name="django-mcp-dns", daemon=True)
        try:
            thread.start()
        except BaseException:
            # A thread that has started releases the place itself.
            self._places.release()
            raise
        try:
            found = answers.get(timeout=timeout)
        except queue.Empty:
            raise TimeoutError("The DNS did not answer in time.") from None
        if isinstance(found, Exception):
            raise OSError(f"{host!r} has no address: {found}") from None
        return list(dict.fromkeys(str(answer[4][0]) for answer in found))

    def _look_up(self, host: str, port: int, answers: "queue.SimpleQueue[Any]") -> None:
        try:
            found: Any = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
        except Exception as error:  # noqa: BLE001 - raised in the thread that waits
            found = error
        finally:
            self._places.release()
        # After the place is free, because the waiting caller may start its next lookup immediately.
        answers.put(found)


resolver = Resolver(32)
"""For hosts that the site configures."""


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
        timeout: seconds from the DNS lookup to the last byte.
        body: request body.
        address: IP address to connect to instead of resolving the host, without a proxy. The certificate must match the
            host.
        ssl_context: trusted certificates, by default the system's.

    Raises:
        TimeoutError: no complete response in time.
        NoConnection: there is no network to the host, or to the proxy.
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
        if isinstance(error, ConnectTimeoutError | ProxyError | SSLError):
            raise NoConnection(str(error)) from error
        if isinstance(error, LateError):
            raise TimeoutError("The server did not respond in time.") from None
        raise OSError(str(error)) from error


def proxy_for(parts: SplitResult) -> str | None:
    """Return the proxy that the environment (``HTTPS_PROXY``, ``NO_PROXY``) names for a URL, or None."""
    proxy = getproxies().get(parts.scheme)
    return proxy if proxy and not proxy_bypass(parts.netloc) else None


def _manager(parts: SplitResult, *, is_pinned: bool, ssl_context: ssl.SSLContext | None) -> PoolManager:
    if is_pinned:
        manager = PoolManager(ssl_context=ssl_context, server_hostname=parts.hostname)
    elif proxy := proxy_for(parts):
        proxy = proxy if "://" in proxy else f"http://{proxy}"
        name, password = (unquote(part or "") for part in (urlsplit(proxy).username, urlsplit(proxy).password))
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

    def _new_conn(self) -> socket.socket:
        host = self._dns_host
        try:
            addresses = resolver.resolve(host, self.port, _left(self._deadline))
        except TimeoutError as error:
            raise ConnectTimeoutError(self, str(error)) from error
        except OSError as error:
            raise NewConnectionError(self, str(error)) from error
        failure: HTTPError = NewConnectionError(self, "The host has no address.")
        try:
            for address in addresses:
                # Certificates are still compared with the host's name.
                self._dns_host, self.timeout = address, _left(self._deadline)
                try:
                    return super()._new_conn()
                except (NewConnectionError, ConnectTimeoutError) as error:
                    failure = error
        except TimeoutError as error:
            raise ConnectTimeoutError(self, str(failure)) from error
        finally:
            # The certificate is compared, and a second attempt made, with the name.
            self._dns_host = host
        raise failure

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
