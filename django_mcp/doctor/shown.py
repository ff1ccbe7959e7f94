"""What people read: a line for each check, and below it what was found and what to do."""

import textwrap
from collections.abc import Iterable

from django_mcp.doctor.findings import Checked, Finding, Severity

WIDTH = 100
_MARKS = {Severity.OK: "✓", Severity.HINT: "✓", Severity.WARNING: "!", Severity.ERROR: "✗"}
_PLAIN = {Severity.OK: "ok", Severity.HINT: "ok", Severity.WARNING: "!!", Severity.ERROR: "XX"}
_LETTERS = str.maketrans({"“": '"', "”": '"', "’": "'", "…": "..."})
_TITLES = 17


def marks_for(encoding: str | None) -> dict[Severity, str]:
    """Signs that a terminal of an encoding can show."""
    try:
        "".join(_MARKS.values()).encode(encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return _PLAIN
    return _MARKS


def shown(checked: Checked, marks: dict[Severity, str]) -> str:
    """One check."""
    mark = "-" if checked.skipped else marks[checked.severity]
    worst = max(checked.findings, key=lambda each: each.severity, default=None)
    words = checked.skipped or checked.seen if worst is None else f"{worst.severity.word}: {worst.id}"
    if worst is not None and worst.severity is Severity.HINT and checked.seen:
        words = checked.seen
    line = f"{mark:<2} {checked.title:<{_TITLES}}{words}".rstrip()
    text = "\n".join([line, *(told(each) for each in checked.findings)])
    # What servers say may hold anything, also what a terminal takes for commands.
    text = "".join(each if each.isprintable() or each == "\n" else "?" for each in text)
    return text.translate(_LETTERS).encode("ascii", "replace").decode() if marks is _PLAIN else text


def told(finding: Finding) -> str:
    """One finding, indented."""
    indent = " " * (_TITLES + 3)
    options = {"width": WIDTH, "break_long_words": False, "break_on_hyphens": False}
    message = f"{finding.severity.word} {finding.id}: {finding.message}"
    lines = textwrap.wrap(message, initial_indent=indent, subsequent_indent=indent, **options)  # type: ignore[arg-type]
    remedy = textwrap.wrap(
        finding.remedy,
        initial_indent=f"{indent}-> ",
        subsequent_indent=f"{indent}   ",
        **options,  # type: ignore[arg-type]
    )
    return "\n".join([*lines, *remedy])


def summary(all_checked: Iterable[Checked]) -> str:
    """How many of each kind."""
    found = [each.severity for checked in all_checked for each in checked.findings]
    count = {kind: found.count(kind) for kind in (Severity.ERROR, Severity.WARNING, Severity.HINT)}
    told = [f"{number} {kind.word}{'' if number == 1 else 's'}" for kind, number in count.items() if number]
    return ", ".join(told) + "." if told else "Nothing to complain of."
