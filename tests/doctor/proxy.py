"""A proxy before the site, with one fault at a time."""

import http.client
import select
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from benchmarks.process import HOST
from tests.conformance.legs import ATTEMPTS
from tests.ports import free_port

HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding"}
Headers = dict[str, str]


@dataclass(frozen=True)
class Fault:
    """What goes wrong; without arguments nothing does.

    Attributes:
        instead: an answer that is given without asking the site: from a request to status, headers and body, or None.
        request: changes the headers of requests, which have lower-case names.
        reply: likewise those of answers.
        buffers: nothing of an answer goes out before all of it is there.
        begins: the head of such an answer goes out all the same.
        cuts_after: seconds after which a silent answer is cut off.
        drops_comments: comments of streams are kept back.
    """

    instead: Callable[["Handler"], tuple[int, Mapping[str, str], bytes] | None] = lambda _: None
    request: Callable[[Headers], object] = lambda _: None
    reply: Callable[[Headers], object] = lambda _: None
    buffers: bool = False
    begins: bool = False
    cuts_after: float | None = None
    drops_comments: bool = False


@dataclass
class Proxy:
    """It listens from ``with`` to the end of the block.

    Attributes:
        port: of its own.
        to: the site's.
        certificate: for TLS.
    """

    port: int
    to: int = 0
    certificate: Path | None = None
    fault: Fault = field(default_factory=Fault)

    def __enter__(self) -> Self:
        self.open: set[socket.socket] = set()
        self._server = Server((HOST, self.port), Handler)
        self._server.proxy = self
        if self.certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.certificate)
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="proxy")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self.drop()
        self._server.server_close()
        self._thread.join()

    def drop(self) -> None:
        """Break all connections."""
        for each in list(self.open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


@contextmanager
def listening(to: int = 0, certificate: Path | None = None) -> Iterator[Proxy]:
    """A proxy at a port that is free; another process may take one between finding it free and using it."""
    with ExitStack() as stack:
        for attempt in range(ATTEMPTS):
            try:
                proxy = stack.enter_context(Proxy(free_port(), to, certificate))
            except OSError:
                if attempt == ATTEMPTS - 1:
                    raise
            else:
                break
        yield proxy


class Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = True
    proxy: Proxy

    def handle_error(self, *_: Any) -> None:
        """A client that leaves, or wants no such certificate, is none of the test's business."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def setup(self) -> None:
        super().setup()
        self.server.proxy.open.add(self.connection)

    def finish(self) -> None:
        self.server.proxy.open.discard(self.connection)
        with suppress(OSError):
            super().finish()

    def log_message(self, *_: Any) -> None:
        """Nobody reads it."""

    def serve(self) -> None:
        fault = self.server.proxy.fault
        self.body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if (answer := fault.instead(self)) is not None:
            status, headers, body = answer
            self.begin(status, {**headers, "content-length": str(len(body))})
            self.wfile.write(body)
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        fault.request(headers)
        there = http.client.HTTPConnection(HOST, self.server.proxy.to, timeout=30)
        try:
            there.connect()
            self.server.proxy.open.add(there.sock)
            sock = there.sock
            with suppress(BrokenPipeError, ConnectionResetError):  # the answer may be there all the same
                there.request(self.command, self.path, self.body, headers)
            self.hand_on(there.getresponse(), sock, fault)
        finally:
            self.server.proxy.open.discard(sock)
            sock.close()
            there.close()

    do_GET = do_POST = do_DELETE = do_OPTIONS = serve  # noqa: N815 - the standard library's names

    def hand_on(self, response: http.client.HTTPResponse, sock: socket.socket, fault: Fault) -> None:
        """Pass an answer on: whole where its length is known, else as it comes."""
        headers = {name.lower(): value for name, value in response.getheaders() if name.lower() not in HOP_BY_HOP}
        fault.reply(headers)
        if "content-length" in headers or response.status == 204:
            self.begin(response.status, headers)
            self.wfile.write(response.read())
            return
        if fault.buffers and fault.begins:
            self.begin(response.status, {**headers, "transfer-encoding": "chunked"})
            self.all_of(response)
            self.close_connection = True
            return
        if fault.buffers:
            content = self.all_of(response)
            self.begin(response.status, {**headers, "content-length": str(len(content))})
            self.wfile.write(content)
            return
        self.begin(response.status, {**headers, "transfer-encoding": "chunked"})
        sock.settimeout(fault.cuts_after or 30)
        with response, suppress(TimeoutError, OSError):
            while not self.client_left() and (data := response.read1(65536)):
                if not (fault.drops_comments and data.startswith(b":")):
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        self.close_connection = True
        if not fault.cuts_after:
            self.wfile.write(b"0\r\n\r\n")

    def all_of(self, response: http.client.HTTPResponse) -> bytes:
        """The answer, or what there was of it when the client left."""
        parts = []
        with response:
            while not self.client_left() and (data := response.read1(65536)):
                parts.append(data)
        return b"".join(parts)

    def client_left(self) -> bool:
        """Whether the connection of the client is closed."""
        readable, _, _ = select.select([self.connection], [], [], 0)
        return bool(readable) and not self.connection.recv(1, socket.MSG_PEEK)

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """Send the head of an answer, with nothing in it of its own."""
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()


def without(*names: str) -> Callable[[Headers], object]:
    """Takes headers out."""

    def take_out(headers: Headers) -> None:
        for name in names:
            headers.pop(name, None)

    return take_out


def page(status: int, text: str, **headers: str) -> Callable[[Handler], tuple[int, Mapping[str, str], bytes]]:
    """Answers every request with an HTML page."""
    given = {"content-type": "text/html", **headers}
    return lambda _: (status, given, f"<html><body>{text}</body></html>".encode())
