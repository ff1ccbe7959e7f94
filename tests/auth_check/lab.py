"""``mcp-authlab``: a scanner of MCP servers' authorization. It logs in as a client would, and then attacks.

It gives 100 of 100 also to a server of which it could check little, so here every one of its checks has to have run.
"""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.process import ROOT
from tests.auth_check.browser import USER, VISITS
from tests.auth_check.site import STAFF, Certificate, Demo
from tests.auth_check.verdict import Verdict, read_visits, why_not_seen

CHECKS = 33
"""How many it has. A later release may have more, not fewer."""
PLAIN_HTTP = "TLS-01"
"""The check that warns of http, and of nothing else."""
BEYOND = "cancel_booking"
"""A tool that needs more than the token may do. It is refused before anything is cancelled."""
WITHIN = 120.0
"""Seconds for each of its commands."""


def examine(demo: Demo, certificate: Certificate, folder: Path) -> Verdict:
    """Have it log in and scan; *folder* keeps its report."""
    visits = folder / "visits.jsonl"
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "MCP_AUTHLAB_TOKENS": str(folder / "tokens.json"),
        # Instead of --insecure: a certificate that does not fit is a finding.
        "SSL_CERT_FILE": str(certificate.authority),
        "BROWSER": f"{shlex.quote(sys.executable)} -m tests.auth_check.browser %s",
        USER: STAFF,
        VISITS: str(visits),
    }
    foreign = ["--foreign-resource", demo.staff_endpoint]
    status, said = call(environment, "login", demo.endpoint, *foreign, "--timeout", "30", "--no-color")
    if status:
        return Verdict("no login", [f"mcp-authlab cannot log in: {said[-3000:]}"])
    report = folder / "report.json"
    scan = ["--tool", BEYOND, "--format", "json", "--output", str(report)]
    status, said = call(environment, "scan", demo.endpoint, *scan)
    if status or not report.exists():
        return Verdict("no report", [f"mcp-authlab cannot scan: {said[-3000:]}"])
    verdict = judge(json.loads(report.read_text(encoding="utf-8")), https=demo.url.startswith("https:"))
    verdict.offences += why_not_seen(read_visits(visits), demo.endpoint, demo.staff_endpoint)
    return verdict


def call(environment: Mapping[str, str], *arguments: str) -> tuple[int, str]:
    """Run one of its commands; the exit status and what it printed."""
    command = [sys.executable, "-m", "mcp_authlab", *arguments]
    done = subprocess.run(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=WITHIN,
        check=False,
    )
    return done.returncode, done.stdout


def judge(report: Mapping[str, Any], *, https: bool) -> Verdict:
    """What its report comes to: 100, Conformant; over http 98, for which one warning is all that may be missing."""
    results: Sequence[Mapping[str, Any]] = report["results"]
    passed = [each for each in results if each["status"] == "pass"]
    figures = f"{report['score']}/100, {report['conformance']}, {len(passed)} of {len(results)} checks passed"
    warnings = report["warnings"]
    verdict = Verdict(figures + (f", warnings: {', '.join(warnings)}" if warnings else ""))
    forgiven = {} if https else {PLAIN_HTTP: "warn"}
    for each in results:
        if each["status"] not in {"pass", forgiven.get(each["id"])}:
            verdict.offences.append(f"{each['id']} {each['status']}: {each['title']}: {each['message']}")
    if len(results) < CHECKS:
        verdict.offences.append(f"it made {len(results)} checks; it had {CHECKS}")
    wanted = (100, "Conformant") if https else (98, "Conformant with warnings")
    if (report["score"], report["conformance"]) != wanted:
        verdict.offences.append(f"it has to be {wanted[0]}/100, {wanted[1]}")
    if not any(each["id"] == "SCOPE-01" and each["message"].startswith("403 for") for each in results):
        verdict.offences.append(f"{BEYOND} was not refused with 403, so nothing is known of the step-up challenge")
    return verdict
