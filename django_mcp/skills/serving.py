"""Skills as resources and protocol methods (Skills extension), and their reloading."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError
from django.dispatch import receiver
from django.http import Http404
from django.utils.autoreload import autoreload_started, file_changed
from django.utils.encoding import iri_to_uri

from django_mcp.core.after_fork import FreshLock
from django_mcp.core.context import Context
from django_mcp.core.lists import page_of
from django_mcp.core.permissions import may_use
from django_mcp.core.server import Extension, MCPServer, every_server
from django_mcp.core.signals import server_made
from django_mcp.primitives.resource import Resource
from django_mcp.protocol.content import ResourceContents
from django_mcp.protocol.errors import InvalidParams
from django_mcp.protocol.jsonrpc import Result
from django_mcp.protocol.pagination import decode_cursor, encode_cursor
from django_mcp.skills.declaration import check_declarations, skill_options
from django_mcp.skills.skill import SKILL_FILE, File, Folder, FoundSkill, Root, app_roots, find_skills, folder_state

logger = logging.getLogger("django_mcp")


class SkillResource(Resource):
    """The ``SKILL.md`` of a skill, which represents the skill."""

    def __init__(self, folder: Folder, **options: Any) -> None:
        self.folder = folder
        file = folder.files[SKILL_FILE]

        def read_skill() -> ResourceContents:
            return file_contents(file)

        super().__init__(
            read_skill,
            folder.uri,
            context_type=Context,
            name=folder.where.name,
            mime_type=file.media_type,
            size=len(file.data),
            **options,
        )
        self.definition["description"] = folder.front_matter["description"]

    @property
    def label(self) -> str:
        return f"skill {self.folder.path!r} ({self.folder.where})"


class SkillFiles(Resource):
    """The other files of a skill."""

    def __init__(self, folder: Folder, **options: Any) -> None:
        self.folder = folder

        def read_file(path: str) -> ResourceContents:
            if path not in folder.files:
                raise Http404
            return file_contents(folder.files[path])

        def exist(_ctx: Any, wanted: Sequence[Mapping[str, Any]]) -> list[bool]:
            return [skill["path"] in folder.files for skill in wanted]

        super().__init__(
            read_file,
            f"{folder.root}/{{+path}}",
            context_type=Context,
            name=folder.where.name,
            description=f"Files of the skill {folder.where.name!r}, by their paths in its folder.",
            exists=exist,
            unchecked=["path"],  # only compared with the names of files that were read at the start
            **options,
        )

    @property
    def label(self) -> str:
        return f"files of skill {self.folder.path!r} ({self.folder.where})"


def file_contents(file: File) -> ResourceContents:
    return ResourceContents(file.content, mime_type=file.media_type)


DIRECTORY = "inode/directory"


def skills_of(server: MCPServer) -> list[SkillResource]:
    return [resource for resource in server.resources.values() if isinstance(resource, SkillResource)]


async def list_skills(context: Context) -> Result:
    return await page_of(context, "skills", skills_of(context.server), lambda skill: skill.folder.entry)


async def get_skill(context: Context) -> Result:
    """Handle ``skills/get``."""
    uri = _uri(context)
    skill = context.server.resources.get(uri)
    if not isinstance(skill, SkillResource) or not await may_use(context, skill):
        raise InvalidParams(f"No skill found at {uri[:500]}.")
    return _result(context, skill, {"skill": skill.folder.entry})


async def read_directory(context: Context) -> Result:
    """Handle ``resources/directory/read``: the entries of a skill's folder or subfolder."""
    uri = _uri(context)
    after = decode_cursor(context.params.get("cursor"))
    for skill in skills_at(context.server, uri):
        path = _directory(skill.folder, uri)
        if path is not None and await may_use(context, skill):
            entries = list(_children(skill, path))
            shown = entries[after + 1 : after + 1 + context.server.page_size]
            fields: dict[str, Any] = {"resources": shown}
            if (last := after + len(shown)) + 1 < len(entries):
                fields["nextCursor"] = encode_cursor(last)
            return _result(context, skill, fields)
    raise InvalidParams(f"{uri[:500]} is not a directory of a skill. Directory URIs have no trailing slash.")


def skills_at(server: MCPServer, uri: str) -> Iterator[SkillResource]:
    """Yield the skill at *uri*, which may be the URI of its ``SKILL.md`` or of a directory."""
    uri = str(iri_to_uri(uri))
    for skill in skills_of(server):
        if uri == skill.uri or _directory(skill.folder, uri) is not None:
            yield skill


EXTENSION = Extension(
    "io.modelcontextprotocol/skills",
    {"directoryRead": True},
    {"skills/list": list_skills, "skills/get": get_skill, "resources/directory/read": read_directory},
    skills_at,
)


def _uri(context: Context) -> str:
    uri = context.params.get("uri")
    if not isinstance(uri, str):
        raise InvalidParams('"params.uri" must be a string.')
    return str(iri_to_uri(uri))


def _result(context: Context, skill: SkillResource, fields: dict[str, Any]) -> Result:
    return Result(fields, ttl_ms=context.server.ttl_ms, public=not skill.is_guarded)


def _directory(folder: Folder, uri: str) -> str | None:
    """Return the path of the directory at *uri* ("" for the skill's folder), or None."""
    if uri == folder.root:
        return ""
    return next((directory for directory in folder.directories if folder.uri_of(directory) == uri), None)


def _children(skill: SkillResource, path: str) -> Iterator[dict[str, Any]]:
    folder = skill.folder
    for file in folder.files.values():
        if file.path.rpartition("/")[0] != path:
            continue
        if file.path == SKILL_FILE:
            yield skill.definition
        else:
            yield {
                "uri": folder.uri_of(file.path),
                "name": file.name,
                "mimeType": file.media_type,
                "size": len(file.data),
            }
    for directory in folder.directories:
        parent, _, name = directory.rpartition("/")
        if parent == path:
            yield {"uri": folder.uri_of(directory), "name": name, "mimeType": DIRECTORY}


class Skills:
    """The skills in the folders that *roots* returns."""

    def __init__(self, roots: Callable[[], Sequence[Root]]) -> None:
        self._roots = roots
        self._lock = FreshLock()
        self._stamp: Any = None
        self.found: dict[str, FoundSkill] = {}
        self.wrong: dict[str, str] = {}
        self.started = False

    def start(self) -> None:
        """Read and serve all skills. Skills with errors are left out, logged, and reported by a system check.

        Raises:
            ImproperlyConfigured: a declared skill does not exist.
        """
        stamped = self._stamped()
        found, self.wrong = find_skills(self._roots())
        for problem in self.wrong.values():
            logger.error("%s (django_mcp.E053)", problem)
        if not self.started:  # only once: a test may remove an app whose mcp.py is already loaded
            check_declarations(found, self.wrong)
        self.found, self._stamp, self.started = found, stamped, True
        self._serve(every_server())
        for skill in found.values():
            if not any(skill.folder.uri in server.resources for server in every_server()):
                words = "skill %s is not served: no endpoint serves skills, and skill() sets no server for it"
                logger.warning(words, skill.folder.where)

    def refresh(self) -> bool:
        """Reload skills if a file changed, and return True if their content did. After an error the old ones stay."""
        # Several calls may notice a changed file at the same time.
        with self._lock:
            try:
                # Before the files are read, so that one that changes meanwhile is read again.
                stamped = self._stamped()
                if stamped == self._stamp:
                    return False
                found, wrong = find_skills(self._roots())
                if new := [problem for path, problem in wrong.items() if self.wrong.get(path) != problem]:
                    raise ImproperlyConfigured("\n".join(new))
                check_declarations(found, wrong)
            except OSError:  # a file is being written; the next call retries
                return False
            except ImproperlyConfigured as error:
                logger.error("%s Skills were not reloaded.", error)  # noqa: TRY400
                self._stamp = stamped
                return False
            changed = set(_digests(found).items()) ^ set(_digests(self.found).items())
            self.found, self.wrong, self._stamp = found, wrong, stamped
            if changed:
                self._serve(every_server())
                _notify_clients(dict.fromkeys(uri for uri, _ in changed))
            return bool(changed)

    def place(self, server: MCPServer) -> None:
        server.refresh = self.refresh if settings.DEBUG else None
        takes = server.takes_skills  # before adding any: False for a default endpoint without other primitives
        there = {skill.folder.path for skill in skills_of(server)}
        for path, (app, folder) in self.found.items():
            declared = skill_options(path, app)
            wanted = takes if declared.servers is None else server in declared.servers
            if wanted and path not in there:
                for primitive in (SkillResource(folder, **declared.options), SkillFiles(folder, **declared.options)):
                    primitive.extension = EXTENSION
                    server.add(primitive)

    def is_of_a_skill(self, file: Path) -> bool:
        return any(file.is_relative_to(skill.folder.where) for skill in self.found.values())

    def _serve(self, servers: Iterable[MCPServer]) -> None:
        for server in servers:
            server.remove(lambda primitive: primitive.extension is EXTENSION)
        for server in servers:
            self.place(server)

    def _stamped(self) -> dict[Root, frozenset[tuple[str, int, int]]]:
        return {root: folder_state(root.path) for root in self._roots()}


skills = Skills(app_roots)
"""The skills of installed apps."""


def _digests(found: dict[str, FoundSkill]) -> dict[str, str]:
    return {
        skill.folder.uri_of(file.path): file.digest for skill in found.values() for file in skill.folder.files.values()
    }


def _notify_clients(uris: Iterable[str]) -> None:
    try:
        for server in every_server():
            if "resources" in server.capabilities:
                server.notify_list_changed("resources")
                for uri in uris:
                    server.notify_resource_updated(uri)
    except DatabaseError:
        logger.warning("clients were not notified of changed skills: the database cannot be written", exc_info=True)


@receiver(server_made, dispatch_uid="django_mcp.skills")
def _place_late(sender: MCPServer, **_: Any) -> None:
    if skills.started:
        skills.place(sender)


@receiver(autoreload_started, dispatch_uid="django_mcp.skills")
def _watch(sender: Any, **_: Any) -> None:
    # So that clients are notified immediately.
    for root in app_roots():
        sender.watch_dir(root.path, "**/*")


@receiver(file_changed, dispatch_uid="django_mcp.skills")
def _on_file_changed(file_path: Path, **_: Any) -> bool | None:
    return skills.refresh() or skills.is_of_a_skill(file_path) or None
