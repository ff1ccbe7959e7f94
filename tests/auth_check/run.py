"""Run the outside tools against the demo: ``python -m tests.auth_check.run``.

For each tool and each of https and http a line is printed, and under it all that is wrong. The exit status is 1 if
anything is.
"""

# ruff: noqa: T201 - a command speaks

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.process import ProcessFailedError
from tests.auth_check import lab, official
from tests.auth_check.browser import NoBrowserError, find_chromium
from tests.auth_check.site import Certificate, Demo, make_certificate, running
from tests.auth_check.verdict import Verdict
from tests.conformance.run import at_once
from tests.conformance.suite import Suite, installed
from tests.real_clients.node import NoClientsError


def main() -> int:
    """Run everything; the answer is the exit status."""
    began = time.monotonic()
    try:
        find_chromium()
        suite = installed()
    except (NoBrowserError, NoClientsError) as error:
        print(f"The authorization check cannot be run. {error}")
        return 1
    with tempfile.TemporaryDirectory(prefix="auth-check-") as folder:
        certificate = make_certificate(Path(folder))

        def over(scheme: str) -> bool:
            return check(https=scheme == "https", suite=suite, certificate=certificate, folder=Path(folder, scheme))

        passed = at_once(over, ["https", "http"])
    print(f"Authorization check: {'passed' if all(passed) else 'FAILED'}, {time.monotonic() - began:.0f} s.")
    return 0 if all(passed) else 1


def check(*, https: bool, suite: Suite, certificate: Certificate, folder: Path) -> bool:
    """Both tools against one server; whether all is well."""
    over = "https" if https else "http"
    try:
        with running(folder / "demo", certificate, https=https) as demo:
            tools: dict[str, Callable[[Path], Verdict]] = {
                "mcp-authlab": lambda kept: lab.examine(demo, certificate, kept),
                "conformance authorization": lambda kept: official.examine(suite, demo, certificate, kept),
            }
            passed = [report(f"{name} over {over}", tool, folder / name) for name, tool in tools.items()]
            return all(passed) and nothing_broke(over, demo)
    except ProcessFailedError as error:
        print(f"The demo over {over}: {error}", flush=True)
        return False


def report(title: str, tool: Callable[[Path], Verdict], kept: Path) -> bool:
    """Run a tool and print its line, and what is wrong; whether nothing is."""
    kept.mkdir()
    began = time.monotonic()
    verdict = tool(kept)
    took = time.monotonic() - began
    print(f"{title}: {verdict.figures}, {took:.1f} s", *verdict.offences, sep="\n    ", flush=True)
    return not verdict.offences


def nothing_broke(over: str, demo: Demo) -> bool:
    """Whether the server's log is without tracebacks: no tool sees what breaks after its answer."""
    log = demo.output()
    if "Traceback" in log:
        print(f"The demo over {over} wrote ...{log[max(0, log.index('Traceback') - 200) :][:3000]}", flush=True)
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
