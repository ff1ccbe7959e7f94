"""Skills written for a test, and a site that serves them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from django_mcp import MCPServer
from django_mcp.skills import serving
from django_mcp.skills.serving import Skills
from django_mcp.skills.skill import Root

WORDS = "Plan a trip. Use it when somebody wants to travel."

Write = Callable[..., Path]
Serve = Callable[..., Skills]


def skill_md(name: str, description: str = WORDS, more: str = "") -> str:
    return f"---\nname: {name}\ndescription: {description}\n{more}---\n\n# {name}\n"


@pytest.fixture(autouse=True)
def nothing_of_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    """Endpoints made in tests are not given what the demo has."""
    monkeypatch.setattr(serving.skills, "found", {})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The ``skills/`` of an app."""
    folder = tmp_path / "skills"
    folder.mkdir()
    return folder


@pytest.fixture
def write(root: Path) -> Write:
    """Writes a skill: its ``SKILL.md`` unless it is given, and further files by path."""

    def write(path: str, files: Mapping[str, str | bytes] | None = None, **said: str) -> Path:
        name = path.rpartition("/")[2]
        for each, content in {"SKILL.md": skill_md(name, **said), **(files or {})}.items():
            file = root / path / each
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content.encode() if isinstance(content, str) else content)
        return root / path

    return write


@pytest.fixture
def serve(root: Path, monkeypatch: pytest.MonkeyPatch, make_server: Callable[..., MCPServer]) -> Serve:
    """Starts a site whose app ``holiday`` has the skills, and where nothing was said of any other."""
    monkeypatch.setattr("django_mcp.skills.declaration._declared", {})

    def serve(*declare: Callable[[], Any]) -> Skills:
        for each in declare:
            each()
        made = Skills(lambda: [Root("holiday", root)])
        made.start()
        return made

    return serve


@pytest.fixture
def server(make_server: Callable[..., MCPServer]) -> MCPServer:
    """An endpoint that takes skills which do not say where."""
    return make_server(skills=True)
