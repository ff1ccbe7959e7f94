"""What the suite found, read from the files it wrote, and whether that is good enough.

The suite's own verdict is not: its exit status passes over scenarios that are not scored, and it counts only what
it ran. Here a scenario that left no result has failed, and so has a set with fewer scenarios than it had when
this was written.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

OFFENCES = ("FAILURE", "WARNING")

DIRECTORY = re.compile(r"server-(?P<scenario>.+)-\d{4}-\d{2}-\d{2}T[\d-]+Z")


@dataclass(frozen=True)
class Scenario:
    """One scenario and what is wrong with it, a line for each complaint.

    Attributes:
        idle: nothing was checked, for the server does not do what it could check.
    """

    name: str
    scored: bool
    complaints: tuple[str, ...] = ()
    warnings: int = 0
    idle: bool = False

    @property
    def passed(self) -> bool:
        return not self.complaints


@dataclass
class Verdict:
    """What became of one set of scenarios."""

    scored: int
    """How many there are to score."""
    scenarios: list[Scenario]
    offences: list[str] = field(default_factory=list)
    """Everything that makes the set fail, a line each."""

    @property
    def scored_passed(self) -> int:
        return sum(each.passed for each in self.scenarios if each.scored)

    @property
    def others_passed(self) -> int:
        return sum(each.passed and not each.idle for each in self.scenarios if not each.scored)

    @property
    def others_idle(self) -> int:
        return sum(each.passed and each.idle for each in self.scenarios if not each.scored)

    @property
    def warnings(self) -> int:
        return sum(each.warnings for each in self.scenarios)

    def __str__(self) -> str:
        parts = [f"{self.scored_passed}/{self.scored} scored", f"{self.others_passed} unscored passed"]
        if self.others_idle:
            parts.append(f"{self.others_idle} unscored checked nothing")
        return ", ".join([*parts, f"{self.warnings} warnings"])


def judge(results: Path, scored: set[str], minimum: int) -> Verdict:
    """Read what the suite wrote.

    Args:
        results: The suite's output directory.
        scored: Names of the scenarios that count.
        minimum: How many of them have to pass at least.
    """
    found = {name: read(name, name in scored, directories) for name, directories in by_scenario(results).items()}
    missing = [Scenario(name, True, ("it was not run",)) for name in sorted(scored - found.keys())]
    verdict = Verdict(len(scored), [*found.values(), *missing])
    for scenario in verdict.scenarios:
        verdict.offences += [f"{scenario.name}: {complaint}" for complaint in scenario.complaints]
    if verdict.scored_passed < minimum:
        verdict.offences.append(f"{verdict.scored_passed} scored scenarios passed; {minimum} is the least")
    return verdict


def by_scenario(results: Path) -> Mapping[str, list[Path]]:
    """The directories of each scenario."""
    found: dict[str, list[Path]] = {}
    for directory in sorted(results.iterdir()) if results.is_dir() else ():
        if directory.is_dir():
            match = DIRECTORY.fullmatch(directory.name)
            found.setdefault(match["scenario"] if match else directory.name, []).append(directory)
    return found


def read(name: str, scored: bool, directories: list[Path]) -> Scenario:
    """One scenario, which may have been run more than once."""
    complaints: list[str] = []
    warnings = 0
    idle = False
    for directory in directories:
        checks = checks_in(directory)
        if checks is None:
            complaints.append("it crashed: there is no checks.json that can be read")
            continue
        complaints += complaints_of(checks)
        warnings += sum(check.get("status") == "WARNING" for check in checks)
        idle = idle or not any(check.get("status") == "SUCCESS" for check in checks)
    if scored and idle:
        complaints.append("it checked nothing")
    return Scenario(name, scored, tuple(complaints), warnings, idle)


def checks_in(directory: Path) -> list[dict[str, Any]] | None:
    """The checks of one run; None where it did not come to its end."""
    try:
        checks = json.loads((directory / "checks.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return checks if isinstance(checks, list) else None


def complaints_of(checks: list[dict[str, Any]]) -> Iterator[str]:
    """A line for each check that failed or warned."""
    for check in checks:
        if check.get("status") in OFFENCES:
            message = " ".join(str(check.get("errorMessage") or check.get("description") or "").split())
            yield f"{check['status']} {check.get('id')}: {message}"
