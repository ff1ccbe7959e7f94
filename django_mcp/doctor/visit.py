"""One run: what is visited, with which credential, and what was learned on the way."""

import datetime
import itertools
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.utils import timezone

from django_mcp.core.server import MCPServer
from django_mcp.doctor.findings import Finding, make
from django_mcp.doctor.web import Reply, Stream, Web
from django_mcp.models import Session
from django_mcp.protocol import headers, versions
from django_mcp.protocol import meta as envelope
from django_mcp.version import __version__

NEWEST = versions.MODERN[0]
OLDER = versions.LEGACY[0]


@dataclass
class Visit:
    """See the module.

    Attributes:
        server: the endpoint, as this process knows it.
        key: what is sent as ``Authorization: Bearer``.
        is_ours: this process made the key, or has it in its database.
        is_open: calls are answered, because of the credential or because none is needed.
        session: of the protocol with a handshake, while there is one.
        row: of that session in this process's database, where it is there.
        listening: the stream that is open.
        began: when this run began.
        name: what this run calls itself, unlike any other.
    """

    web: Web
    server: MCPServer
    path: str
    key: str | None = None
    is_ours: bool = False
    is_open: bool = False
    by_other_header: bool = False
    holds_streams: bool = False
    session: str | None = None
    row: Session | None = None
    listening: Stream | None = None
    findings: list[Finding] = field(default_factory=list)
    began: datetime.datetime = field(default_factory=timezone.now)
    name: str = field(default_factory=lambda: f"mcp_doctor {secrets.token_hex(6)}")
    ids: Any = field(default_factory=lambda: itertools.count(1))

    def found(self, finding_id: str, **values: Any) -> None:
        """Note something."""
        self.findings.append(make(finding_id, **values))

    @property
    def credential(self) -> dict[str, str]:
        """The headers of the credential."""
        if self.key is None:
            return {}
        return {"X-API-Key": self.key} if self.by_other_header else {"Authorization": f"Bearer {self.key}"}

    def own(self, more: Mapping[str, str]) -> dict[str, str]:
        """The headers of every POST."""
        return {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "User-Agent": f"mcp_doctor/{__version__}",
            **self.credential,
            **more,
        }

    # Protocol 2026-07-28

    def compose(self, method: str, params: Mapping[str, Any] | None = None) -> tuple[dict[str, str], bytes]:
        """Headers and body of a request that stands for itself."""
        meta = envelope.fields(NEWEST, {"name": self.name, "version": __version__}, {})
        message = {
            "jsonrpc": "2.0",
            "id": next(self.ids),
            "method": method,
            "params": {**(params or {}), "_meta": meta},
        }
        return self.own({headers.VERSION: NEWEST, headers.METHOD: method}), json.dumps(message).encode()

    def ask(self, method: str, params: Mapping[str, Any] | None = None, more: Mapping[str, str] | None = None) -> Reply:
        """Send it; *more* are headers."""
        given, body = self.compose(method, params)
        return self.web.send("POST", {**given, **(more or {})}, body)

    # Protocols with a handshake

    def named(self, session: str | None) -> dict[str, str]:
        """The headers of a request in a session."""
        return {headers.VERSION: OLDER, **({headers.SESSION: session} if session else {})}

    def say(
        self, method: str, params: Mapping[str, Any] | None = None, session: str | None = None, *, silent: bool = False
    ) -> Reply:
        """Send a request, or a notification where it is *silent*."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": dict(params or {})}
        if not silent:
            message["id"] = next(self.ids)
        given = {} if method == "initialize" else self.named(session)
        return self.web.send("POST", self.own(given), json.dumps(message).encode())

    def close(self) -> None:
        """End what is open: the stream, and the session, which is not to live on."""
        if self.listening is not None:
            self.listening.close()
            self.listening = None
        if self.row is not None:
            Session.objects.filter(pk=self.row.pk).delete()
        elif self.session is not None:
            session, self.session = self.session, None
            self.web.send("DELETE", {**self.named(session), **self.credential})
