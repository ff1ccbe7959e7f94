"""``skills/list``, ``skills/get`` and ``resources/directory/read`` (Skills extension)."""

from collections.abc import Iterator
from typing import Any

from django.utils.encoding import iri_to_uri

from django_mcp.core.context import Context
from django_mcp.core.dispatch import page_of
from django_mcp.core.permissions import may_use
from django_mcp.core.server import Extension, MCPServer
from django_mcp.protocol.errors import InvalidParams
from django_mcp.protocol.jsonrpc import Result
from django_mcp.protocol.pagination import decode_cursor, encode_cursor
from django_mcp.skills.folder import SKILL_FILE, Folder
from django_mcp.skills.resources import SkillResource

DIRECTORY = "inode/directory"


def skills_of(server: MCPServer) -> list[SkillResource]:
    """The skills of an endpoint, in the order of its list of resources."""
    return [each for each in server.resources.values() if isinstance(each, SkillResource)]


async def list_skills(context: Context) -> Result:
    """``skills/list``."""
    return await page_of(context, "skills", skills_of(context.server), lambda skill: skill.folder.entry)


async def get_skill(context: Context) -> Result:
    """``skills/get``."""
    uri = _uri(context)
    skill = context.server.resources.get(uri)
    if not isinstance(skill, SkillResource) or not await may_use(context, skill):
        raise InvalidParams(f"No skill is served at {uri[:500]}.")
    return _result(context, skill, {"skill": skill.folder.entry})


async def read_directory(context: Context) -> Result:
    """``resources/directory/read``: what is directly in a skill's folder, or in one of its subfolders."""
    uri = _uri(context)
    after = decode_cursor(context.params.get("cursor"))
    for skill in about(context.server, uri):
        path = _directory(skill.folder, uri)
        if path is not None and await may_use(context, skill):
            entries = list(_children(skill, path))
            shown = entries[after + 1 : after + 1 + context.server.page_size]
            fields: dict[str, Any] = {"resources": shown}
            if (last := after + len(shown)) + 1 < len(entries):
                fields["nextCursor"] = encode_cursor(last)
            return _result(context, skill, fields)
    raise InvalidParams(f"{uri[:500]} is no directory of a skill. Write it without a slash at its end.")


def about(server: MCPServer, uri: str) -> Iterator[SkillResource]:
    """The skill at *uri*, which may be that of its ``SKILL.md`` or of a directory."""
    uri = str(iri_to_uri(uri))
    for skill in skills_of(server):
        if uri == skill.uri or _directory(skill.folder, uri) is not None:
            yield skill


EXTENSION = Extension(
    "io.modelcontextprotocol/skills",
    {"directoryRead": True},
    {"skills/list": list_skills, "skills/get": get_skill, "resources/directory/read": read_directory},
    about,
)


def _uri(context: Context) -> str:
    uri = context.params.get("uri")
    if not isinstance(uri, str):
        raise InvalidParams('"params.uri" must be a string.')
    return str(iri_to_uri(uri))


def _result(context: Context, skill: SkillResource, fields: dict[str, Any]) -> Result:
    return Result(fields, ttl_ms=context.server.ttl_ms, public=not skill.is_guarded)


def _directory(folder: Folder, uri: str) -> str | None:
    """The path of the directory at *uri*, which is empty for the skill's own; None where there is none."""
    if uri == folder.root:
        return ""
    return next((each for each in folder.directories if folder.uri_of(each) == uri), None)


def _children(skill: SkillResource, path: str) -> Iterator[dict[str, Any]]:
    """Files first, ``SKILL.md`` as it is listed elsewhere."""
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
    for each in folder.directories:
        parent, _, name = each.rpartition("/")
        if parent == path:
            yield {"uri": folder.uri_of(each), "name": name, "mimeType": DIRECTORY}
