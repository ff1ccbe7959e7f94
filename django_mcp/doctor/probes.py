"""Checks of ``mcp_doctor`` over the network: reachability, OAuth, CORS, protocol, streams, limits."""

import contextlib
import datetime
import json
import re
import secrets
import ssl
import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from importlib import import_module
from typing import Any
from urllib.parse import urlencode, urljoin, urlsplit

from django.apps import apps
from django.conf import settings as django_settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, REDIRECT_FIELD_NAME, SESSION_KEY
from django.db import Error as DatabaseError
from django.shortcuts import resolve_url
from django.urls import NoReverseMatch, reverse
from django.utils import timezone

from django_mcp.auth.base import authenticators
from django_mcp.auth.oauth import OAuth2Authentication
from django_mcp.auth.protected_resource import canonical, has_metadata
from django_mcp.conf import settings
from django_mcp.doctor.http import OLDER, HTTPResponse, Stream, Visit, place
from django_mcp.doctor.messages import Stop
from django_mcp.models import Session
from django_mcp.protocol import headers
from django_mcp.pubsub.follower import FALLBACK_POLL_SECONDS
from django_mcp.pubsub.notify import is_layer_unavailable, shared_layer
from django_mcp.pubsub.publish import list_changed_method, publish, revocation_topic, server_topic
from django_mcp.revisions.legacy.sessions import end_session

MAX_SECONDS = 30
"""Tolerated difference of two clocks."""
SPARE_BYTES = 2048
"""Difference between the limit and the largest body sent."""
_TOO_LARGE = "The body exceeds"


def clock(visit: Visit) -> str:
    """Compare this machine's time with the Date header and with the time of the worker's session row."""
    before = timezone.now()
    reply = visit.ask("server/discover")
    date = reply.headers.get("date")
    told = []
    if date is not None:
        with contextlib.suppress(ValueError):
            told.append(("the server or its proxy", parsedate_to_datetime(date), before))
    if visit.row is not None:
        told.append(("the worker", visit.row.created, visit.began))
    for whose, theirs, ours in told:
        compare(visit, whose, theirs, ours)
        if visit.findings:
            break
    return f"{' and '.join(whose for whose, *_ in told) or 'no other clock'} agrees with this machine"


def compare(visit: Visit, whose: str, theirs: datetime.datetime, ours: datetime.datetime) -> None:
    """Add a finding if the times differ too much."""
    if theirs.tzinfo is None:
        theirs = theirs.replace(tzinfo=datetime.UTC)
    off = (theirs - ours).total_seconds()
    if abs(off) > MAX_SECONDS:
        way, when = ("ahead", "early") if off > 0 else ("behind", "late")
        visit.found("clock.off", whose=whose, seconds=f"{abs(off):.0f}", way=way, when=when)


def sizes(visit: Visit) -> str:
    """Send a body of almost the maximum size."""
    given, body = visit.compose("server/discover")
    message = json.loads(body)
    size = max(len(body) + 1, settings.MAX_BODY_BYTES - SPARE_BYTES)
    message["params"]["_meta"]["mcp-doctor/padding"] = ""
    message["params"]["_meta"]["mcp-doctor/padding"] = "x" * (size - len(json.dumps(message)))
    try:
        reply = visit.web.send("POST", given, json.dumps(message).encode())
    except Stop as stop:
        if stop.finding_id != "reach.broken":
            raise
        raise Stop("size.broken", sent=size, limit=settings.MAX_BODY_BYTES) from None
    if reply.status == 413:  # noqa: PLR2004
        note(visit, reply, size)
    return f"a body of {size:,} bytes is accepted"


def note(visit: Visit, reply: HTTPResponse, sent: int) -> None:
    """Add a finding that tells whether the endpoint or a proxy rejected the body."""
    limit = settings.MAX_BODY_BYTES
    if _TOO_LARGE in reply.error:
        visit.found("size.endpoint", sent=sent, limit=limit)
    else:
        megabytes = -(-limit // (1024 * 1024))
        visit.found("size.proxy", sent=sent, limit=limit, status=reply.status, megabytes=megabytes)


def connection(visit: Visit) -> str:
    """Send two requests on one connection."""
    given, body = visit.compose("server/discover")
    with contextlib.closing(visit.web.connect(visit.web.parts)) as opened:
        reply = visit.web.on(opened, "POST", given, body)
        if opened.sock is None or "close" in reply.headers.get("connection", "").lower():
            visit.found("connection.closed")
        else:
            visit.web.on(opened, "POST", given, body)
    return "connections are kept open"


FOREIGN = "https://mcp-doctor.invalid"
"""An origin that no site allows."""
_WANTED = "authorization, content-type, mcp-protocol-version, mcp-session-id, mcp-method, last-event-id"


def pages(visit: Visit) -> str:
    """Send a preflight request, and calls from an allowed and a foreign origin."""
    origin = next(iter(settings.ALLOWED_ORIGINS), settings.BASE_URL or visit.web.origin)
    if visit.ask("server/discover", more={"Origin": FOREIGN}).status != 403:  # noqa: PLR2004
        raise Stop("origin.unchecked", origin=FOREIGN)
    preflight(visit, origin)
    reply = visit.ask("server/discover", more={"Origin": origin})
    allowed = reply.headers.get("access-control-allow-origin", "")
    if reply.status == 403 and reply.error:  # noqa: PLR2004
        raise Stop("cors.refused", origin=origin)
    if "," in allowed:
        visit.found("cors.twice", evidence=allowed)
    exposed = reply.headers.get("access-control-expose-headers", "")
    if "mcp-session-id" not in exposed.lower():
        visit.found("cors.exposed", origin=origin, evidence=exposed or "missing")
    return f"pages of {origin} may call, others may not"


def preflight(visit: Visit, origin: str) -> None:
    """Send a CORS preflight request."""
    asked = {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": _WANTED,
    }
    reply = visit.web.send("OPTIONS", asked)
    if reply.status == 403 and reply.error:  # noqa: PLR2004
        raise Stop("cors.refused", origin=origin)
    given = {header.strip().lower() for header in reply.headers.get("access-control-allow-headers", "").split(",")}
    lacking = sorted(set(_WANTED.split(", ")) - given)
    allowed = reply.headers.get("access-control-allow-origin")
    if not 200 <= reply.status < 300 or allowed is None or lacking:  # noqa: PLR2004
        evidence = (
            f"no {', '.join(lacking)} in Access-Control-Allow-Headers" if lacking else "no Access-Control-Allow-Origin"
        )
        raise Stop("cors.preflight", origin=origin, status=reply.status, evidence=evidence)


SOON_DAYS = 14
"""Days before expiry at which a certificate is reported."""
_REDIRECTS = {301, 302, 303, 307, 308}
_PASSWORD = re.compile(r"<input[^>]+type=[\"']?password", re.IGNORECASE)
_LOGIN = re.compile(r"log-?in|sign-?in|/oauth2/start|/saml", re.IGNORECASE)
_UNKNOWN_HOST = re.compile(r"Unknown host '([^']*)'")
_BY_STATUS = {502: "answer.bad-gateway", 504: "answer.gateway-timeout", 503: "answer.unavailable"}


def reach(visit: Visit) -> str:
    """Check DNS, TCP and TLS."""
    web = visit.web
    host, port = place(web.parts)
    began = time.monotonic()
    with contextlib.closing(web.connect(web.parts)) as connection:
        took = (time.monotonic() - began) * 1000
        if isinstance(connection.sock, ssl.SSLSocket) and not web.insecure:
            expires = (connection.sock.getpeercert() or {}).get("notAfter")
            left = (ssl.cert_time_to_seconds(str(expires)) - time.time()) / 86400 if expires else SOON_DAYS
            if left < SOON_DAYS:
                days = int(left)
                words = "less than a day" if days < 1 else "1 day" if days == 1 else f"{days} days"
                visit.found("tls.expiring", host=host, left=words)
        elif isinstance(connection.sock, ssl.SSLSocket):
            visit.found("tls.unverified")
    return f"{host}:{port} accepts connections, in {took:.0f} ms"


def answer(visit: Visit) -> str:
    """Check that an MCP endpoint responds to a POST, rather than a redirect, login page or proxy."""
    reply = visit.ask("server/discover")
    recognise(visit, reply)
    return f"the endpoint returns {reply.status}, in {reply.seconds * 1000:.0f} ms"


def recognise(visit: Visit, reply: HTTPResponse) -> None:
    """Check that the endpoint itself responded and accepted the host."""
    if reply.status in _REDIRECTS:
        raise redirected(visit, reply)
    if reply.status in _BY_STATUS:
        raise Stop(_BY_STATUS[reply.status], evidence=reply.said)
    if unknown := _UNKNOWN_HOST.search(reply.error):
        raise foreign_host(visit, unknown[1])
    if reply.status == 401:  # noqa: PLR2004
        look_at_challenge(visit, reply)
    if "error" not in reply.json and "result" not in reply.json:
        raise somebody_else(visit, reply)


def look_at_challenge(visit: Visit, reply: HTTPResponse) -> None:
    """Check that a 401 asks for a bearer token, as the endpoint's does."""
    challenge = reply.headers.get("www-authenticate", "")
    if challenge and "bearer" not in challenge.lower():
        raise Stop("answer.proxy-auth", status=401, challenge=challenge, path=visit.path)
    if not challenge and "error" in reply.json:
        raise Stop("challenge.missing")


def somebody_else(visit: Visit, reply: HTTPResponse) -> Stop:  # noqa: PLR0911 - a table
    """Return the finding for a response that is not the endpoint's."""
    url, path, status, text = visit.web.url, visit.path, reply.status, reply.text
    if _PASSWORD.search(text):
        return Stop("answer.login", evidence=f"{status}, a page with a password field", path=path)
    match status:
        case 400 if "Bad Request (400)" in text:
            return foreign_host(visit, visit.web.parts.netloc)
        case 403 if "CSRF" in text:
            return Stop("answer.csrf")
        case 404:
            return Stop("answer.not-found", url=url, path=path)
        case 405:
            return Stop("answer.method", url=url, path=path)
    if status >= 500:  # noqa: PLR2004
        return Stop("answer.failed", status=status, evidence=reply.said)
    return Stop("answer.other", status=status, kind=reply.kind, path=path)


def redirected(visit: Visit, reply: HTTPResponse) -> Stop:
    """Return the finding for a redirect."""
    url = visit.web.url
    location = urljoin(url, reply.headers.get("location", ""))
    there, here = urlsplit(location), urlsplit(url)
    if is_login(location):
        return Stop("answer.login", evidence=f"{reply.status} to {location}", path=visit.path)
    values = {"status": reply.status, "location": location, "origin": f"{there.scheme}://{there.netloc}"}
    if (there.scheme, there.hostname) == ("https", here.hostname) and here.scheme == "http":
        return Stop("redirect.https", **values)
    if there.hostname != here.hostname:
        return Stop("redirect.host", **values)
    if there.path.rstrip("/") == here.path.rstrip("/") and there.path != here.path:
        return Stop("redirect.slash", **values)
    return Stop("redirect.elsewhere", **values)


def is_login(location: str) -> bool:
    """Return True if a URL is a login page."""
    parts = urlsplit(location)
    own = ""
    with contextlib.suppress(NoReverseMatch):
        own = urlsplit(resolve_url(django_settings.LOGIN_URL)).path
    return parts.path == own or _LOGIN.search(parts.path) is not None


def foreign_host(visit: Visit, seen: str) -> Stop:
    """Return the finding for a rejected host: the client's, or one set by a proxy."""
    said = visit.web.parts.netloc
    if seen and seen.lower() != said.lower():
        return Stop("host.rewritten", seen=seen, host=said)
    return Stop("host.refused", host=visit.web.parts.hostname or said)


_MISSING = re.compile(r"Missing header ([\w-]+):")
_LOST = {headers.VERSION: "headers.protocol-version", headers.METHOD: "headers.mcp-method"}
_NO_SESSION = 404


def credential(visit: Visit) -> str:
    """Check that the credential is accepted, or whether one is required."""
    reply = visit.ask("tools/list")
    if reply.status == 401:  # noqa: PLR2004
        if visit.key is None:
            visit.found("credential.none")
            return "a credential is required"
        visit.is_open = gets_through(visit, reply)
        return ""
    if reply.status == 403:  # noqa: PLR2004
        raise Stop("credential.scopes", evidence=reply.said)
    visit.is_open = True
    return "no credential is required" if visit.key is None else "the credential is accepted"


def gets_through(visit: Visit, reply: HTTPResponse) -> bool:
    """Distinguish a rejected credential from a lost header; return True if another header works.

    The endpoint's 401 has ``error=`` only if it received a credential.
    """
    if "error=" not in reply.headers.get("www-authenticate", ""):
        visit.found("headers.authorization")
        visit.by_other_header = True
        return visit.ask("tools/list").status != 401  # noqa: PLR2004
    if visit.is_ours:
        raise Stop("deployment.other", evidence="an API key that is valid here is unknown there")
    raise Stop("credential.refused", evidence=reply.said)


def modern(visit: Visit) -> str:
    """Send ``server/discover`` and ``tools/list`` of 2026-07-28."""
    for method in ("server/discover", "tools/list"):
        reply = visit.ask(method)
        if lost := _MISSING.search(reply.error):
            raise Stop(_LOST.get(lost[1].lower(), "modern.error"), method=method, evidence=reply.said)
        if "result" not in reply.json:
            raise Stop("modern.error", method=method, evidence=reply.said)
    number = len(reply.json["result"].get("tools", ()))
    return f"2026-07-28 works; {number} {'tool' if number == 1 else 'tools'} on the first page"


def legacy(visit: Visit) -> str:
    """Initialize a session, and check that its id is passed in both directions."""
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
    return f"{OLDER} works, with a session"


def greet(visit: Visit) -> None:
    """Open a session, and find it in this process's database by its unique client name."""
    client = {"name": visit.name, "version": "1"}
    params = {"protocolVersion": OLDER, "capabilities": {}, "clientInfo": client}
    reply = expect(visit.say("initialize", params), "initialize")
    visit.session = reply.headers.get(headers.SESSION)
    visit.row = find_row(visit)


def expect(reply: HTTPResponse, method: str) -> HTTPResponse:
    """Return the response if it is a result."""
    if "result" not in reply.json:
        raise Stop("legacy.error", method=method, version=OLDER, evidence=reply.said)
    return reply


def last_event(visit: Visit) -> None:
    """Check that an unknown event id is rejected, and so that the header arrives."""
    asked = {**visit.named(visit.session), **visit.credential, "Accept": "text/event-stream", "Last-Event-ID": "none.1"}
    stream = visit.web.open("GET", asked)
    if stream is None or stream.status != 400:  # noqa: PLR2004 - None: a stream was opened, and a proxy buffers it
        visit.found("headers.last-event-id")
    if stream is not None:
        stream.close()


def find_row(visit: Visit) -> Session | None:
    """Return the session's row in this process's database, or None."""
    try:
        newest = Session.objects.filter(server=visit.server.name).order_by("-pk")[:50]
        return next((session for session in newest if session.client.get("name") == visit.name), None)
    except DatabaseError:
        return None


SLOW_SECONDS = 2.0
POLLED = 0.8
"""Part of ``POLL_INTERVAL`` that a notification takes at least, right after the server has polled."""
SOON = 0.1
"""Part of ``POLL_INTERVAL`` below which a notification has surely come through the channel layer."""
SETTLE_SECONDS = 0.5
"""Wait after opening a stream, when the server reads the event log anyway, which would look like a notification."""


def deployment(visit: Visit) -> str:
    """Check that a session opened over HTTP is in this process's database."""
    if visit.session is None and visit.row is None:
        return "unknown, because no session could be opened"
    if visit.row is None:
        raise Stop("deployment.other", evidence="the session it just opened is missing here")
    return "the server uses this process's database"


def bell(visit: Visit) -> str:
    """End this run's session from this process, and measure how soon the server ends its stream.

    Slow results are measured again: a busy server may be slow once. So are those in between: a server that polls seems
    fast if this process is slow. Two of three results decide.
    """
    if visit.session is None or visit.row is None or not visit.holds_streams:
        return "not measured, because there is no stream or session"
    took, polled = ring(visit), POLLED * settings.POLL_INTERVAL
    if shared_layer() is None or is_layer_unavailable():  # which has a check of its own
        return f"a stream received an event of this process after {took * 1000:.0f} ms, by polling"
    slow = int(took >= polled)
    for _ in range(2):
        if took < SOON * settings.POLL_INTERVAL or slow > 1:
            break
        greet(visit)
        took = ring(visit)
        slow += took >= polled
    if slow > 1:
        visit.found("bell.slow", seconds=f"{took:.1f}")
    return f"a stream received an event of this process after {took * 1000:.0f} ms"


def ring(visit: Visit) -> float:
    """Open the session's stream, end the session, and return the seconds until the stream ends.

    The session ends when the stream has just received another event. A server that polls has polled then, so its next
    look is a whole interval away; through a channel layer both arrive in milliseconds.
    """
    assert visit.row is not None  # noqa: S101
    server, caller = visit.server, revocation_topic(visit.row.principal_kind, visit.row.principal_id)
    asked = {**visit.named(visit.session), **visit.credential, "Accept": "text/event-stream"}
    stream = visit.web.open("GET", asked)
    if stream is None or stream.status != 200:  # noqa: PLR2004
        raise Stop("streams.error", evidence="nothing" if stream is None else f"{stream.status} to a GET")
    try:
        stream.line(SLOW_SECONDS)
        time.sleep(SETTLE_SECONDS)
        began, within = time.monotonic(), FALLBACK_POLL_SECONDS + SLOW_SECONDS
        # For the streams of this run's caller alone. Those of other clients with its credential list the tools again.
        message = {"method": list_changed_method("tools"), "params": {}, "for": [caller]}
        publish([(server_topic(server), message)])
        while (line := stream.line(max(0.0, began + within - time.monotonic()))) and "list_changed" not in line:
            pass
        if line:
            began = time.monotonic()
        end_session(visit.row)
        visit.session = visit.row = None
        while line and (line := stream.line(max(0.0, began + within - time.monotonic()))):
            pass
    finally:
        stream.close()
    took = time.monotonic() - began
    if line is None:
        raise Stop("bell.unheard", seconds=f"{took:.0f}")
    return took


FIRST_SECONDS = 3.0
"""Limit for the first event, which the endpoint sends immediately."""
SLACK_SECONDS = 3.0
_NO_STREAMS = "needs an ASGI server"
_HELD = ("no-store", "no-cache")


def streams(visit: Visit) -> str:
    """Open ``subscriptions/listen``, and check that its first event arrives promptly. The stream stays open."""
    stream = open_one(visit, {"Accept-Encoding": "gzip, deflate, br, zstd"})
    encoding = stream.headers.get("content-encoding", "identity")
    if encoding != "identity":
        visit.found("streams.compressed", encoding=encoding)
        stream.close()
        stream = open_one(visit, {})
    if "text/event-stream" not in stream.headers.get("content-type", ""):
        said = stream.rest().decode("utf-8", "replace")
        stream.close()
        if _NO_STREAMS in said:
            visit.found("streams.wsgi")
            return ""
        raise Stop("streams.error", evidence=f"{stream.status} {' '.join(said.split())[:200]}")
    visit.listening = stream
    cacheable = stream.headers.get("cache-control", "missing")
    if not any(word in cacheable for word in _HELD):
        visit.found("streams.cacheable", value=cacheable)
    began = time.monotonic()
    if not stream.line(FIRST_SECONDS):
        lose(visit)
        raise Stop("streams.buffered", seconds=f"{FIRST_SECONDS:g}")
    visit.holds_streams = True
    return f"the first event arrived after {(time.monotonic() - began) * 1000:.0f} ms"


def open_one(visit: Visit, more: dict[str, str]) -> Stream:
    """Open a stream."""
    given, body = visit.compose("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    timeout, visit.web.timeout = visit.web.timeout, FIRST_SECONDS
    try:
        stream = visit.web.open("POST", {**given, **more}, body)
    finally:
        visit.web.timeout = timeout
    if stream is None:
        raise Stop("streams.buffered", seconds=f"{FIRST_SECONDS:g}")
    return stream


def idle(visit: Visit) -> str:
    """Check that the open stream is not closed, and wait for its next keep-alive."""
    stream = visit.listening
    if stream is None:
        return "not measured, because there is no stream"
    within = settings.KEEP_ALIVE_INTERVAL + SLACK_SECONDS
    deadline = stream.opened + within
    while (line := stream.line(max(SLACK_SECONDS, deadline - time.monotonic()))) is not None:
        after = time.monotonic() - stream.opened
        if not line:
            lose(visit)
            raise Stop("streams.cut", seconds=f"{after:.0f}")
        if line.startswith(":"):
            return f"a keep-alive arrived after {after:.0f} s"
    lose(visit)
    raise Stop("streams.silent", seconds=f"{within:.0f}", every=f"{settings.KEEP_ALIVE_INTERVAL:g}")


def lose(visit: Visit) -> None:
    """Close the stream."""
    if visit.listening is not None:
        visit.listening.close()
        visit.listening = None


_METADATA = re.compile(r'resource_metadata="([^"]+)"')
THIS_MACHINE = {"localhost", "127.0.0.1", "::1"}
_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "registration_endpoint")


def challenge(visit: Visit) -> str:
    """Check that a call without credential is directed to the authorization server."""
    key, visit.key = visit.key, None
    try:
        reply = visit.ask("tools/list")
    finally:
        visit.key = key
    if reply.status != 401:  # noqa: PLR2004
        return "no login is required"
    told = reply.headers.get("www-authenticate")
    if told is None:
        raise Stop("challenge.missing")
    found = _METADATA.search(told)
    if found is None:
        if has_metadata(visit.server):
            raise Stop("challenge.no-metadata", challenge=told)
        return "callers need an API key; OAuth is not configured"
    return resource(visit, found[1])


def resource(visit: Visit, url: str) -> str:
    """Check the protected resource metadata."""
    parts = urlsplit(url)
    theirs = f"{parts.scheme}://{parts.netloc}"
    if not is_same(theirs, visit.web.origin):
        raise Stop("challenge.origin", theirs=theirs, ours=visit.web.origin)
    document = fetch(visit, url)
    if not is_same(str(document.get("resource")), visit.web.url):
        visit.found("metadata.resource", theirs=document.get("resource"), ours=visit.web.url)
    named = document.get("authorization_servers") or ()
    if not named:
        raise Stop("metadata.no-issuer")
    for address in named:
        issuer(visit, str(address))
    return f"a 401 leads to {' and '.join(map(str, named))}"


def is_same(one: str, other: str) -> bool:
    """Return True if two URLs are equivalent."""
    try:
        return canonical(one) == canonical(other)
    except ValueError:
        return False


def fetch(visit: Visit, url: str) -> dict[str, Any]:
    """Return a JSON document."""
    reply = visit.web.send("GET", {"Accept": "application/json"}, url=url)
    if reply.status != 200:  # noqa: PLR2004
        raise Stop("metadata.not-found", url=url, status=reply.status)
    if not reply.json:
        raise Stop("metadata.broken", url=url)
    return reply.json


def places(issuer: str) -> list[str]:
    """Return the metadata URLs of an authorization server in the order of clients (2026-07-28, Authorization)."""
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    inserted = [f"{origin}/.well-known/{kind}{path}" for kind in ("oauth-authorization-server", "openid-configuration")]
    return [*inserted, f"{origin}{path}/.well-known/openid-configuration"] if path else inserted


def issuer(visit: Visit, name: str) -> None:
    """Check the metadata of an authorization server."""
    tried = []
    document: dict[str, Any] = {}
    for url in places(name):
        try:
            document = fetch(visit, url)
            break
        except Stop as stop:
            tried.append(f"{url}: {stop.values.get('status') or stop.finding_id}")
    else:
        visit.found("issuer.not-found", issuer=name, evidence="; ".join(tried))
        return
    if document.get("issuer") != name:
        visit.found("issuer.mismatch", issuer=name, theirs=document.get("issuer"))
    if "S256" not in (document.get("code_challenge_methods_supported") or ()):
        visit.found("issuer.no-s256", issuer=name)
    for endpoint in _ENDPOINTS:
        parts = urlsplit(str(document.get(endpoint) or ""))
        if parts.scheme == "http" and parts.hostname not in THIS_MACHINE:
            visit.found("issuer.http", name=endpoint, issuer=name, url=document[endpoint])


def login(visit: Visit) -> str:
    """Check that the login page sends a user who is signed in on to the consent page, with a session of ``--as``."""
    if not _takes_own_tokens(visit):
        return "not used, because the endpoint takes no tokens of this site"
    if visit.user is None:
        return "not checked: pass --as USERNAME"
    if not apps.is_installed("django.contrib.sessions"):
        return "not checked, because the site has no sessions of Django"
    try:
        consent = reverse("oauth2_provider:authorize")
        page = urljoin(visit.web.url, resolve_url(django_settings.LOGIN_URL))
    except NoReverseMatch:  # system checks report both
        return "not checked, because the site has no login page or no authorization page"
    asked = f"{consent}?{urlencode({'client_id': visit.name})}"
    with _session(visit.user) as key:
        cookie = {"Cookie": f"{django_settings.SESSION_COOKIE_NAME}={key}", "Accept": "text/html"}
        separator = "&" if urlsplit(page).query else "?"
        reply = visit.web.send("GET", cookie, url=f"{page}{separator}{urlencode({REDIRECT_FIELD_NAME: asked})}")
    location = urljoin(page, reply.headers.get("location", ""))
    if reply.status not in _REDIRECTS or urlsplit(location).path == urlsplit(page).path:
        return "the login page does not redirect users who are signed in, so what becomes of `next` is unknown"
    if urlsplit(location).path.rstrip("/") != consent.rstrip("/"):
        visit.found("login.next", login=page, location=location, next=consent)
    return "the login page leads to the consent page"


@contextlib.contextmanager
def _session(user: Any) -> Iterator[str]:
    """Return the key of a session in which a user is signed in, for the time of the block."""
    session = import_module(django_settings.SESSION_ENGINE).SessionStore()
    session[SESSION_KEY] = user._meta.pk.value_to_string(user)  # noqa: SLF001 - as login() does
    session[BACKEND_SESSION_KEY] = django_settings.AUTHENTICATION_BACKENDS[0]
    session[HASH_SESSION_KEY] = user.get_session_auth_hash() if hasattr(user, "get_session_auth_hash") else ""
    session.set_expiry(60)
    session.save()
    try:
        yield session.session_key
    finally:
        session.delete()


def _takes_own_tokens(visit: Visit) -> bool:
    return apps.is_installed("oauth2_provider") and any(
        isinstance(authenticator, OAuth2Authentication) for authenticator in authenticators(visit.server)
    )


DOCUMENT = "https://claude.ai/oauth/claude-code-client-metadata"
"""The document of Claude Code."""


def documents(visit: Visit) -> str:
    """Fetch a metadata document of a widespread client, as this site does when a user signs in there."""
    if not _takes_own_tokens(visit):
        return "not used, because the endpoint takes no tokens of this site"
    from django_mcp.auth.toolkit import CIMDError, oauth2_settings  # noqa: PLC0415 - only with an authorization server

    if not (settings.CLIENT_DOCUMENTS and oauth2_settings.CIMD_ENABLED):
        return "disabled"
    try:
        oauth2_settings.CIMD_METADATA_FETCHER().fetch(DOCUMENT)
    except CIMDError as error:
        raise Stop("documents.unreachable", url=DOCUMENT, why=error) from None
    return f"{urlsplit(DOCUMENT).hostname} can be reached"
