"""Which statements are as fast on long tables as on short ones, and which are not."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

GROWING = (
    "auth_user",
    "oauth2_provider_application",
    "oauth2_provider_accesstoken",
    "oauth2_provider_refreshtoken",
    "django_mcp_apikey",
    "django_mcp_session",
    "django_mcp_call",
    "django_mcp_pendingrequest",
    "django_mcp_event",
    "django_mcp_step",
    "django_mcp_task",
    "django_mcp_taskinput",
    "django_mcp_autoapprovalrule",
    "django_mcp_approval",
    "django_mcp_approvalevent",
    "django_mcp_notice",
    "django_mcp_requestlog",
)
"""Tables with a row for each use or each user. Others have one for each tool and decision."""
FLAT = 1.5
"""How many times as long a statement may take on the longest tables."""
NOISE_MS = 0.5
"""Milliseconds that do not count: the machine's, not the table's."""


@dataclass
class Statement:
    """One statement, on tables of several lengths.

    Attributes:
        sql: with placeholders.
        sizes: rows of each table.
        ms: milliseconds of the statement at each size: the median of one that reads, the lower quartile of others.
        plans: how the database went about it, at each size.
        scanned: tables that it read from end to end, at the largest size.
        callers: what led to it.
        times: how often it was sent, at all sizes together.
    """

    sql: str
    sizes: list[int] = field(default_factory=list)
    ms: list[float] = field(default_factory=list)
    plans: list[str] = field(default_factory=list)
    scanned: list[str] = field(default_factory=list)
    callers: list[str] = field(default_factory=list)
    times: int = 0

    def add(self, *, size: int, ms: float, plan: str, scanned: list[str], callers: list[str], times: int) -> None:
        """Note what was found at one more size."""
        self.sizes.append(size)
        self.ms.append(ms)
        self.plans.append(plan)
        self.scanned = scanned
        self.callers = sorted({*self.callers, *callers})
        self.times += times

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return asdict(self)

    @property
    def growth(self) -> float:
        """How many times as long it takes on the longest tables."""
        return self.ms[-1] / self.ms[0] if self.ms[0] else 1.0

    @property
    def is_flat(self) -> bool:
        """Whether it takes as long on long tables, but for noise."""
        return self.ms[-1] <= self.ms[0] * FLAT + NOISE_MS

    def problems(self) -> Iterator[str]:
        """What is wrong with it, a few words each."""
        if self.scanned:
            yield f"reads all of {', '.join(self.scanned)}"
        if not self.is_flat:
            yield f"takes {self.growth:.1f} times as long"


def short(sql: str, most: int = 110) -> str:
    """A statement without the columns that it selects, in one line."""
    words = " ".join(sql.split()).replace('"', "").replace("django_mcp_", "")
    head, found, tail = words.partition(" FROM ")
    if words.startswith("SELECT") and found and "(" not in head:
        words = f"SELECT … FROM {tail}"
    return words if len(words) <= most else f"{words[:most]}…"


def table(statements: Iterable[Statement]) -> Iterator[str]:
    """Lines for people, the least flat first."""
    for each in sorted(statements, key=lambda one: -one.growth):
        marks = "; ".join(each.problems())
        times = "  ".join(f"{ms:8.3f}" for ms in each.ms)
        yield f"{'FAIL' if marks else 'ok  '} {times} ms  x{each.growth:.1f}  {short(each.sql)}"
        yield f"       {each.plans[-1]}  [{', '.join(each.callers)}]" + (f"  <- {marks}" if marks else "")


def markdown(statements: Sequence[Statement]) -> str:
    """A table of those that are sent most and of those that fail."""
    sizes = max((each.sizes for each in statements), key=len)
    lines = ["| statement | " + " | ".join(f"{size:,}" for size in sizes) + " | ratio | plan |"]
    lines.append("| --- |" + " --: |" * (len(sizes) + 1) + " --- |")
    for each in sorted(statements, key=lambda one: -one.growth):
        times = " | ".join(f"{ms:.2f}" for ms in each.ms)
        lines.append(f"| `{short(each.sql)}` | {times} | {each.growth:.1f} | {each.plans[-1]} |")
    return "\n".join(lines)
