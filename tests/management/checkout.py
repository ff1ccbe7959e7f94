"""A copy of the checkout for the commands to run in, so that they leave nothing in the real one."""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
# Set by a make that runs these tests, or by whoever called it; the copy's make should not inherit them.
OF_THE_OUTER_RUN = {"MAKEFLAGS", "MFLAGS", "MAKELEVEL", "ARGS", "PORT", "PYTHON", "VENV"}
SETTINGS = {"BASE_URL", "DATABASE_URL", "MARIADB_URL", "REDIS_URL", "DEMO_DATABASE", "DJANGO_SETTINGS_MODULE"}


def copy(names: list[str], folder: Path) -> Path:
    for name in names:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, folder / name)
    return folder


def environment() -> dict[str, str]:
    """The environment of a terminal in which somebody types the command for the first time."""
    inherited = {name: value for name, value in os.environ.items() if name not in OF_THE_OUTER_RUN | SETTINGS}
    return {**inherited, "PYTHONPATH": str(ROOT)}


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run(folder, "make", f"PYTHON={sys.executable}", *arguments)


@contextmanager
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", free_port())) as listener:
        yield listener.getsockname()[1]
