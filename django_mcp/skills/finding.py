"""Which skills installed apps have: the folders with a ``SKILL.md`` below ``skills/``."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from django.core.exceptions import ImproperlyConfigured

from django_mcp.skills.folder import NAME, SKILL_FILE, Folder, check_inside, is_left_out, read_folder
from django_mcp.skills.starting import Root


class Found(NamedTuple):
    """A skill, and the label of its app."""

    app: str
    folder: Folder


def find(roots: Iterable[Root]) -> dict[str, Found]:
    """All skills, by path.

    Raises:
        ImproperlyConfigured: one is wrong, or two are in each other's way.
    """
    found: dict[str, Found] = {}
    for root in roots:
        for path, where in _skills_in(root.path, root.path, ""):
            for other, there in found.items():
                if f"{path}/".startswith(f"{other}/") or f"{other}/".startswith(f"{path}/"):
                    msg = (
                        f"Skill {where} and skill {there.folder.where} would both be served below skill://"
                        f"{min(path, other, key=len)}. Rename one, or put it into a folder: "
                        f"skills/{root.app.replace('_', '-')}/{where.name}/{SKILL_FILE}."
                    )
                    raise ImproperlyConfigured(msg)
            found[path] = Found(root.app, read_folder(path, where))
    return found


def _skills_in(folder: Path, root: Path, prefix: str) -> Iterator[tuple[str, Path]]:
    """Paths and folders of skills. What is inside a skill belongs to it; other folders group skills."""
    for each in sorted(folder.iterdir()):
        if is_left_out(each.name) or not each.is_dir():
            continue
        names = [inside.name for inside in each.iterdir() if inside.name.lower() == SKILL_FILE.lower()]
        if SKILL_FILE in names:
            check_inside(each, root, root)
            yield f"{prefix}{each.name}", each
        elif names:
            msg = f"Skill {each} has a file {names[0]}; it must be called {SKILL_FILE}, in these letters."
            raise ImproperlyConfigured(msg)
        elif NAME.fullmatch(each.name) and not each.is_symlink():
            yield from _skills_in(each, root, f"{prefix}{each.name}/")
