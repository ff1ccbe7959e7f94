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
from typing import Any
from urllib.parse import urlencode, urljoin, urlsplit

from django.apps import apps
from django.conf import settings as django_settings
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.db import Error as DatabaseError
from django.shortcuts import resolve_url
from django.urls import NoReverseMatch, reverse
from django.utils import timezone

from django_mcp.auth.base import authenticators
from django_mcp.auth.oauth import OAuth2Authentication
from django_mcp.auth.protected_resource import canonical, has_metadata
from django_mcp.auth.session import sign_in
from django_mcp.conf import settings
from django_mcp.doctor.http import OLDER, Diagnosis, HTTPResponse, Stream, host_and_port
from django_mcp.doctor.messages import CheckFailed
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


def clock(diagnosis: Diagnosis) -> str:
    """Compare this machine's time with the Date header and with the time of the worker's session row."""
    before = timezone.now()
    reply = diagnosis.modern_request("server/discover")
    date = reply.headers.get("date")
    clocks = []
    if date is not None:
        with contextlib.suppress(ValueError):
            clocks.append(("the server or its proxy", parsedate_to_datetime(date), before))
    if diagnosis.row is not None:
        clocks.append(("the worker", diagnosis.row.created, diagnosis.started_at))
    for whose, theirs, ours in clocks:
        compare_clocks(diagnosis, whose, theirs, ours)
        if diagnosis.findings:
            break
    return f"{' and '.join(whose for whose, *_ in clocks) or 'no other clock'} agrees with this machine"


def compare_clocks(diagnosis: Diagnosis, whose: str, theirs: datetime.datetime, ours: datetime.datetime) -> None:
    if theirs.tzinfo is None:
        theirs = theirs.replace(tzinfo=datetime.UTC)
    off = (theirs - ours).total_seconds()
    if abs(off) > MAX_SECONDS:
        way, when = ("ahead", "early") if off > 0 else ("behind", "late")
        diagnosis.add_finding("clock.off", whose=whose, seconds=f"{abs(off):.0f}", way=way, when=when)


def sizes(diagnosis: Diagnosis) -> str:
    """Send a body of almost the maximum size."""
    given, body = diagnosis.compose_modern("server/discover")
    message = json.loads(body)
    size = max(len(body) + 1, settings.MAX_BODY_BYTES - SPARE_BYTES)
    message["params"]["_meta"]["mcp-doctor/padding"] = ""
    message["params"]["_meta"]["mcp-doctor/padding"] = "x" * (size - len(json.dumps(message)))
    try:
        reply = diagnosis.client.send("POST", given, json.dumps(message).encode())
    except CheckFailed as failure:
        if failure.finding_id != "reach.broken":
            raise
        raise CheckFailed("size.broken", sent=size, limit=settings.MAX_BODY_BYTES) from None
    if reply.status == 413:  # noqa: PLR2004
        add_size_finding(diagnosis, reply, size)
    return f"a body of {size:,} bytes is accepted"


def add_size_finding(diagnosis: Diagnosis, reply: HTTPResponse, sent: int) -> None:
    """Add a finding that tells whether the endpoint or a proxy rejected the body."""
    limit = settings.MAX_BODY_BYTES
    if _TOO_LARGE in reply.error:
        diagnosis.add_finding("size.endpoint", sent=sent, limit=limit)
    else:
        megabytes = -(-limit // (1024 * 1024))
        diagnosis.add_finding("size.proxy", sent=sent, limit=limit, status=reply.status, megabytes=megabytes)


def connection(diagnosis: Diagnosis) -> str:
    """Send two requests on one connection."""
    given, body = diagnosis.compose_modern("server/discover")
    with contextlib.closing(diagnosis.client.connect(diagnosis.client.parts)) as opened:
        reply = diagnosis.client.send_on(opened, "POST", given, body)
        if opened.sock is None or "close" in reply.headers.get("connection", "").lower():
            diagnosis.add_finding("connection.closed")
        else:
            diagnosis.client.send_on(opened, "POST", given, body)
    return "connections are kept open"


FOREIGN = "https://mcp-doctor.invalid"
"""An origin that no site allows."""
_WANTED = "authorization, content-type, mcp-protocol-version, mcp-session-id, mcp-method, last-event-id"


def pages(diagnosis: Diagnosis) -> str:
    """Send a preflight request, and calls from an allowed and a foreign origin."""
    origin = next(iter(settings.ALLOWED_ORIGINS), settings.BASE_URL or diagnosis.client.origin)
    if diagnosis.modern_request("server/discover", more={"Origin": FOREIGN}).status != 403:  # noqa: PLR2004
        raise CheckFailed("origin.unchecked", origin=FOREIGN)
    preflight(diagnosis, origin)
    reply = diagnosis.modern_request("server/discover", more={"Origin": origin})
    allowed = reply.headers.get("access-control-allow-origin", "")
    if reply.status == 403 and reply.error:  # noqa: PLR2004
        raise CheckFailed("cors.refused", origin=origin)
    if "," in allowed:
        diagnosis.add_finding("cors.twice", evidence=allowed)
    exposed = reply.headers.get("access-control-expose-headers", "")
    if "mcp-session-id" not in exposed.lower():
        diagnosis.add_finding("cors.exposed", origin=origin, evidence=exposed or "missing")
    return f"pages of {origin} may call, others may not"


def preflight(diagnosis: Diagnosis, origin: str) -> None:
    asked = {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": _WANTED,
    }
    reply = diagnosis.client.send("OPTIONS", asked)
    if reply.status == 403 and reply.error:  # noqa: PLR2004
        raise CheckFailed("cors.refused", origin=origin)
    given = {header.strip().lower() for header in reply.headers.get("access-control-allow-headers", "").split(",")}
    lacking = sorted(set(_WANTED.split(", ")) - given)
    allowed = reply.headers.get("access-control-allow-origin")
    if not 200 <= reply.status < 300 or allowed is None or lacking:  # noqa: PLR2004
        evidence = (
            f"no {', '.join(lacking)} in Access-Control-Allow-Headers" if lacking else "no Access-Control-Allow-Origin"
        )
        raise CheckFailed("cors.preflight", origin=origin, status=reply.status, evidence=evidence)


SOON_DAYS = 14
"""Days before expiry at which a certificate is reported."""
_REDIRECTS = {301, 302, 303, 307, 308}
_PASSWORD = re.compile(r"<input[^<>]+type=[\"']?password", re.IGNORECASE)
_LOGIN = re.compile(r"log-?in|sign-?in|/oauth2/start|/saml", re.IGNORECASE)
_UNKNOWN_HOST = re.compile(r"Unknown host '([^']*)'")
_BY_STATUS = {502: "answer.bad-gateway", 504: "answer.gateway-timeout", 503: "answer.unavailable"}


def reach(diagnosis: Diagnosis) -> str:
    """Check DNS, TCP and TLS."""
    client = diagnosis.client
    host, port = host_and_port(client.parts)
    began = time.monotonic()
    with contextlib.closing(client.connect(client.parts)) as connection:
        took = (time.monotonic() - began) * 1000
        if isinstance(connection.sock, ssl.SSLSocket) and not client.insecure:
            expires = (connection.sock.getpeercert() or {}).get("notAfter")
            left = (ssl.cert_time_to_seconds(str(expires)) - time.time()) / 86400 if expires else SOON_DAYS
            if left < SOON_DAYS:
                days = int(left)
                words = "less than a day" if days < 1 else "1 day" if days == 1 else f"{days} days"
                diagnosis.add_finding("tls.expiring", host=host, left=words)
        elif isinstance(connection.sock, ssl.SSLSocket):
            diagnosis.add_finding("tls.unverified")
    return f"{host}:{port} accepts connections, in {took:.0f} ms"


def answer(diagnosis: Diagnosis) -> str:
    """Check that an MCP endpoint responds to a POST, rather than a redirect, login page or proxy."""
    reply = diagnosis.modern_request("server/discover")
    check_response(diagnosis, reply)
    return f"the endpoint returns {reply.status}, in {reply.seconds * 1000:.0f} ms"


def check_response(diagnosis: Diagnosis, reply: HTTPResponse) -> None:
    """Check that the endpoint itself responded and accepted the host."""
    if reply.status in _REDIRECTS:
        raise redirect_failure(diagnosis, reply)
    if reply.status in _BY_STATUS:
        raise CheckFailed(_BY_STATUS[reply.status], evidence=reply.summary)
    if unknown := _UNKNOWN_HOST.search(reply.error):
        raise host_failure(diagnosis, unknown[1])
    if reply.status == 401:  # noqa: PLR2004
        check_challenge(diagnosis, reply)
    if "error" not in reply.json and "result" not in reply.json:
        raise wrong_server_failure(diagnosis, reply)


def check_challenge(diagnosis: Diagnosis, reply: HTTPResponse) -> None:
    """Check that a 401 asks for a bearer token, as the endpoint's does."""
    challenge = reply.headers.get("www-authenticate", "")
    if challenge and "bearer" not in challenge.lower():
        raise CheckFailed("answer.proxy-auth", status=401, challenge=challenge, path=diagnosis.path)
    if not challenge and "error" in reply.json:
        raise CheckFailed("challenge.missing")


def wrong_server_failure(diagnosis: Diagnosis, reply: HTTPResponse) -> CheckFailed:  # noqa: PLR0911 - a table
    url, path, status, text = diagnosis.client.url, diagnosis.path, reply.status, reply.text
    if _PASSWORD.search(text):
        return CheckFailed("answer.login", evidence=f"{status}, a page with a password field", path=path)
    match status:
        case 400 if "Bad Request (400)" in text:
            return host_failure(diagnosis, diagnosis.client.parts.netloc)
        case 403 if "CSRF" in text:
            return CheckFailed("answer.csrf")
        case 404:
            return CheckFailed("answer.not-found", url=url, path=path)
        case 405:
            return CheckFailed("answer.method", url=url, path=path)
    if status >= 500:  # noqa: PLR2004
        return CheckFailed("answer.failed", status=status, evidence=reply.summary)
    return CheckFailed("answer.other", status=status, kind=reply.media_type, path=path)


def redirect_failure(diagnosis: Diagnosis, reply: HTTPResponse) -> CheckFailed:
    url = diagnosis.client.url
    location = urljoin(url, reply.headers.get("location", ""))
    there, here = urlsplit(location), urlsplit(url)
    if is_login(location):
        return CheckFailed("answer.login", evidence=f"{reply.status} to {location}", path=diagnosis.path)
    values = {"status": reply.status, "location": location, "origin": f"{there.scheme}://{there.netloc}"}
    if (there.scheme, there.hostname) == ("https", here.hostname) and here.scheme == "http":
        return CheckFailed("redirect.https", **values)
    if there.hostname != here.hostname:
        return CheckFailed("redirect.host", **values)
    if there.path.rstrip("/") == here.path.rstrip("/") and there.path != here.path:
        return CheckFailed("redirect.slash", **values)
    return CheckFailed("redirect.elsewhere", **values)


def is_login(location: str) -> bool:
    parts = urlsplit(location)
    own = ""
    with contextlib.suppress(NoReverseMatch):
        own = urlsplit(resolve_url(django_settings.LOGIN_URL)).path
    return parts.path == own or _LOGIN.search(parts.path) is not None


def host_failure(diagnosis: Diagnosis, seen: str) -> CheckFailed:
    """Return the finding for a rejected host: the client's, or one set by a proxy."""
    sent = diagnosis.client.parts.netloc
    if seen and seen.lower() != sent.lower():
        return CheckFailed("host.rewritten", seen=seen, host=sent)
    return CheckFailed("host.refused", host=diagnosis.client.parts.hostname or sent)


_MISSING = re.compile(r"Missing header ([\w-]+):")
_LOST = {headers.VERSION: "headers.protocol-version", headers.METHOD: "headers.mcp-method"}
_NO_SESSION = 404


def credential(diagnosis: Diagnosis) -> str:
    """Check that the credential is accepted, or whether one is required."""
    reply = diagnosis.modern_request("tools/list")
    if reply.status == 401:  # noqa: PLR2004
        if diagnosis.key is None:
            diagnosis.add_finding("credential.none")
            return "a credential is required"
        diagnosis.may_call = try_other_header(diagnosis, reply)
        return ""
    if reply.status == 403:  # noqa: PLR2004
        raise CheckFailed("credential.scopes", evidence=reply.summary)
    diagnosis.may_call = True
    return "no credential is required" if diagnosis.key is None else "the credential is accepted"


def try_other_header(diagnosis: Diagnosis, reply: HTTPResponse) -> bool:
    """Distinguish a rejected credential from a lost header; return True if another header works.

    The endpoint's 401 has ``error=`` only if it received a credential.
    """
    if "error=" not in reply.headers.get("www-authenticate", ""):
        diagnosis.add_finding("headers.authorization")
        diagnosis.uses_api_key_header = True
        return diagnosis.modern_request("tools/list").status != 401  # noqa: PLR2004
    if diagnosis.is_ours:
        raise CheckFailed("deployment.other", evidence="an API key that is valid here is unknown there")
    raise CheckFailed("credential.refused", evidence=reply.summary)


def modern(diagnosis: Diagnosis) -> str:
    """Send ``server/discover`` and ``tools/list`` of 2026-07-28."""
    for method in ("server/discover", "tools/list"):
        reply = diagnosis.modern_request(method)
        if lost := _MISSING.search(reply.error):
            raise CheckFailed(_LOST.get(lost[1].lower(), "modern.error"), method=method, evidence=reply.summary)
        if "result" not in reply.json:
            raise CheckFailed("modern.error", method=method, evidence=reply.summary)
    number = len(reply.json["result"].get("tools", ()))
    return f"2026-07-28 works; {number} {'tool' if number == 1 else 'tools'} on the first page"


def legacy(diagnosis: Diagnosis) -> str:
    """Initialize a session, and check that its id is passed in both directions."""
    open_session(diagnosis)
    if diagnosis.session is None:
        diagnosis.add_finding("headers.session-answer" if diagnosis.row is not None else "session.none")
        return ""
    accepted = diagnosis.legacy_request("notifications/initialized", session=diagnosis.session, silent=True)
    listed = diagnosis.legacy_request("tools/list", session=diagnosis.session)
    if _NO_SESSION in {accepted.status, listed.status}:
        diagnosis.session = None
        raise CheckFailed("session.lost")
    expect_result(listed, "tools/list")
    if diagnosis.legacy_request("tools/list", session=secrets.token_urlsafe(32)).status != _NO_SESSION:
        diagnosis.add_finding("headers.session-request")
    else:
        last_event(diagnosis)
    return f"{OLDER} works, with a session"


def open_session(diagnosis: Diagnosis) -> None:
    """Open a session, and find it in this process's database by its unique client name."""
    client = {"name": diagnosis.name, "version": "1"}
    params = {"protocolVersion": OLDER, "capabilities": {}, "clientInfo": client}
    reply = expect_result(diagnosis.legacy_request("initialize", params), "initialize")
    diagnosis.session = reply.headers.get(headers.SESSION)
    diagnosis.row = find_row(diagnosis)


def expect_result(reply: HTTPResponse, method: str) -> HTTPResponse:
    if "result" not in reply.json:
        raise CheckFailed("legacy.error", method=method, version=OLDER, evidence=reply.summary)
    return reply


def last_event(diagnosis: Diagnosis) -> None:
    """Check that an unknown event id is rejected, and so that the header arrives."""
    asked = {
        **diagnosis.session_headers(diagnosis.session),
        **diagnosis.credential,
        "Accept": "text/event-stream",
        "Last-Event-ID": "none.1",
    }
    stream = diagnosis.client.open("GET", asked)
    if stream is None or stream.status != 400:  # noqa: PLR2004 - None: a stream was opened, and a proxy buffers it
        diagnosis.add_finding("headers.last-event-id")
    if stream is not None:
        stream.close()


def find_row(diagnosis: Diagnosis) -> Session | None:
    try:
        newest = Session.objects.filter(server=diagnosis.server.name).order_by("-pk")[:50]
        return next((session for session in newest if session.client.get("name") == diagnosis.name), None)
    except DatabaseError:
        return None


SLOW_SECONDS = 2.0
POLLED = 0.8
"""Part of ``POLL_INTERVAL`` that a notification takes at least, right after the server has polled."""
SOON = 0.1
"""Part of ``POLL_INTERVAL`` below which a notification has surely come through the channel layer."""
SETTLE_SECONDS = 0.5
"""Wait after opening a stream, when the server reads the event log anyway, which would look like a notification."""


def deployment(diagnosis: Diagnosis) -> str:
    """Check that a session opened over HTTP is in this process's database."""
    if diagnosis.session is None and diagnosis.row is None:
        return "unknown, because no session could be opened"
    if diagnosis.row is None:
        raise CheckFailed("deployment.other", evidence="the session it just opened is missing here")
    return "the server uses this process's database"


def notifications(diagnosis: Diagnosis) -> str:
    """End this run's session from this process, and measure how soon the server ends its stream.

    Slow results are measured again: a busy server may be slow once. So are those in between: a server that polls seems
    fast if this process is slow. Two of three results decide.
    """
    if diagnosis.session is None or diagnosis.row is None or not diagnosis.has_stream:
        return "not measured, because there is no stream or session"
    took, polled = measure_notification(diagnosis), POLLED * settings.POLL_INTERVAL
    if shared_layer() is None or is_layer_unavailable():  # which has a check of its own
        return f"a stream received an event of this process after {took * 1000:.0f} ms, by polling"
    slow = int(took >= polled)
    for _ in range(2):
        if took < SOON * settings.POLL_INTERVAL or slow > 1:
            break
        open_session(diagnosis)
        took = measure_notification(diagnosis)
        slow += took >= polled
    if slow > 1:
        diagnosis.add_finding("notifications.slow", seconds=f"{took:.1f}")
    return f"a stream received an event of this process after {took * 1000:.0f} ms"


def measure_notification(diagnosis: Diagnosis) -> float:
    """Open the session's stream, end the session, and return the seconds until the stream ends.

    The session ends when the stream has just received another event. A server that polls has polled then, so its next
    look is a whole interval away; through a channel layer both arrive in milliseconds.
    """
    assert diagnosis.row is not None  # noqa: S101
    server, caller = diagnosis.server, revocation_topic(diagnosis.row.principal_kind, diagnosis.row.principal_id)
    asked = {**diagnosis.session_headers(diagnosis.session), **diagnosis.credential, "Accept": "text/event-stream"}
    stream = diagnosis.client.open("GET", asked)
    if stream is None or stream.status != 200:  # noqa: PLR2004
        raise CheckFailed("streams.error", evidence="nothing" if stream is None else f"{stream.status} to a GET")
    try:
        stream.read_line(SLOW_SECONDS)
        time.sleep(SETTLE_SECONDS)
        began, within = time.monotonic(), FALLBACK_POLL_SECONDS + SLOW_SECONDS
        # For the streams of this run's caller alone. Those of other clients with its credential list the tools again.
        message = {"method": list_changed_method("tools"), "params": {}, "for": [caller]}
        publish([(server_topic(server), message)])
        while (line := stream.read_line(max(0.0, began + within - time.monotonic()))) and "list_changed" not in line:
            pass
        if line:
            began = time.monotonic()
        end_session(diagnosis.row)
        diagnosis.session = diagnosis.row = None
        while line and (line := stream.read_line(max(0.0, began + within - time.monotonic()))):
            pass
    finally:
        stream.close()
    took = time.monotonic() - began
    if line is None:
        raise CheckFailed("notifications.unheard", seconds=f"{took:.0f}")
    return took


FIRST_SECONDS = 3.0
"""Limit for the first event, which the endpoint sends immediately."""
SLACK_SECONDS = 3.0
_NO_STREAMS = "needs an ASGI server"
_HELD = ("no-store", "no-cache")


def streams(diagnosis: Diagnosis) -> str:
    """Open ``subscriptions/listen``, and check that its first event arrives promptly. The stream stays open."""
    stream = open_listen_stream(diagnosis, {"Accept-Encoding": "gzip, deflate, br, zstd"})
    encoding = stream.headers.get("content-encoding", "identity")
    if encoding != "identity":
        diagnosis.add_finding("streams.compressed", encoding=encoding)
        stream.close()
        stream = open_listen_stream(diagnosis, {})
    if "text/event-stream" not in stream.headers.get("content-type", ""):
        text = stream.read_rest().decode("utf-8", "replace")
        stream.close()
        if _NO_STREAMS in text:
            diagnosis.add_finding("streams.wsgi")
            return ""
        raise CheckFailed("streams.error", evidence=f"{stream.status} {' '.join(text.split())[:200]}")
    diagnosis.stream = stream
    cacheable = stream.headers.get("cache-control", "missing")
    if not any(word in cacheable for word in _HELD):
        diagnosis.add_finding("streams.cacheable", value=cacheable)
    began = time.monotonic()
    if not stream.read_line(FIRST_SECONDS):
        close_stream(diagnosis)
        raise CheckFailed("streams.buffered", seconds=f"{FIRST_SECONDS:g}")
    diagnosis.has_stream = True
    return f"the first event arrived after {(time.monotonic() - began) * 1000:.0f} ms"


def open_listen_stream(diagnosis: Diagnosis, more: dict[str, str]) -> Stream:
    given, body = diagnosis.compose_modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    timeout, diagnosis.client.timeout = diagnosis.client.timeout, FIRST_SECONDS
    try:
        stream = diagnosis.client.open("POST", {**given, **more}, body)
    finally:
        diagnosis.client.timeout = timeout
    if stream is None:
        raise CheckFailed("streams.buffered", seconds=f"{FIRST_SECONDS:g}")
    return stream


def idle(diagnosis: Diagnosis) -> str:
    """Check that the open stream is not closed, and wait for its next keep-alive."""
    stream = diagnosis.stream
    if stream is None:
        return "not measured, because there is no stream"
    within = settings.KEEP_ALIVE_INTERVAL + SLACK_SECONDS
    deadline = stream.opened + within
    while (line := stream.read_line(max(SLACK_SECONDS, deadline - time.monotonic()))) is not None:
        after = time.monotonic() - stream.opened
        if not line:
            close_stream(diagnosis)
            raise CheckFailed("streams.cut", seconds=f"{after:.0f}")
        if line.startswith(":"):
            return f"a keep-alive arrived after {after:.0f} s"
    close_stream(diagnosis)
    raise CheckFailed("streams.silent", seconds=f"{within:.0f}", every=f"{settings.KEEP_ALIVE_INTERVAL:g}")


def close_stream(diagnosis: Diagnosis) -> None:
    if diagnosis.stream is not None:
        diagnosis.stream.close()
        diagnosis.stream = None


_METADATA = re.compile(r'resource_metadata="([^"]+)"')
THIS_MACHINE = {"localhost", "127.0.0.1", "::1"}
_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "registration_endpoint")


def challenge(diagnosis: Diagnosis) -> str:
    """Check that a call without credential is directed to the authorization server."""
    key, diagnosis.key = diagnosis.key, None
    try:
        reply = diagnosis.modern_request("tools/list")
    finally:
        diagnosis.key = key
    if reply.status != 401:  # noqa: PLR2004
        return "no login is required"
    header = reply.headers.get("www-authenticate")
    if header is None:
        raise CheckFailed("challenge.missing")
    found = _METADATA.search(header)
    if found is None:
        if has_metadata(diagnosis.server):
            raise CheckFailed("challenge.no-metadata", challenge=header)
        return "callers need an API key; OAuth is not configured"
    return resource(diagnosis, found[1])


def resource(diagnosis: Diagnosis, url: str) -> str:
    """Check the protected resource metadata."""
    parts = urlsplit(url)
    theirs = f"{parts.scheme}://{parts.netloc}"
    if not is_same(theirs, diagnosis.client.origin):
        raise CheckFailed("challenge.origin", theirs=theirs, ours=diagnosis.client.origin)
    document = fetch(diagnosis, url)
    if not is_same(str(document.get("resource")), diagnosis.client.url):
        diagnosis.add_finding("metadata.resource", theirs=document.get("resource"), ours=diagnosis.client.url)
    named = document.get("authorization_servers") or ()
    if not named:
        raise CheckFailed("metadata.no-issuer")
    for address in named:
        issuer(diagnosis, str(address))
    return f"a 401 leads to {' and '.join(map(str, named))}"


def is_same(one: str, other: str) -> bool:
    try:
        return canonical(one) == canonical(other)
    except ValueError:
        return False


def fetch(diagnosis: Diagnosis, url: str) -> dict[str, Any]:
    reply = diagnosis.client.send("GET", {"Accept": "application/json"}, url=url)
    if reply.status != 200:  # noqa: PLR2004
        raise CheckFailed("metadata.not-found", url=url, status=reply.status)
    if not reply.json:
        raise CheckFailed("metadata.broken", url=url)
    return reply.json


def places(issuer: str) -> list[str]:
    """Return the metadata URLs of an authorization server in the order of clients (2026-07-28, Authorization)."""
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    inserted = [f"{origin}/.well-known/{kind}{path}" for kind in ("oauth-authorization-server", "openid-configuration")]
    return [*inserted, f"{origin}{path}/.well-known/openid-configuration"] if path else inserted


def issuer(diagnosis: Diagnosis, name: str) -> None:
    tried = []
    document: dict[str, Any] = {}
    for url in places(name):
        try:
            document = fetch(diagnosis, url)
            break
        except CheckFailed as failure:
            tried.append(f"{url}: {failure.values.get('status') or failure.finding_id}")
    else:
        diagnosis.add_finding("issuer.not-found", issuer=name, evidence="; ".join(tried))
        return
    if document.get("issuer") != name:
        diagnosis.add_finding("issuer.mismatch", issuer=name, theirs=document.get("issuer"))
    if "S256" not in (document.get("code_challenge_methods_supported") or ()):
        diagnosis.add_finding("issuer.no-s256", issuer=name)
    for endpoint in _ENDPOINTS:
        parts = urlsplit(str(document.get(endpoint) or ""))
        if parts.scheme == "http" and parts.hostname not in THIS_MACHINE:
            diagnosis.add_finding("issuer.http", name=endpoint, issuer=name, url=document[endpoint])


def login(diagnosis: Diagnosis) -> str:
    """Check that the login page sends a user who is signed in on to the consent page, with a session of ``--as``."""
    if not _takes_own_tokens(diagnosis):
        return "not used, because the endpoint takes no tokens of this site"
    if diagnosis.user is None:
        return "not checked: pass --as USERNAME"
    if not apps.is_installed("django.contrib.sessions"):
        return "not checked, because the site has no sessions of Django"
    try:
        consent = reverse("oauth2_provider:authorize")
        page = urljoin(diagnosis.client.url, resolve_url(django_settings.LOGIN_URL))
    except NoReverseMatch:  # system checks report both
        return "not checked, because the site has no login page or no authorization page"
    asked = f"{consent}?{urlencode({'client_id': diagnosis.name})}"
    with _session(diagnosis.user) as key:
        cookie = {"Cookie": f"{django_settings.SESSION_COOKIE_NAME}={key}", "Accept": "text/html"}
        separator = "&" if urlsplit(page).query else "?"
        reply = diagnosis.client.send("GET", cookie, url=f"{page}{separator}{urlencode({REDIRECT_FIELD_NAME: asked})}")
    location = urljoin(page, reply.headers.get("location", ""))
    if reply.status not in _REDIRECTS or urlsplit(location).path == urlsplit(page).path:
        return "the login page does not redirect users who are signed in, so what becomes of `next` is unknown"
    if urlsplit(location).path.rstrip("/") != consent.rstrip("/"):
        diagnosis.add_finding("login.next", login=page, location=location, next=consent)
    return "the login page leads to the consent page"


@contextlib.contextmanager
def _session(user: Any) -> Iterator[str]:
    session = sign_in(user)
    session.set_expiry(60)
    session.save()
    try:
        yield session.session_key
    finally:
        session.delete()


def _takes_own_tokens(diagnosis: Diagnosis) -> bool:
    return apps.is_installed("oauth2_provider") and any(
        isinstance(authenticator, OAuth2Authentication) for authenticator in authenticators(diagnosis.server)
    )


DOCUMENT = "https://claude.ai/oauth/claude-code-client-metadata"
"""The document of Claude Code."""


def documents(diagnosis: Diagnosis) -> str:
    """Fetch a metadata document of a widespread client, as this site does when a user signs in there."""
    if not _takes_own_tokens(diagnosis):
        return "not used, because the endpoint takes no tokens of this site"
    from django_mcp.auth.toolkit import CIMDError, oauth2_settings  # noqa: PLC0415 - only with an authorization server

    if not (settings.CLIENT_DOCUMENTS and oauth2_settings.CIMD_ENABLED):
        return "disabled"
    try:
        oauth2_settings.CIMD_METADATA_FETCHER().fetch(DOCUMENT)
    except CIMDError as error:
        raise CheckFailed("documents.unreachable", url=DOCUMENT, why=error) from None
    return f"{urlsplit(DOCUMENT).hostname} can be reached"
