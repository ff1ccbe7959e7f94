"""Skills on disk: finding folders with a ``SKILL.md``, reading and validating them."""

import datetime
import hashlib
import json
import mimetypes
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from django.apps import apps
from django.core.exceptions import ImproperlyConfigured

from django_mcp.protocol.json_schema import is_string_list

FrontMatter = dict[str, Any]

SKILL_FILE = "SKILL.md"
MAX_FILES = 512
MAX_BYTES = 16 * 1024 * 1024
"""Limits that every host supports (Skills extension, Limits)."""
NAME = re.compile(r"(?=.{1,64}\Z)[a-z0-9]+(-[a-z0-9]+)*")
LONGEST = {"description": 1024, "compatibility": 500}
"""Limits in characters (Agent Skills, Frontmatter)."""
RESERVED = "io.modelcontextprotocol/"
_FRONT_MATTER = re.compile(r"---[ ]*\r?\n(.*?)^---[ ]*\r?$", re.DOTALL | re.MULTILINE)
MEDIA_TYPES = {
    ".md": "text/markdown",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".ts": "text/x-typescript",
}
"""Types that some Python versions lack or map differently."""


@cache
def media_types() -> mimetypes.MimeTypes:
    """Return Python's built-in media types, without those of this machine, so that skills are the same everywhere.

    Created on first use, because it also reads the machine's files.
    """
    return mimetypes.MimeTypes()


@dataclass(frozen=True, slots=True)
class File:
    """A file of a skill. ``path`` is relative to the skill's folder."""

    path: str
    data: bytes = field(repr=False)
    digest: str

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def content(self) -> str | bytes:
        """A string if the bytes are UTF-8 text without NUL, otherwise bytes."""
        try:
            text = self.data.decode()
        except UnicodeDecodeError:
            return self.data
        return self.data if "\0" in text else text

    @property
    def media_type(self) -> str:
        known, encoding = media_types().guess_type(self.name)
        if encoding is not None:
            return f"application/{encoding}" if encoding == "gzip" else "application/octet-stream"
        by_content = "text/plain" if isinstance(self.content, str) else "application/octet-stream"
        return MEDIA_TYPES.get(os.path.splitext(self.name)[1].lower()) or known or by_content  # noqa: PTH122


@dataclass(frozen=True)
class Folder:
    """A skill's folder, as read from disk.

    Attributes:
        path: path of the skill, such as ``plan-a-trip`` or ``billing/refunds``.
        where: its location on disk.
        files: by path, ``SKILL.md`` first.
        directories: paths of subfolders.
    """

    path: str
    where: Path
    front_matter: FrontMatter
    files: Mapping[str, File] = field(repr=False)
    directories: tuple[str, ...]

    @property
    def root(self) -> str:
        return f"skill://{self.path}"

    @property
    def uri(self) -> str:
        return self.uri_of(SKILL_FILE)

    def uri_of(self, path: str) -> str:
        return f"{self.root}/{quote(path, safe='/~!$&()*+,;=:@')}"

    @cached_property
    def entry(self) -> dict[str, object]:
        """The ``Skill`` object (Skills extension, Skill Entries)."""
        resources = [
            {"uri": self.uri_of(file.path), "digest": file.digest, "size": len(file.data)}
            for file in self.files.values()
        ]
        return {"uri": self.uri, "frontmatter": self.front_matter, "resources": resources}


def read_folder(path: str, where: Path) -> Folder:
    """Read the skill in the folder *where*, or raise ImproperlyConfigured naming the file and the problem."""
    paths, directories = _walk(where)
    if (size := sum(file.stat().st_size for file in paths.values())) > MAX_BYTES:
        raise _error(where, f"has {size:,} bytes in its files; a skill has at most {MAX_BYTES:,}.")
    files = {}
    for name in sorted(paths, key=lambda name: (name != SKILL_FILE, name)):
        data = paths[name].read_bytes()
        files[name] = File(name, data, f"sha256:{hashlib.sha256(data).hexdigest()}")
    front_matter = _read_front_matter(files[SKILL_FILE].data, where)
    return Folder(path, where, front_matter, files, tuple(sorted(directories)))


def folder_state(root: Path) -> frozenset[tuple[str, int, int]]:
    """Return the modification times and sizes of everything below *root*."""
    found = []
    for parent, directories, names in os.walk(root):
        directories[:] = [directory for directory in directories if not is_ignored(directory)]
        for name in (*directories, *(name for name in names if not is_ignored(name))):
            status = (Path(parent) / name).lstat()
            found.append((os.path.join(parent, name), status.st_mtime_ns, status.st_size))  # noqa: PTH118
    return frozenset(found)


def is_ignored(name: str) -> bool:
    return name.startswith(".") or name == "__pycache__" or name.endswith(".pyc")


def check_inside(path: Path, root: Path, where: Path) -> None:
    if path.is_symlink() and not path.resolve().is_relative_to(root.resolve()):
        raise _error(where, f"has a link that leads out of it: {path}. Copy the target into the folder.")


def _walk(where: Path) -> tuple[dict[str, Path], list[str]]:
    files: dict[str, Path] = {}
    directories: list[str] = []
    for file in _inside(where, where):
        path = file.relative_to(where).as_posix()
        try:
            path.encode()
        except UnicodeEncodeError:
            raise _error(where, f"has a file name that is not UTF-8: {path!r}.") from None
        if file.is_dir():
            directories.append(path)
        else:
            files[path] = file
        if len(files) > MAX_FILES:
            raise _error(where, f"has more than {MAX_FILES} files, the limit for a skill.")
    return files, directories


def _inside(folder: Path, where: Path) -> Iterator[Path]:
    for entry in sorted(folder.iterdir()):
        if is_ignored(entry.name):
            continue
        if entry.is_symlink() and not entry.exists():
            raise _error(where, f"has a broken link: {entry}.")
        check_inside(entry, where, where)
        kind = entry.stat().st_mode
        if stat.S_ISDIR(kind) and entry.is_symlink():
            raise _error(where, f"has a link to a folder: {entry}. Only files may be linked to.")
        if not stat.S_ISDIR(kind) and not stat.S_ISREG(kind):
            raise _error(where, f"has an entry that is neither a file nor a folder: {entry}.")
        yield entry
        if stat.S_ISDIR(kind):
            yield from _inside(entry, where)


def _read_front_matter(data: bytes, where: Path) -> FrontMatter:
    try:
        found = read_front_matter(data.decode())
    except UnicodeDecodeError as error:
        raise _error(where / SKILL_FILE, f"is not UTF-8: {error.reason} at byte {error.start}.") from None
    except ValueError as error:
        raise _error(where / SKILL_FILE, f"cannot be read: {error}.") from None
    for problem in _problems(found, where.name):
        raise _error(where / SKILL_FILE, problem)
    return found


def read_front_matter(text: str) -> FrontMatter:
    """Return the YAML mapping at the beginning of *text* as JSON values. Dates become strings.

    Raises:
        ValueError: it is missing, not valid YAML, or cannot be represented in JSON.
    """
    found = _FRONT_MATTER.match(text)
    if found is None:
        raise ValueError("it must begin with a line '---', followed by name, description and a second line '---'")
    import yaml  # noqa: PLC0415 - only for sites with skills

    try:
        values = yaml.safe_load("\n" + found[1])  # for the "---", so that line numbers are those of the file
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = "" if mark is None else f"line {mark.line + 1}: "
        raise ValueError(f"{line}{error.problem or error}. Text with ': ', '#' or quotes in it needs quotes") from None
    except yaml.YAMLError as error:
        raise ValueError(f"it is not valid YAML: {error}") from None
    if not isinstance(values, dict):
        raise ValueError("it must be a mapping, such as 'name: plan-a-trip' on a line of its own")  # noqa: TRY004
    try:
        encoded = json.dumps(values, default=_as_text, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"it has a value that JSON cannot represent ({error}); put it in quotes") from None
    return json.loads(encoded)  # type: ignore[no-any-return]


def _as_text(value: Any) -> str:
    if isinstance(value, datetime.date):
        return value.isoformat()
    raise TypeError(f"{value!r}")


def _problems(found: FrontMatter, folder: str) -> Iterator[str]:
    name, described = found.get("name"), found.get("description")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        yield f"needs a name of 1 to 64 lower-case letters, digits and single hyphens, not {name!r}."
    if name != folder:
        yield f"has the name {name!r}, but its folder is called {folder!r}; both must be the same."
    if not isinstance(described, str) or not described.strip():
        yield f"needs a description: what the skill does, and when to use it; not {described!r}."
    for key in ("license", "compatibility", "allowed-tools"):
        if (
            key in found
            and not isinstance(found[key], str)
            and not (key == "allowed-tools" and is_string_list(found[key]))
        ):
            yield f"has a {key} that is not a string: {found[key]!r}."
    for key, most in LONGEST.items():
        if len(str(found.get(key, ""))) > most:
            yield f"has a {key} of {len(found[key])} characters; at most {most} are allowed."
    metadata = found.get("metadata", {})
    if not isinstance(metadata, dict):
        yield "has metadata that is not a mapping, such as 'author: me' on an indented line."
    elif reserved := [key for key in metadata if key.startswith(RESERVED)]:
        yield f"has metadata {reserved[0]!r}; keys that begin with {RESERVED} are reserved for the protocol."


def _error(where: Path, words: str) -> ImproperlyConfigured:
    return ImproperlyConfigured(f"Skill {where} {words}")


class Root(NamedTuple):
    """A folder of skills in an app."""

    app: str
    path: Path


class FoundSkill(NamedTuple):
    """A skill and the label of its app."""

    app: str
    folder: Folder


def app_roots() -> list[Root]:
    roots = (Root(app_config.label, Path(app_config.path) / "skills") for app_config in apps.get_app_configs())
    return [root for root in roots if root.path.is_dir()]


def find_skills(roots: Iterable[Root]) -> tuple[dict[str, FoundSkill], dict[str, str]]:
    """Return the skills by path, and the errors of skills that cannot be served by path."""
    found: dict[str, FoundSkill] = {}
    wrong: dict[str, str] = {}
    for root in roots:
        for path, where, problem in _skills_in(root.path, root.path, ""):
            try:
                if problem is not None:
                    raise problem
                _require_place(path, where, root, found)
                found[path] = FoundSkill(root.app, read_folder(path, where))
            except ImproperlyConfigured as error:
                wrong[path] = "\n".join(filter(None, [wrong.get(path), str(error)]))
    return found, wrong


def _require_place(path: str, where: Path, root: Root, found: dict[str, FoundSkill]) -> None:
    for other, there in found.items():
        if f"{path}/".startswith(f"{other}/") or f"{other}/".startswith(f"{path}/"):
            msg = (
                f"Skill {where} and skill {there.folder.where} would both be served below skill://"
                f"{min(path, other, key=len)}. Rename one, or move it to a folder: "
                f"skills/{root.app.replace('_', '-')}/{where.name}/{SKILL_FILE}."
            )
            raise ImproperlyConfigured(msg)


def _skills_in(folder: Path, root: Path, prefix: str) -> Iterator[tuple[str, Path, ImproperlyConfigured | None]]:
    # Folders without SKILL.md group skills.
    for entry in sorted(folder.iterdir()):
        if is_ignored(entry.name) or not entry.is_dir():
            continue
        names = [inside.name for inside in entry.iterdir() if inside.name.lower() == SKILL_FILE.lower()]
        if SKILL_FILE in names:
            try:
                check_inside(entry, root, root)
            except ImproperlyConfigured as error:
                yield f"{prefix}{entry.name}", entry, error
            else:
                yield f"{prefix}{entry.name}", entry, None
        elif names:
            msg = f"Skill {entry} has a file {names[0]}; it must be named {SKILL_FILE} (case-sensitive)."
            yield f"{prefix}{entry.name}", entry, ImproperlyConfigured(msg)
        elif NAME.fullmatch(entry.name) and not entry.is_symlink():
            yield from _skills_in(entry, root, f"{prefix}{entry.name}/")
