"""Receives webhooks on this machine, and checks what they are signed with."""

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.ports import free_port

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@dataclass
class Received:
    path: str
    headers: dict[str, str]
    body: bytes

    def checked(self, secret: str = SECRET) -> dict[str, Any]:
        """What it says, if the secret is what it was signed with, and that not long ago."""
        key = base64.b64decode(secret[6:]) if secret.startswith("whsec_") else secret.encode()
        number, moment = self.headers["webhook-id"], self.headers["webhook-timestamp"]
        assert abs(time.time() - int(moment)) < 300
        signed = b".".join((number.encode(), moment.encode(), self.body))
        version, _, given = self.headers["webhook-signature"].partition(",")
        assert version == "v1"
        assert hmac.compare_digest(base64.b64decode(given), hmac.digest(key, signed, hashlib.sha256))
        return json.loads(self.body)


@dataclass
class Receiver:
    """
    Attributes:
        answers: statuses of the next answers; then all are accepted.
        location: where it sends those whom it redirects.
        silent: until this is set no answer is given, if there is one.
        drips: give an answer that never ends.
    """

    port: int
    answers: list[int] = field(default_factory=list)
    received: list[Received] = field(default_factory=list)
    location: str = ""
    silent: threading.Event | None = None
    drips: bool = False
    closed: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hooks?from=mcp"

    @property
    def ids(self) -> list[str]:
        return [each.headers["webhook-id"] for each in self.received]


@contextmanager
def listening() -> Iterator[Receiver]:
    receiver = Receiver(free_port())

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            receiver.received.append(Received(self.path, headers, body))
            if receiver.silent is not None:
                receiver.silent.wait(20)
            if receiver.drips:
                self.drip()
                return
            self.send_response(receiver.answers.pop(0) if receiver.answers else 204)
            if receiver.location:
                self.send_header("Location", receiver.location)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def drip(self) -> None:
            try:
                self.wfile.write(b"HTTP/1.1 200 OK\r\n")
                while not receiver.closed.wait(0.05):
                    self.wfile.write(b"X-More: more\r\n"[:1])
            except OSError:
                pass

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", receiver.port), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield receiver
    finally:
        receiver.closed.set()
        if receiver.silent is not None:
            receiver.silent.set()
        server.shutdown()
        server.server_close()
        thread.join()
