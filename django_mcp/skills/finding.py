"""Which skills installed apps have: the folders with a ``SKILL.md`` below ``skills/``."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from django.apps import apps
from django.core.exceptions import ImproperlyConfigured

from django_mcp.skills.folder import NAME, SKILL_FILE, Folder, check_inside, is_left_out, read_folder


class Root(NamedTuple):
    """A folder of skills.

    Attributes:
        app: the label of the app it belongs to.
        path: of the folder.
    """

    app: str
    path: Path


class Found(NamedTuple):
    """A skill, and the label of its app."""

    app: str
    folder: Folder


def app_roots() -> list[Root]:
    """The ``skills/`` of every installed app that has one, in the order of ``INSTALLED_APPS``."""
    roots = (Root(each.label, Path(each.path) / "skills") for each in apps.get_app_configs())
    return [root for root in roots if root.path.is_dir()]


def find(roots: Iterable[Root]) -> tuple[dict[str, Found], dict[str, str]]:
    """All skills by path, and by path what is wrong with others, which are not served."""
    found: dict[str, Found] = {}
    wrong: dict[str, str] = {}
    for root in roots:
        for path, where, problem in _skills_in(root.path, root.path, ""):
            try:
                if problem is not None:
                    raise problem
                _require_place(path, where, root, found)
                found[path] = Found(root.app, read_folder(path, where))
            except ImproperlyConfigured as error:
                wrong[path] = "\n".join(filter(None, [wrong.get(path), str(error)]))
    return found, wrong


def _require_place(path: str, where: Path, root: Root, found: dict[str, Found]) -> None:
    for other, there in found.items():
        if f"{path}/".startswith(f"{other}/") or f"{other}/".startswith(f"{path}/"):
            msg = (
                f"Skill {where} and skill {there.folder.where} would both be served below skill://"
                f"{min(path, other, key=len)}. Rename one, or put it into a folder: "
                f"skills/{root.app.replace('_', '-')}/{where.name}/{SKILL_FILE}."
            )
            raise ImproperlyConfigured(msg)


def _skills_in(folder: Path, root: Path, prefix: str) -> Iterator[tuple[str, Path, ImproperlyConfigured | None]]:
    """Paths and folders of skills, and what is wrong.

    What is inside a skill belongs to it; other folders group skills.
    """
    for each in sorted(folder.iterdir()):
        if is_left_out(each.name) or not each.is_dir():
            continue
        names = [inside.name for inside in each.iterdir() if inside.name.lower() == SKILL_FILE.lower()]
        if SKILL_FILE in names:
            try:
                check_inside(each, root, root)
            except ImproperlyConfigured as error:
                yield f"{prefix}{each.name}", each, error
            else:
                yield f"{prefix}{each.name}", each, None
        elif names:
            msg = f"Skill {each} has a file {names[0]}; it must be called {SKILL_FILE}, in these letters."
            yield f"{prefix}{each.name}", each, ImproperlyConfigured(msg)
        elif NAME.fullmatch(each.name) and not each.is_symlink():
            yield from _skills_in(each, root, f"{prefix}{each.name}/")
