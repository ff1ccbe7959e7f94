"""Whether there is a way to the endpoint, and what answers there."""

import contextlib
import re
import ssl
import time
from urllib.parse import urljoin, urlsplit

from django.conf import settings
from django.shortcuts import resolve_url
from django.urls import NoReverseMatch

from django_mcp.doctor.findings import Stop
from django_mcp.doctor.visit import Visit
from django_mcp.doctor.web import Reply, place

SOON_DAYS = 14
"""In how many days a certificate expires that somebody should look at."""
_REDIRECTS = {301, 302, 303, 307, 308}
_PASSWORD = re.compile(r"<input[^>]+type=[\"']?password", re.IGNORECASE)
_LOGIN = re.compile(r"log-?in|sign-?in|/oauth2/start|/saml", re.IGNORECASE)
_UNKNOWN_HOST = re.compile(r"Unknown host '([^']*)'")
_BY_STATUS = {502: "answer.bad-gateway", 504: "answer.gateway-timeout", 503: "answer.unavailable"}


def reach(visit: Visit) -> str:
    """DNS, TCP and TLS."""
    web = visit.web
    host, port = place(web.parts)
    began = time.monotonic()
    with contextlib.closing(web.connect(web.parts)) as connection:
        took = (time.monotonic() - began) * 1000
        if isinstance(connection.sock, ssl.SSLSocket) and not web.insecure:
            expires = (connection.sock.getpeercert() or {}).get("notAfter")
            left = (ssl.cert_time_to_seconds(str(expires)) - time.time()) / 86400 if expires else SOON_DAYS
            if left < SOON_DAYS:
                visit.found("tls.expiring", host=host, days=int(left))
        elif isinstance(connection.sock, ssl.SSLSocket):
            visit.found("tls.unverified")
    return f"{host}:{port} takes connections, in {took:.0f} ms"


def answer(visit: Visit) -> str:
    """Something of MCP answers a POST, and not a redirect, a login page or a proxy."""
    reply = visit.ask("server/discover")
    recognise(visit, reply)
    return f"the endpoint answers with {reply.status}, in {reply.seconds * 1000:.0f} ms"


def recognise(visit: Visit, reply: Reply) -> None:
    """Whether the endpoint itself answered.

    Raises:
        Stop: it was somebody else, and who; or it refused the host.
    """
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


def look_at_challenge(visit: Visit, reply: Reply) -> None:
    """A 401 is the endpoint's if it asks for a bearer token.

    Raises:
        Stop: it is not, or somebody took the header away.
    """
    challenge = reply.headers.get("www-authenticate", "")
    if challenge and "bearer" not in challenge.lower():
        raise Stop("answer.proxy-auth", status=401, challenge=challenge, path=visit.path)
    if not challenge and "error" in reply.json:
        raise Stop("challenge.missing")


def somebody_else(visit: Visit, reply: Reply) -> Stop:  # noqa: PLR0911 - a table
    """Who answered, by what they said."""
    url, path, status, text = visit.web.url, visit.path, reply.status, reply.text
    if _PASSWORD.search(text):
        return Stop("answer.login", evidence=f"{status}, a page that asks for a password", path=path)
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


def redirected(visit: Visit, reply: Reply) -> Stop:
    """Where a redirect leads."""
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
    """Whether a URL is that of a login page."""
    parts = urlsplit(location)
    own = ""
    with contextlib.suppress(NoReverseMatch):
        own = urlsplit(resolve_url(settings.LOGIN_URL)).path
    return parts.path == own or _LOGIN.search(parts.path) is not None


def foreign_host(visit: Visit, seen: str) -> Stop:
    """The host was refused: that of the client, or what a proxy made of it."""
    said = visit.web.parts.netloc
    if seen and seen.lower() != said.lower():
        return Stop("host.rewritten", seen=seen, host=said)
    return Stop("host.refused", host=visit.web.parts.hostname or said)
