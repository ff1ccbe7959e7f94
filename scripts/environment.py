"""Make the virtual environment a make target needs, or find in a blink that it is there already.

A stamp inside the environment records what it was made from: the Python, the checkout's place, the
content of pyproject.toml and the extras. While those stay the same nothing is installed again.
"""

# ruff: noqa: T201, S603 - a command-line helper talks, and the one command it runs is spelled out below

import hashlib
import json
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
# What each extra brings with it, as pyproject.toml nests them.
COVERS = {"demo": {"demo"}, "dev": {"demo", "dev"}}


def main(arguments: list[str]) -> str | None:
    """Provide an environment with one of the package's extras; the answer is the complaint, if any.

    Args:
        arguments: The environment's folder, and the extra to install there.
    """
    folder, extra = Path(arguments[0]).absolute(), arguments[1]
    stamp = folder / "installed.json"
    recorded = read(stamp)
    if recorded.get("base") != base():
        if folder.exists() and any(folder.iterdir()) and not (folder / "pyvenv.cfg").exists():
            return f"{arguments[0]} exists and is no virtual environment; it will not be replaced by one."
        print(f"Making a virtual environment in {arguments[0]} ...", flush=True)
        stamp.unlink(missing_ok=True)
        try:
            venv.create(folder, clear=True, symlinks=True, with_pip=True)
        except (OSError, subprocess.CalledProcessError) as error:
            return f"The virtual environment could not be made: {error}"
        recorded = {}
    pyproject = hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
    present = set(recorded.get("extras", ())) if recorded.get("pyproject") == pyproject else set()
    if extra in present:
        return None
    # An environment that had more keeps it: its tests should still run after a demo.
    wanted = sorted({extra, *recorded.get("extras", ())} & COVERS.keys())
    print("Installing the package and what it needs; only the first start does this ...", flush=True)
    requirement = f"{ROOT}[{','.join(wanted)}]"
    if install(folder / "bin" / "python", requirement):
        return "The installation failed; pip's reason is above. Nothing was started."
    extras = sorted(set().union(*(COVERS[name] for name in wanted)))
    stamp.write_text(json.dumps({"base": base(), "pyproject": pyproject, "extras": extras}))
    return None


def base() -> dict[str, str]:
    """What an environment cannot outlive: its interpreter, and the folder its editable install names."""
    return {"python": sys.version, "prefix": sys.base_prefix, "checkout": str(ROOT)}


def read(stamp: Path) -> dict[str, Any]:
    """What the stamp says; nothing, when it is missing or was cut short."""
    try:
        recorded = json.loads(stamp.read_text())
    except (OSError, ValueError):
        return {}
    return recorded if isinstance(recorded, dict) else {}


def install(python: Path, requirement: str) -> int:
    """Have pip install the checkout for editing, its output straight to the terminal; its exit code."""
    command = [python, "-m", "pip", "install", "--quiet", "--editable", requirement]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit("\nStopped before everything was installed. The same command begins again.")
