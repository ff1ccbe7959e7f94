"""The files of ``deploy/``, read."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"


class Line(NamedTuple):
    """One instruction of the Dockerfile, and the stage it stands in."""

    stage: str
    name: str
    value: str


@cache
def dockerfile() -> tuple[Line, ...]:
    text = re.sub(r"^\s*#.*\n", "", (DEPLOY / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines, stage = [], ""
    for line in re.sub(r"\s*\\\n\s*", " ", text).splitlines():
        if line.strip():
            name, _, value = line.partition(" ")
            if name == "FROM":
                stage = value.rpartition(" AS ")[2]
            lines.append(Line(stage, name, value))
    return tuple(lines)


def values(name: str, stage: str | None = None) -> list[str]:
    """What an instruction says, each time."""
    return [line.value for line in dockerfile() if line.name == name and stage in {None, line.stage}]


def command() -> list[str]:
    """What a worker runs."""
    (value,) = values("CMD", "site")
    return json.loads(value)


def compose() -> dict[str, Any]:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def services() -> dict[str, dict[str, Any]]:
    return compose()["services"]


def example() -> dict[str, str]:
    """The variables of ``.env.example``, and what they are before somebody fills them in."""
    lines = (DEPLOY / ".env.example").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
