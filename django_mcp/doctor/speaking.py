"""Whether clients of both kinds are understood, and which of their headers arrive."""

import re
import secrets

from django.db import Error as DatabaseError

from django_mcp.doctor.findings import Stop
from django_mcp.doctor.visit import OLDER, Visit
from django_mcp.doctor.web import Reply
from django_mcp.models import Session
from django_mcp.protocol import headers

_MISSING = re.compile(r"[Tt]he header ([\w-]+) is missing")
_LOST = {headers.VERSION: "headers.protocol-version", headers.METHOD: "headers.mcp-method"}
_NO_SESSION = 404


def credential(visit: Visit) -> str:
    """Whether the credential arrives and is taken; without one, whether one is needed."""
    reply = visit.ask("tools/list")
    if reply.status == 401:  # noqa: PLR2004
        if visit.key is None:
            visit.found("credential.none")
            return "one is needed"
        visit.is_open = gets_through(visit, reply)
        return ""
    if reply.status == 403:  # noqa: PLR2004
        raise Stop("credential.scopes", evidence=reply.said)
    visit.is_open = True
    return "none is needed" if visit.key is None else "it is taken"


def gets_through(visit: Visit, reply: Reply) -> bool:
    """Tell a credential that is refused from one that was lost; whether it gets through another way then.

    The endpoint names an error only where it read a credential.

    Raises:
        Stop: it is of no use.
    """
    if "error=" not in reply.headers.get("www-authenticate", ""):
        visit.found("headers.authorization")
        visit.by_other_header = True
        return visit.ask("tools/list").status != 401  # noqa: PLR2004
    if visit.is_ours:
        raise Stop("deployment.other", evidence="an API key that is good here is not known there")
    raise Stop("credential.refused", evidence=reply.said)


def modern(visit: Visit) -> str:
    """``server/discover`` and ``tools/list`` of 2026-07-28."""
    for method in ("server/discover", "tools/list"):
        reply = visit.ask(method)
        if lost := _MISSING.search(reply.error):
            raise Stop(_LOST.get(lost[1].lower(), "modern.error"), method=method, evidence=reply.said)
        if "result" not in reply.json:
            raise Stop("modern.error", method=method, evidence=reply.said)
    return f"2026-07-28 is spoken; {len(reply.json['result'].get('tools', ()))} tools on the first page"


def legacy(visit: Visit) -> str:
    """The handshake, the session, and that its id goes both ways."""
    greet(visit)
    if visit.session is None:
        visit.found("headers.session-answer" if visit.row is not None else "session.none")
        return ""
    accepted = visit.say("notifications/initialized", session=visit.session, silent=True)
    listed = visit.say("tools/list", session=visit.session)
    if _NO_SESSION in {accepted.status, listed.status}:
        visit.session = None
        raise Stop("session.lost")
    expect(listed, "tools/list")
    if visit.say("tools/list", session=secrets.token_urlsafe(32)).status != _NO_SESSION:
        visit.found("headers.session-request")
    else:
        last_event(visit)
    return f"{OLDER} is spoken, with a session"


def greet(visit: Visit) -> None:
    """Open a session, and find it in this process's database, by a name that nobody else has.

    Raises:
        Stop: the answer is an error.
    """
    client = {"name": visit.name, "version": "1"}
    params = {"protocolVersion": OLDER, "capabilities": {}, "clientInfo": client}
    reply = expect(visit.say("initialize", params), "initialize")
    visit.session = reply.headers.get(headers.SESSION)
    visit.row = find_row(visit)


def expect(reply: Reply, method: str) -> Reply:
    """A result.

    Raises:
        Stop: it is none.
    """
    if "result" not in reply.json:
        raise Stop("legacy.error", method=method, version=OLDER, evidence=reply.said)
    return reply


def last_event(visit: Visit) -> None:
    """An event id of no stream is refused, if it arrives."""
    asked = {**visit.named(visit.session), **visit.credential, "Accept": "text/event-stream", "Last-Event-ID": "none.1"}
    stream = visit.web.open("GET", asked)
    if stream is None or stream.status != 400:  # noqa: PLR2004 - a stream of changes, which a proxy may keep back
        visit.found("headers.last-event-id")
    if stream is not None:
        stream.close()


def find_row(visit: Visit) -> Session | None:
    """Its row; None where it is not there, or nobody can tell."""
    try:
        newest = Session.objects.filter(server=visit.server.name).order_by("-pk")[:50]
        return next((each for each in newest if each.client.get("name") == visit.name), None)
    except DatabaseError:
        return None
