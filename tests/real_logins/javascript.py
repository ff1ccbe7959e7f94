"""The official JavaScript clients, which send people to log in."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.auth_check.browser import ROOT, Visit
from tests.auth_check.site import Certificate, Demo
from tests.ports import free_port
from tests.real_clients.node import Clients
from tests.real_logins.people import BEN

WITHIN = 240.0
"""Seconds for one process and the logins in it."""
LIBRARIES = {"sdk": ("sdk", ""), "client-legacy": ("client", "legacy"), "client-auto": ("client", "auto")}


@dataclass(frozen=True)
class Outcome:
    """What came of one process.

    Attributes:
        outcomes: for each call its ``result`` or ``error``.
        visits: what a person saw each time the client sent one to the browser.
        kept: what it keeps for a later process: ``client`` and ``tokens``.
    """

    outcomes: list[dict[str, Any]]
    visits: list[Visit]
    kept: dict[str, Any]


@dataclass(frozen=True)
class JavaScriptClient:
    """One of the libraries, in one of its modes."""

    clients: Clients
    demo: Demo
    certificate: Certificate
    name: str
    browser: str
    """Socket of the browser that is open."""

    def call(
        self,
        *calls: Mapping[str, Any],
        kept: Mapping[str, Any] | None = None,
        document: str | None = None,
    ) -> Outcome:
        """Call tools in a process of its own; login.mjs explains what goes in and comes out."""
        library, mode = LIBRARIES[self.name]
        script = {
            "library": library,
            "mode": mode,
            "url": self.demo.endpoint,
            "port": free_port(),
            "kept": kept,
            "document": document,
            "calls": calls,
            "browser": [sys.executable, "-m", "tests.real_logins.ask", self.browser, BEN],
        }
        done = subprocess.run(
            [self.clients.node, self.clients.drivers / "login.mjs"],
            input=json.dumps(script),
            env=self._environment(),
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=WITHIN,
            check=False,
        )
        assert done.returncode == 0, f"{self.name} failed:\n{done.stdout}{done.stderr}"
        said = json.loads(done.stdout)
        return Outcome(said["outcomes"], [Visit(**each) for each in said["visits"]], said["kept"])

    def _environment(self) -> dict[str, str]:
        paths: Sequence[str] = filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])
        own = {"NODE_EXTRA_CA_CERTS": str(self.certificate.authority), "PYTHONPATH": os.pathsep.join(paths)}
        return self.clients.environment() | own
