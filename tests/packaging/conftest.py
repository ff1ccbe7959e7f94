"""The package as it is published, and an environment in which nothing of the checkout is found."""

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Sequence
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
NAME = "django-mcp-toolkit"
OF_THIS_RUN = (
    "PYTHON",
    "PYTEST",
    "DJANGO",
    "COV",
    "DATABASE_URL",
    "MARIADB_URL",
    "REDIS_URL",
    "TEST_ON",
    "VIRTUAL_ENV",
)
"""Beginnings of variables by which the checkout, or what runs these tests, would be found in place of the wheel."""
READY = """
INSTALLED_APPS += ["django_mcp"]
DJANGO_MCP = {"AUTHENTICATION": ["django_mcp.AllowAny"]}
ALLOWED_HOSTS = ["testserver"]
"""
URLS = """
from django.urls import include
urlpatterns += [path("", include("django_mcp.urls"))]
"""
APP = '''
from django_mcp import tool


@tool(read_only=True)
def add(a: int, b: int) -> int:
    """The sum of two numbers."""
    return a + b
'''


def run(*command: str | Path, cwd: Path) -> str:
    """What a command prints that knows nothing of the checkout."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(OF_THIS_RUN)}
    done = subprocess.run(  # noqa: PLW1510 - asserted below, with what it said
        [str(each) for each in command], cwd=cwd, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Built(NamedTuple):
    """The two files that are published, and the wheel that others make of the source."""

    wheel: Path
    source: Path
    wheel_of_source: Path

    def names(self) -> set[str]:
        return set(zipfile.ZipFile(self.wheel).namelist())

    def metadata(self, name: str) -> str:
        (path,) = (each for each in self.names() if each.endswith(f".dist-info/{name}"))
        return zipfile.ZipFile(self.wheel).read(path).decode()

    def source_names(self) -> set[str]:
        """Paths of files, without the folder that all of them are in."""
        with tarfile.open(self.source) as archive:
            return {each.name.partition("/")[2] for each in archive.getmembers() if each.isfile()}


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """With the build backend that is installed: nothing is fetched."""
    folder = tmp_path_factory.mktemp("built")

    def build(source: Path, to: str, *kinds: str) -> list[Path]:
        run(sys.executable, "-m", "build", "--no-isolation", *kinds, "--outdir", folder / to, source, cwd=folder)
        return sorted((folder / to).iterdir())

    (source,) = build(ROOT, "source", "--sdist")
    (wheel,) = build(ROOT, "wheel", "--wheel")
    with tarfile.open(source) as archive:
        archive.extractall(folder, filter="data")
    (again,) = build(folder / source.name.removesuffix(".tar.gz"), "again", "--wheel")
    return Built(wheel, source, again)


def needed(requirements: Sequence[str]) -> dict[str, Distribution]:
    """The installed distributions that these come to, with all that these need themselves."""
    found: dict[str, Distribution] = {}
    todo = [(Requirement(each), "") for each in requirements]
    seen: set[tuple[str, str]] = set()
    while todo:
        requirement, extra = todo.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        found[name] = distribution(name)
        for each in {"", *requirement.extras}:
            if (name, each) not in seen:
                seen.add((name, each))
                todo += [(Requirement(line), each) for line in found[name].requires or ()]
    return found


class Installed(NamedTuple):
    """A new project in an environment that has the wheel, what the wheel says it needs, and nothing else."""

    python: Path
    libraries: Path
    project: Path

    def run(self, *arguments: str) -> str:
        return run(self.python, "-W", "error", *arguments, cwd=self.project)

    def append(self, name: str, code: str) -> None:
        with (self.project / name).open("a") as file:
            file.write(code)


@pytest.fixture(scope="session")
def installed(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """What the wheel needs is not fetched: links lead to where it is installed already."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    python = folder / "venv" / "bin" / "python"
    libraries = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip())
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check", "--quiet"]
    run(*pip, "install", "--no-deps", "--no-index", "--no-compile", built.wheel, cwd=folder)
    wanted = [line.removeprefix("Requires-Dist: ") for line in built.metadata("METADATA").splitlines()
              if line.startswith("Requires-Dist: ")]  # fmt: skip
    for each in needed(wanted).values():
        for top in {file.parts[0] for file in each.files or ()} - {"..", "__pycache__"}:
            if not (libraries / top).exists():
                (libraries / top).symlink_to(Path(str(each.locate_file(top))))
    site = Installed(python, libraries, folder / "project")
    site.project.mkdir()
    site.run("-m", "django", "startproject", "mysite", ".")
    site.run("manage.py", "startapp", "sums")
    site.append("mysite/settings.py", f'{READY}INSTALLED_APPS += ["sums"]\n')
    site.append("mysite/urls.py", URLS)
    site.append("sums/mcp.py", APP)
    site.run("manage.py", "migrate", "--verbosity", "0")
    return site
