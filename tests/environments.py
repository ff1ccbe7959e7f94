"""Environments with packages that only some tests need, installed for them."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
OF_THIS_RUN = ("DJANGO_", "PYTEST", "PYTHON", "COV", "DATABASE_URL", "REDIS_URL", "TEST_ON", "VIRTUAL_ENV")


def run(*command: str | Path, cwd: Path, timeout: float = 300, **variables: str) -> str:
    """Return what a command prints, run without what this run of tests has set."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(OF_THIS_RUN)} | variables
    done = subprocess.run(  # noqa: PLW1510 - asserted below, with what it said
        [str(each) for each in command], cwd=cwd, env=environment, capture_output=True, text=True, timeout=timeout
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def python_with(*packages: str) -> Path:
    """Return the interpreter of an environment with this package and others, as pip finds them.

    It is made once for each state of what is asked for. Without one the test is skipped.
    """
    wanted = "\0".join([*packages, str(ROOT), sys.version, (ROOT / "pyproject.toml").read_text()])
    folder = Path(sys.prefix) / "existing-sites" / hashlib.sha256(wanted.encode()).hexdigest()[:16]
    found = folder / "bin" / "python"
    if (folder / "complete").exists():
        return found
    run(sys.executable, "-m", "venv", "--clear", "--without-pip", folder, cwd=ROOT)
    pip = (sys.executable, "-m", "pip", "--python", found, "install", "--quiet", "--disable-pip-version-check")
    try:
        # What is never imported needs no bytecode.
        run(*pip, "--no-compile", *packages, "--editable", ROOT, cwd=ROOT, timeout=900)
    except AssertionError as error:
        if "No matching distribution" not in str(error) and "Could not find a version" not in str(error):
            raise
        pytest.skip(f"the package index has no {' or '.join(packages)} for this Python, or cannot be reached: {error}")
    (folder / "complete").touch()
    return found
