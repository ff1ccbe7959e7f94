"""Clocks, sizes of bodies, and connections."""

import contextlib
import datetime
import json
from email.utils import parsedate_to_datetime

from django.utils import timezone

from django_mcp.conf import settings
from django_mcp.doctor.findings import Stop
from django_mcp.doctor.visit import Visit
from django_mcp.doctor.web import Reply

MOST_SECONDS = 30
"""Between two clocks."""
SPARE_BYTES = 2048
"""By how much the largest body that is tried is below the limit."""
_TOO_LARGE = "The body is larger than"


def clock(visit: Visit) -> str:
    """The Date header against the time of this machine; and the time at which the worker wrote its session."""
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
    return f"{' and '.join(whose for whose, *_ in told) or 'nobody'} agrees with this machine"


def compare(visit: Visit, whose: str, theirs: datetime.datetime, ours: datetime.datetime) -> None:
    """Note a difference."""
    if theirs.tzinfo is None:
        theirs = theirs.replace(tzinfo=datetime.UTC)
    off = (theirs - ours).total_seconds()
    if abs(off) > MOST_SECONDS:
        way, when = ("ahead", "early") if off > 0 else ("behind", "late")
        visit.found("clock.off", whose=whose, seconds=f"{abs(off):.0f}", way=way, when=when)


def sizes(visit: Visit) -> str:
    """A body almost as large as the endpoint takes."""
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
    return f"a body of {size:,} bytes is taken"


def note(visit: Visit, reply: Reply, sent: int) -> None:
    """Who refused it."""
    limit = settings.MAX_BODY_BYTES
    if _TOO_LARGE in reply.error:
        visit.found("size.endpoint", sent=sent, limit=limit)
    else:
        megabytes = -(-limit // (1024 * 1024))
        visit.found("size.proxy", sent=sent, limit=limit, status=reply.status, megabytes=megabytes)


def connection(visit: Visit) -> str:
    """Two requests on one connection."""
    given, body = visit.compose("server/discover")
    with contextlib.closing(visit.web.connect(visit.web.parts)) as opened:
        reply = visit.web.on(opened, "POST", given, body)
        if opened.sock is None or "close" in reply.headers.get("connection", "").lower():
            visit.found("connection.closed")
        else:
            visit.web.on(opened, "POST", given, body)
    return "connections are kept open"
