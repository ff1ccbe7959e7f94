"""The steps of ``make matrix`` that start other programs: find a Python, install, run tests, ask for versions."""

# ruff: noqa: S603, T201 - a command-line helper runs what the lines below spell out, and talks

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

PATIENCE = 60.0
"""Seconds for a Python to say who it is."""
SHOWN = 40
"""Lines of a failed run that are shown."""
OUTER = ("DATABASE_URL", "MARIADB_URL", "REDIS_URL", "PYTHONPATH", "DJANGO_SETTINGS_MODULE", "VIRTUAL_ENV")
"""Variables that would lead a cell to somewhere else."""
WHO = "import sys, venv, ensurepip; print(sys.executable)"
VERSIONS = """
import json, platform, sys
from importlib.metadata import version
print(json.dumps({"Python": platform.python_version(), **{name: version(name) for name in sys.argv[1:]}}))
"""


def interpreter(version: str) -> tuple[Path | None, str]:
    """Where a Python is, or why there is none: a name in ``PATH`` may be a shim that leads nowhere, so it is run.

    Args:
        version: like "3.13".
    """
    name = f"python{version}"
    found = shutil.which(name)
    if found is None:
        return None, f"{name} is not in PATH"
    try:
        done = subprocess.run([found, "-c", WHO], capture_output=True, text=True, timeout=PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, f"{found}: {error}"
    if done.returncode != 0:
        return None, f"{found}: {' '.join(done.stderr.split()) or f'ended with {done.returncode}'}"
    return Path(done.stdout.strip()), ""


def install(python: Path, folder: Path, checkout: Path, requirements: Sequence[str], constraints: Path) -> str:
    """Make an environment with the checkout and its requirements; the answer is the complaint, if any."""
    environment = folder / "venv"
    steps = [
        [python, "-m", "venv", "--clear", environment],
        [
            *[environment / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"],
            *["--constraint", constraints, "--editable", checkout, *requirements],
        ],
    ]
    for step in steps:
        done = subprocess.run(
            step, cwd=folder, env=clean(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        (folder / "install.log").write_text(done.stdout)
        if done.returncode:
            errors = [line for line in done.stdout.splitlines() if line.startswith(("ERROR", "Error"))]
            return " ".join(errors[-2:]) or f"{' '.join(map(str, step[1:4]))} ended with {done.returncode}"
    return ""


def run_pytest(folder: Path, checkout: Path, tests: Sequence[str]) -> int:
    """Run tests on SQLite, without services; the answer is pytest's exit code. It leaves a report and a log."""
    report, log = folder / "tests.xml", folder / "tests.log"
    report.unlink(missing_ok=True)
    command = [folder / "venv" / "bin" / "python", "-m", "pytest", "-q", "-rfEs", "-p", "no:cacheprovider"]
    with log.open("w") as file:
        done = subprocess.run(
            [*command, "--junitxml", report, *tests],
            cwd=checkout,
            env=clean(),
            stdout=file,
            stderr=subprocess.STDOUT,
            check=False,
        )
    lines = log.read_text(errors="replace").splitlines()
    print("\n".join(lines[-SHOWN:] if done.returncode else lines[-1:]), flush=True)
    return done.returncode


def versions_in(folder: Path, names: Sequence[str]) -> dict[str, str]:
    """What is installed there."""
    command = [folder / "venv" / "bin" / "python", "-c", VERSIONS, *names]
    done = subprocess.run(command, cwd=folder, env=clean(), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def clean() -> dict[str, str]:
    """The environment, without what would lead elsewhere."""
    return {**{name: value for name, value in os.environ.items() if name not in OUTER}, "TEST_ON": "sqlite"}
