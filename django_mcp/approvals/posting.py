"""One POST to an address that the site's owner chose.

The proxy of the environment is used. No redirect is followed: what is signed is for one receiver. Of the answer nothing
but the head is read, and it has to be there in time, however slowly it comes.
"""

import http.client
import io
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any, cast

SECONDS = 10.0
"""For the connection, for sending, and for the answer."""


class Unanswered(Exception):
    """The answer was another one than it should be."""


def post(url: str, body: bytes, headers: Mapping[str, str]) -> None:
    """Send *body*, and have it accepted.

    Args:
        url: http or https.
        body: what is sent.
        headers: those of the request.

    Raises:
        Unanswered: the status was none of 2xx.
        OSError: there was no answer, or not in time.
        http.client.HTTPException: the answer is not HTTP.
    """
    request = urllib.request.Request(url, body, dict(headers), method="POST")  # noqa: S310 - see _opener
    try:
        _opener().open(request, timeout=SECONDS).close()
    except urllib.error.HTTPError as error:
        error.close()
        reason = "a redirect, which is not followed" if error.code // 100 == 3 else error.reason  # noqa: PLR2004
        raise Unanswered(f"It answered {error.code}: {reason}") from None


def _opener() -> urllib.request.OpenerDirector:
    """Without what opens files and FTP, and without what follows redirects."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        _Handler(),
        urllib.request.UnknownHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    return opener


class _Paced(io.RawIOBase):
    """A socket to read from for some time. Its own timeout would begin anew with each byte."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._deadline = time.monotonic() + SECONDS

    def makefile(self, mode: str) -> io.BufferedReader:  # noqa: ARG002 - what HTTPResponse asks of a socket
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("It did not answer in time.")
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)


class _Response(http.client.HTTPResponse):
    def __init__(self, connection: socket.socket, *args: Any, **options: Any) -> None:
        super().__init__(cast("socket.socket", _Paced(connection)), *args, **options)


class _Plain(http.client.HTTPConnection):
    response_class = _Response


class _Secure(http.client.HTTPSConnection):
    response_class = _Response


class _Handler(urllib.request.AbstractHTTPHandler):
    def http_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_Plain, request)

    def https_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_Secure, request)

    http_request = https_request = urllib.request.AbstractHTTPHandler.do_request_
