"""The suite itself: a program of npm's, pinned by the lock file beside this module."""

import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.real_clients.node import find_node, run_npm

HERE = Path(__file__).resolve().parent
LOCKED = (HERE / "package.json", HERE / "package-lock.json")
PROGRAM = "node_modules/@modelcontextprotocol/conformance/dist/index.js"
WITHIN = 600.0
"""Seconds for one set; the suite gives each scenario 30."""
LISTED = re.compile(r"^  - (\S+)", re.MULTILINE)


class SuiteError(Exception):
    """The suite could not be run."""


@dataclass(frozen=True)
class Requirements:
    """A set of scenarios.

    Attributes:
        options: those of the suite that pick it.
        listing: those with which it lists the scenarios that count.
        minimum: how many of them have to pass. The suite's own number might become smaller unseen.
        prefix: where it is given, of those just the ones whose names begin so; and as the suite has no option for
            them together, each is run by itself.
        besides: scenarios that are run with the others, and which count here although they do not there.
    """

    options: Sequence[str]
    listing: Sequence[str]
    minimum: int
    prefix: str = ""
    besides: frozenset[str] = frozenset()


TASKS = frozenset(
    {
        "tasks-capability-negotiation",
        "tasks-dispatch-and-envelope",
        "tasks-lifecycle",
        "tasks-mrtr-composition",
        "tasks-mrtr-input",
        "tasks-request-headers",
        "tasks-request-state-removal",
        "tasks-required-task-error",
        "tasks-wire-fields",
    }
)
"""The scenarios of the Tasks extension, but for one that checks nothing yet, whatever a server does."""


def required(revision: str, minimum: int, besides: frozenset[str] = frozenset()) -> Requirements:
    """What a revision of the specification requires."""
    options = ("--requirements", revision)
    return Requirements(options, options, minimum + len(besides), besides=besides)


REQUIREMENTS: Mapping[str, Requirements] = {
    "2025-11-25": required("2025-11-25", 30),
    "2026-07-28": required("2026-07-28", 37, TASKS),
    # There is no set for this one: all scenarios that apply count.
    "2025-06-18": Requirements(
        ("--suite", "all", "--spec-version", "2025-06-18"), ("--spec-version", "2025-06-18"), 27
    ),
    # Extensions are in no revision's set.
    "skills": Requirements((), (), 3, "sep-2640-skills-"),
}


@dataclass(frozen=True)
class Suite:
    """The installed suite."""

    node: Path
    folder: Path

    def scored(self, requirements: Requirements) -> set[str]:
        """Names of the scenarios that count.

        Raises:
            SuiteError: the suite does not tell.
        """
        status, said = self._run("list", "--server", *requirements.listing)
        listed = said.partition("Server scenarios")[2].partition("\n\n")[0]
        if status or not listed:
            raise SuiteError(f"it does not list its scenarios: {said[-2000:]}")
        return {name for name in LISTED.findall(listed) if name.startswith(requirements.prefix)} | requirements.besides

    def run(self, requirements: Requirements, url: str, results: Path) -> tuple[int, str]:
        """Run a set against *url*, into the folder *results*; the exit status and what was printed."""
        results.mkdir(parents=True)
        nothing = results / "expected-failures.yml"
        nothing.write_text("server: []\n")  # with this file, empty as it is, a warning counts as a failure
        options = ["--url", url, "--expected-failures", str(nothing), "--output-dir", str(results)]
        if not requirements.prefix:
            return self._run("server", *options, *requirements.options)
        runs = [self._run("server", *options, "--scenario", name) for name in sorted(self.scored(requirements))]
        return max(status for status, _ in runs), "".join(said for _, said in runs)

    def _run(self, *arguments: str) -> tuple[int, str]:
        process = subprocess.Popen(
            [self.node, self.folder / PROGRAM, *arguments],
            cwd=self.folder,
            env={**os.environ, "NO_COLOR": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            return communicate(process)
        finally:
            process.wait()


def communicate(process: "subprocess.Popen[str]") -> tuple[int, str]:
    try:
        said, _ = process.communicate(timeout=WITHIN)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        if isinstance(error, subprocess.TimeoutExpired):
            raise SuiteError(f"it took more than {WITHIN:.0f} s") from None
        raise
    return process.returncode, said


@cache
def installed() -> Suite:
    """The suite, which is installed the first time.

    Raises:
        NoClientsError: there is no Node that is new enough, or npm cannot install the suite.
    """
    node = find_node()
    digest = hashlib.sha256(b"\0".join(file.read_bytes() for file in LOCKED)).hexdigest()[:16]
    folder = Path(sys.prefix) / "conformance-suite" / digest
    if not (folder / PROGRAM).exists():
        shutil.rmtree(folder.parent, ignore_errors=True)
        fresh = folder.with_suffix(f".{os.getpid()}")
        fresh.mkdir(parents=True)
        for file in LOCKED:
            shutil.copy(file, fresh)
        run_npm(node, fresh)
        fresh.rename(folder)
    return Suite(node, folder)
