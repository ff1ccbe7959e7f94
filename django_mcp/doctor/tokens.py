"""The way of a client from a 401 to a login: the challenge, and the metadata that it leads to (RFC 9728, RFC 8414)."""

import re
from typing import Any
from urllib.parse import urlsplit

from django_mcp.auth.protected_resource import canonical, has_metadata
from django_mcp.doctor.findings import Stop
from django_mcp.doctor.visit import Visit

_METADATA = re.compile(r'resource_metadata="([^"]+)"')
THIS_MACHINE = {"localhost", "127.0.0.1", "::1"}
_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "registration_endpoint")


def challenge(visit: Visit) -> str:
    """A call without a credential is told where to get one."""
    key, visit.key = visit.key, None
    try:
        reply = visit.ask("tools/list")
    finally:
        visit.key = key
    if reply.status != 401:  # noqa: PLR2004
        return "everybody may call, so nobody is sent to a login"
    told = reply.headers.get("www-authenticate")
    if told is None:
        raise Stop("challenge.missing")
    found = _METADATA.search(told)
    if found is None:
        if has_metadata(visit.server):
            raise Stop("challenge.no-metadata", challenge=told)
        return "callers are asked for an API key; there is no OAuth here"
    return resource(visit, found[1])


def resource(visit: Visit, url: str) -> str:
    """The protected resource metadata."""
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
    for each in named:
        issuer(visit, str(each))
    return f"a 401 leads to {' and '.join(map(str, named))}"


def is_same(one: str, other: str) -> bool:
    """Whether two URLs are written differently at most."""
    try:
        return canonical(one) == canonical(other)
    except ValueError:
        return False


def fetch(visit: Visit, url: str) -> dict[str, Any]:
    """A JSON document.

    Raises:
        Stop: it is not there, or none.
    """
    reply = visit.web.send("GET", {"Accept": "application/json"}, url=url)
    if reply.status != 200:  # noqa: PLR2004
        raise Stop("metadata.not-found", url=url, status=reply.status)
    if not reply.json:
        raise Stop("metadata.broken", url=url)
    return reply.json


def places(issuer: str) -> list[str]:
    """Where clients look for an authorization server's metadata, in their order (2026-07-28, Authorization)."""
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    inserted = [f"{origin}/.well-known/{kind}{path}" for kind in ("oauth-authorization-server", "openid-configuration")]
    return [*inserted, f"{origin}{path}/.well-known/openid-configuration"] if path else inserted


def issuer(visit: Visit, name: str) -> None:
    """The metadata of an authorization server."""
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
