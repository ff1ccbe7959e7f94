"""The official conformance suite's command ``authorization``: metadata, and one authorization code."""

import json
import os
import re
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.auth_check.browser import NotAllowedError, visit
from tests.auth_check.prepare import CLIENT_ID, CLIENT_NAME
from tests.auth_check.site import STAFF, Certificate, Demo
from tests.auth_check.verdict import Verdict, why_not_seen
from tests.conformance.suite import PROGRAM, Suite
from tests.ports import free_port

CHECKS = 3
"""How many it made when this was written. It passes a server of which it checked fewer."""
SCENARIOS = {"authorization-server-metadata-endpoint", "authorization-code-grant"}
WITHIN = 120.0
"""Seconds for all of it."""


def examine(suite: Suite, demo: Demo, certificate: Certificate, folder: Path) -> Verdict:
    """Run it; *folder* keeps its results."""
    port = free_port()
    client = ["--client-id", CLIENT_ID, "--resource", demo.endpoint, "--port", str(port)]
    process = subprocess.Popen(
        [suite.node, suite.folder / PROGRAM, "authorization", "--url", demo.url, *client, "--output-dir", str(folder)],
        cwd=suite.folder,
        env={**os.environ, "NO_COLOR": "1", "NODE_EXTRA_CA_CERTS": str(certificate.authority)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    end = threading.Timer(WITHIN, os.killpg, [process.pid, signal.SIGKILL])
    end.start()
    try:
        said, seen, wrong = follow(process, demo)
    finally:
        end.cancel()
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    verdict = judge(read_results(folder), process.returncode, said)
    verdict.offences += wrong or why_not_seen(seen, CLIENT_NAME)
    return verdict


def follow(process: "subprocess.Popen[str]", demo: Demo) -> tuple[str, list[Any], list[str]]:
    """Read what it prints, and open the page that it asks somebody to open.

    It prints the address before it listens for the answer, which by then has a login and a page to go through.
    """
    said, seen, wrong = [], [], []
    address = re.compile(rf"{re.escape(demo.url)}/\S*[?&]code_challenge=\S+")
    for line in process.stdout or ():
        said.append(line)
        if (found := address.search(line)) and not (seen or wrong):
            try:
                seen.append(visit(found[0], STAFF))
            except NotAllowedError as error:
                wrong.append(str(error))
                process.kill()
    process.wait()
    return "".join(said), seen, wrong


def read_results(folder: Path) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """The checks of each scenario, by its name."""
    name = re.compile(r"authorization-server-(.+)-\d{4}-\d{2}-\d{2}T[\d-]+Z")
    return {
        match[1]: json.loads((each / "checks.json").read_text(encoding="utf-8"))
        for each in folder.iterdir()
        if (match := name.fullmatch(each.name))
    }


def judge(results: Mapping[str, Sequence[Mapping[str, Any]]], status: int, said: str) -> Verdict:
    """What its results come to. A warning counts as a failure."""
    checks = [each for found in results.values() for each in found]
    passed = sum(each["status"] == "SUCCESS" for each in checks)
    verdict = Verdict(f"{passed} of {len(checks)} checks passed")
    verdict.offences += [
        f"{each['id']}: {each['status']}: {each.get('errorMessage') or each['description']}"
        for each in checks
        if each["status"] not in {"SUCCESS", "INFO"}
    ]
    verdict.offences += [f"the scenario {each} was not run" for each in sorted(SCENARIOS - results.keys())]
    if passed < CHECKS:
        verdict.offences.append(f"{CHECKS} checks have to pass")
    if status:
        verdict.offences.append(f"it ended with {status}: ...{said[-1500:]}")
    return verdict
