"""Whether browser clients get through, and no others (Fetch, CORS protocol)."""

from django_mcp.conf import settings
from django_mcp.doctor.findings import Stop
from django_mcp.doctor.visit import Visit

FOREIGN = "https://mcp-doctor.invalid"
"""An origin that no site allows."""
_WANTED = "authorization, content-type, mcp-protocol-version, mcp-session-id, mcp-method, last-event-id"


def pages(visit: Visit) -> str:
    """A preflight, a call from a page that may, and one from a page that may not."""
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
    """What a browser asks before it calls.

    Raises:
        Stop: the answer lets it not.
    """
    asked = {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": _WANTED,
    }
    reply = visit.web.send("OPTIONS", asked)
    if reply.status == 403 and reply.error:  # noqa: PLR2004
        raise Stop("cors.refused", origin=origin)
    given = {each.strip().lower() for each in reply.headers.get("access-control-allow-headers", "").split(",")}
    lacking = sorted(set(_WANTED.split(", ")) - given)
    allowed = reply.headers.get("access-control-allow-origin")
    if not 200 <= reply.status < 300 or allowed is None or lacking:  # noqa: PLR2004
        evidence = f"no {', '.join(lacking)} in Access-Control-Allow-Headers" if lacking else "no word of the origin"
        raise Stop("cors.preflight", origin=origin, status=reply.status, evidence=evidence)
