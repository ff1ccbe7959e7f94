"""A skill as primitives of an endpoint: its ``SKILL.md`` is a resource, its other files fit a template."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.http import Http404

from django_mcp.core.context import Context
from django_mcp.primitives.resource import Resource
from django_mcp.protocol.content import ResourceContents
from django_mcp.skills.folder import SKILL_FILE, File, Folder


class SkillResource(Resource):
    """The ``SKILL.md`` of a skill, and so the skill itself.

    Args:
        folder: the skill as it was read.
        options: who may know of it; see ``Primitive``.
    """

    def __init__(self, folder: Folder, **options: Any) -> None:
        self.folder = folder
        file = folder.files[SKILL_FILE]

        def read_skill() -> ResourceContents:
            return contents(file)

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
        """For messages to the site's owner."""
        return f"skill {self.folder.path!r} ({self.folder.where})"


class SkillFiles(Resource):
    """The other files of a skill."""

    def __init__(self, folder: Folder, **options: Any) -> None:
        self.folder = folder

        def read_file(path: str) -> ResourceContents:
            if path not in folder.files:
                raise Http404
            return contents(folder.files[path])

        def exist(_ctx: Any, wanted: Sequence[Mapping[str, Any]]) -> list[bool]:
            return [each["path"] in folder.files for each in wanted]

        super().__init__(
            read_file,
            f"{folder.root}/{{+path}}",
            context_type=Context,
            name=folder.where.name,
            description=f"Files of the skill {folder.where.name!r}, by their paths in its folder.",
            exists=exist,
            **options,
        )

    @property
    def label(self) -> str:
        """For messages to the site's owner."""
        return f"files of skill {self.folder.path!r} ({self.folder.where})"


def contents(file: File) -> ResourceContents:
    """A file, as a client reads it."""
    return ResourceContents(file.content, mime_type=file.media_type)
