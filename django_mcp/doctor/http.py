"""HTTP client and session of ``mcp_doctor``.

``http.client`` is used instead of ``core.http_client`` for access to the socket, persistent connections, single lines
of a stream, and certificate errors.
"""

import contextlib
import datetime
import http.client
import itertools
import json
import secrets
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, urlsplit

from django.utils import timezone

from django_mcp.core.server import MCPServer
from django_mcp.doctor.messages import CheckFailed, Finding, make_finding
from django_mcp.models import Session
from django_mcp.protocol import headers, versions
from django_mcp.protocol import meta as envelope
from django_mcp.version import __version__

MAX_BYTES = 8 * 1024 * 1024
"""Limit of a response body."""
_NAME_CODES = {62, 64}
_TIME_CODES = {9, 10}
"""OpenSSL's codes of a certificate for another name or address, and of one outside of its validity period."""


@dataclass(frozen=True)
class HTTPResponse:
    """A complete response. ``headers`` are by lower-case name; repeated ones are joined."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    seconds: float

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower() or "no media type"

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    @property
    def json(self) -> dict[str, Any]:
        """The JSON object of the body or of the last event of a stream, or {}."""
        text = self.text
        if self.media_type == "text/event-stream":
            data = [line[5:] for line in text.splitlines() if line.startswith("data:") and line[5:].strip()]
            text = data[-1] if data else ""
        with contextlib.suppress(ValueError):
            found = json.loads(text)
            if isinstance(found, dict):
                return found
        return {}

    @property
    def error(self) -> str:
        error = self.json.get("error")
        return str(error.get("message") or error) if isinstance(error, dict) else ""

    @property
    def summary(self) -> str:
        words = self.error or " ".join(self.text.split())[:100]
        return f"{self.status}, {self.media_type}" + (f" ({words[:200]})" if words else "")


@dataclass
class Stream:
    """A response that stays open."""

    connection: http.client.HTTPConnection
    response: http.client.HTTPResponse
    sock: socket.socket
    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    opened: float = field(default_factory=time.monotonic)

    def read_line(self, within: float) -> str | None:
        """Return the next non-empty line; "" at the end of the stream, None after a timeout."""
        deadline = time.monotonic() + within
        while True:
            try:
                # Never 0, with which the socket would not wait at all.
                self.sock.settimeout(max(0.01, deadline - time.monotonic()))
                line = self.response.readline()
            except TimeoutError:
                return None
            except (OSError, http.client.HTTPException, ValueError):
                return ""
            if not line or (line := line.strip()):
                return line.decode("utf-8", "replace")

    def read_rest(self) -> bytes:
        """Return the rest of a response that is not a stream."""
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self.response.read(MAX_BYTES)
        return b""

    def close(self) -> None:
        self.response.close()
        self.connection.close()
        self.sock.close()


class HTTPClient:
    """Requests to the endpoint's URL, and to URLs that it refers to. *timeout* is in seconds."""

    def __init__(self, url: str, timeout: float, *, insecure: bool = False) -> None:
        self.url = url
        self.parts = urlsplit(url)
        self.timeout = timeout
        self.insecure = insecure

    @property
    def origin(self) -> str:
        return f"{self.parts.scheme}://{self.parts.netloc}"

    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    def connect(self, parts: SplitResult) -> http.client.HTTPConnection:
        """Return a connection to the host of a URL; raises ``CheckFailed`` on failure."""
        host, port = host_and_port(parts)
        connection = (
            http.client.HTTPSConnection(host, port, timeout=self.timeout, context=self.context())
            if parts.scheme == "https"
            else http.client.HTTPConnection(host, port, timeout=self.timeout)
        )
        try:
            connection.connect()
        except BaseException as error:
            connection.close()
            raise self.failure_of(error, parts) from error
        return connection

    def send(
        self, method: str, headers: Mapping[str, str] | None = None, body: bytes | None = None, url: str | None = None
    ) -> HTTPResponse:
        """Send a request and read its response; raises ``CheckFailed`` on failure."""
        parts = urlsplit(url or self.url)
        with contextlib.closing(self.connect(parts)) as connection:
            return self.send_on(connection, method, headers, body, parts)

    def send_on(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        parts: SplitResult | None = None,
    ) -> HTTPResponse:
        """Send a request on an open connection, which stays open if the server allows it."""
        parts = parts or self.parts
        began = time.monotonic()
        try:
            # A server may reject a body without reading it, and still have sent a response.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.request(method, request_target(parts), body, dict(headers or {}))
            response = connection.getresponse()
            content = response.read(MAX_BYTES)
        except BaseException as error:
            raise self.failure_of(error, parts) from error
        return HTTPResponse(response.status, join_headers(response), content, time.monotonic() - began)

    def open(self, method: str, headers: Mapping[str, str], body: bytes | None = None) -> Stream | None:
        """Send a request and read only the head of its response; None after a timeout."""
        connection = self.connect(self.parts)
        # Kept here: http.client forgets it for a response that ends with the connection.
        sock = connection.sock
        try:
            connection.request(method, request_target(self.parts), body, dict(headers))
            response = connection.getresponse()
        except TimeoutError:
            connection.close()
            return None
        except BaseException as error:
            connection.close()
            raise self.failure_of(error, self.parts) from error
        return Stream(connection, response, sock, response.status, join_headers(response))

    def failure_of(self, error: BaseException, parts: SplitResult) -> BaseException:  # noqa: PLR0911 - a table
        host, port = host_and_port(parts)
        names: dict[str, Any] = {"host": host, "port": port, "why": getattr(error, "strerror", None) or str(error)}
        match error:
            case ssl.SSLCertVerificationError():
                names["why"] = error.verify_message
                if error.verify_code in _NAME_CODES:
                    return CheckFailed("tls.name", names=self.certificate_names(parts), **names)
                return CheckFailed("tls.expired" if error.verify_code in _TIME_CODES else "tls.untrusted", **names)
            case ssl.SSLError():
                return CheckFailed("tls.failed", **{**names, "why": error.reason or names["why"]})
            case socket.gaierror():
                return CheckFailed("reach.dns", **names)
            case TimeoutError():
                return CheckFailed("reach.timeout", seconds=f"{self.timeout:g}", **names)
            case ConnectionRefusedError():
                return CheckFailed("reach.refused", **names)
            case OSError() | http.client.HTTPException():
                return CheckFailed("reach.broken", **{**names, "why": names["why"] or type(error).__name__})
        return error

    def certificate_names(self, parts: SplitResult) -> str:
        # Without the name, which is what is wrong; getpeercert() is empty for what is not verified at all.
        context = ssl.create_default_context()
        context.check_hostname = False
        certificate: Any = {}
        with (
            contextlib.suppress(OSError),
            socket.create_connection(host_and_port(parts), self.timeout) as plain,
            context.wrap_socket(plain, server_hostname=parts.hostname) as secure,
        ):
            certificate = secure.getpeercert() or {}
        return ", ".join(name for _, name in certificate.get("subjectAltName", ())) or "another name"


def host_and_port(parts: SplitResult) -> tuple[str, int]:
    return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def request_target(parts: SplitResult) -> str:
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def join_headers(response: http.client.HTTPResponse) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in response.getheaders():
        key = name.lower()
        found[key] = f"{found[key]}, {value}" if key in found else value
    return found


NEWEST = versions.MODERN[0]
OLDER = versions.LEGACY[0]


@dataclass
class Diagnosis:
    """The state of one run.

    Attributes:
        key: bearer token to send.
        user: whose temporary key it is, or None.
        is_ours: True if this process's database has the key.
        may_call: True if calls are allowed, with the credential or without.
        row: row of the legacy session in this process's database, if found.
        name: unique client name of this run.
    """

    client: HTTPClient
    server: MCPServer
    path: str
    key: str | None = None
    user: Any = None
    is_ours: bool = False
    may_call: bool = False
    uses_api_key_header: bool = False
    has_stream: bool = False
    session: str | None = None
    row: Session | None = None
    stream: Stream | None = None
    findings: list[Finding] = field(default_factory=list)
    started_at: datetime.datetime = field(default_factory=timezone.now)
    name: str = field(default_factory=lambda: f"mcp_doctor {secrets.token_hex(6)}")
    ids: Any = field(default_factory=lambda: itertools.count(1))

    def add_finding(self, finding_id: str, **values: Any) -> None:
        self.findings.append(make_finding(finding_id, **values))

    @property
    def credential(self) -> dict[str, str]:
        if self.key is None:
            return {}
        return {"X-API-Key": self.key} if self.uses_api_key_header else {"Authorization": f"Bearer {self.key}"}

    def post_headers(self, more: Mapping[str, str]) -> dict[str, str]:
        return {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "User-Agent": f"mcp_doctor/{__version__}",
            **self.credential,
            **more,
        }

    # Protocol 2026-07-28

    def compose_modern(self, method: str, params: Mapping[str, Any] | None = None) -> tuple[dict[str, str], bytes]:
        meta = envelope.fields(NEWEST, {"name": self.name, "version": __version__}, {})
        message = {
            "jsonrpc": "2.0",
            "id": next(self.ids),
            "method": method,
            "params": {**(params or {}), "_meta": meta},
        }
        return self.post_headers({headers.VERSION: NEWEST, headers.METHOD: method}), json.dumps(message).encode()

    def modern_request(
        self, method: str, params: Mapping[str, Any] | None = None, more: Mapping[str, str] | None = None
    ) -> HTTPResponse:
        given, body = self.compose_modern(method, params)
        return self.client.send("POST", {**given, **(more or {})}, body)

    # Legacy protocols

    def session_headers(self, session: str | None) -> dict[str, str]:
        return {headers.VERSION: OLDER, **({headers.SESSION: session} if session else {})}

    def legacy_request(
        self, method: str, params: Mapping[str, Any] | None = None, session: str | None = None, *, silent: bool = False
    ) -> HTTPResponse:
        """Send a legacy request, or a notification if *silent*."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": dict(params or {})}
        if not silent:
            message["id"] = next(self.ids)
        given = {} if method == "initialize" else self.session_headers(session)
        return self.client.send("POST", self.post_headers(given), json.dumps(message).encode())

    def close(self) -> None:
        if self.stream is not None:
            self.stream.close()
            self.stream = None
        if self.row is not None:
            Session.objects.filter(pk=self.row.pk).delete()
        elif self.session is not None:
            session, self.session = self.session, None
            self.client.send("DELETE", {**self.session_headers(session), **self.credential})
