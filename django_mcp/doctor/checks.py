"""All checks, in the order in which they are made, and the run."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

from django.db import Error as DatabaseError

from django_mcp.doctor import inside, measures, pages, reaching, sameness, speaking, streaming, tokens
from django_mcp.doctor.findings import Checked, Severity, Stop
from django_mcp.doctor.visit import Visit


class Check(NamedTuple):
    """One of them.

    Attributes:
        look: notes what it finds, and gives a sentence about what is as it should be.
        needs: checks without whose success it makes no sense.
        calls: it makes calls, for which a credential may be needed.
    """

    name: str
    title: str
    look: Callable[[Visit], str]
    needs: tuple[str, ...] = ()
    calls: bool = False


CHECKS = (
    Check("database", "Database", inside.database),
    Check("migrations", "Migrations", inside.migrations, ("database",)),
    Check("checks", "System checks", inside.system_checks, ("database",)),
    Check("debug", "DEBUG", inside.debug),
    Check("cache", "Cache", inside.caching),
    Check("layer", "Channel layer", inside.layer),
    Check("reach", "Reachable", reaching.reach),
    Check("answer", "Answers", reaching.answer, ("reach",)),
    Check("challenge", "Where to log in", tokens.challenge, ("answer",)),
    Check("credential", "Credential", speaking.credential, ("answer",)),
    Check("pages", "Browser clients", pages.pages, ("answer",)),
    Check("modern", "Newest protocol", speaking.modern, ("answer",), calls=True),
    Check("legacy", "Older protocols", speaking.legacy, ("answer",), calls=True),
    Check("streams", "Streams", streaming.streams, ("modern",), calls=True),
    Check("clock", "Clock", measures.clock, ("answer",)),
    Check("size", "Large bodies", measures.sizes, ("answer",)),
    Check("connection", "Connections", measures.connection, ("answer",)),
    Check("deployment", "Same site", sameness.deployment, ("database", "legacy"), calls=True),
    Check("bell", "Bell", sameness.bell, ("deployment", "legacy", "streams"), calls=True),
    Check("idle", "Idle streams", streaming.idle, ("streams",), calls=True),
)


def run(visit: Visit) -> Iterator[Checked]:
    """Make all checks, each result as soon as it is known. What was opened is closed at the end."""
    failed: set[str] = set()
    try:
        for check in CHECKS:
            checked = Checked(check.name, check.title)
            if missing := [each for each in check.needs if each in failed]:
                failed.add(check.name)
                checked.skipped = f"not looked at, because of “{title_of(missing[0])}”"
            elif check.calls and not visit.is_open:
                checked.skipped = "not looked at: no call is answered"
            else:
                make(check, visit, checked)
            if checked.severity is Severity.ERROR:
                failed.add(check.name)
            yield checked
    finally:
        with suppress(Stop, DatabaseError):
            visit.close()


def make(check: Check, visit: Visit, checked: Checked) -> None:
    """Make one."""
    visit.findings = checked.findings
    try:
        checked.seen = check.look(visit)
    except Stop as stop:
        visit.found(stop.finding_id, **stop.values)
    except DatabaseError as error:
        visit.found("database.unreachable", alias="default", why=inside.first_line(error))


def title_of(name: str) -> str:
    """What people know a check by."""
    return next(each.title for each in CHECKS if each.name == name)
