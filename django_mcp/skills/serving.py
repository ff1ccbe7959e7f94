"""From the folders of installed apps to endpoints: at the start, and in development whenever a file changes."""

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError
from django.dispatch import receiver
from django.utils.autoreload import autoreload_started, file_changed

from django_mcp.core.server import MCPServer, every_server
from django_mcp.core.signals import server_made
from django_mcp.skills.declaration import check_declared, declared_of
from django_mcp.skills.finding import Found, Root, app_roots, find
from django_mcp.skills.folder import stamp
from django_mcp.skills.methods import EXTENSION, skills_of
from django_mcp.skills.resources import SkillFiles, SkillResource

logger = logging.getLogger("django_mcp")


class Skills:
    """The skills of a site.

    Args:
        roots: gives the folders they are in.
    """

    def __init__(self, roots: Callable[[], Sequence[Root]]) -> None:
        self._roots = roots
        self._lock = threading.Lock()
        self._stamp: Any = None
        self.found: dict[str, Found] = {}
        self.wrong: dict[str, str] = {}
        self.started = False

    def start(self) -> None:
        """Read all skills and serve them. Those that are wrong are left out; a system check tells of them, and the log.

        Raises:
            ImproperlyConfigured: something was said of one that is not there.
        """
        stamped = self._stamped()
        found, self.wrong = find(self._roots())
        for problem in self.wrong.values():
            logger.error("%s (django_mcp.E053)", problem)
        if not self.started:  # a test may take an app away later, of which an mcp.py that is loaded already spoke
            check_declared(found, self.wrong)
        self.found, self._stamp, self.started = found, stamped, True
        self._serve(every_server())
        for each in found.values():
            if not any(each.folder.uri in server.resources for server in every_server()):
                words = "skill %s is served nowhere: no endpoint takes skills, and skill() names none for it"
                logger.warning(words, each.folder.where)

    def refresh(self) -> bool:
        """Read them again if a file changed; whether one did. While one is wrong all stay as they were."""
        with self._lock:
            try:
                stamped = self._stamped()
                if stamped == self._stamp:
                    return False
                found, wrong = find(self._roots())
                if new := [each for path, each in wrong.items() if self.wrong.get(path) != each]:
                    raise ImproperlyConfigured("\n".join(new))
                check_declared(found, wrong)
            except OSError:  # a file that is just being written; the next call looks again
                return False
            except ImproperlyConfigured as error:
                logger.error("%s Until that is mended, skills stay as they were.", error)  # noqa: TRY400
                self._stamp = stamped
                return False
            changed = set(_digests(found).items()) ^ set(_digests(self.found).items())
            self.found, self.wrong, self._stamp = found, wrong, stamped
            if changed:
                self._serve(every_server())
                _tell(dict.fromkeys(uri for uri, _ in changed))
            return bool(changed)

    def place(self, server: MCPServer) -> None:
        """Serve at an endpoint what belongs there and is not there yet."""
        server.refresh = self.refresh if settings.DEBUG else None
        takes = server.takes_skills  # before any is there, for a default endpoint that had nothing else takes none
        there = {each.folder.path for each in skills_of(server)}
        for path, (app, folder) in self.found.items():
            declared = declared_of(path, app)
            wanted = takes if declared.servers is None else server in declared.servers
            if wanted and path not in there:
                for primitive in (SkillResource(folder, **declared.options), SkillFiles(folder, **declared.options)):
                    primitive.extension = EXTENSION
                    server.add(primitive)

    def is_of_a_skill(self, file: Path) -> bool:
        """Whether a file is in the folder of a skill."""
        return any(file.is_relative_to(each.folder.where) for each in self.found.values())

    def _serve(self, servers: Iterable[MCPServer]) -> None:
        for each in servers:
            each.remove(lambda primitive: primitive.extension is EXTENSION)
        for each in servers:
            self.place(each)

    def _stamped(self) -> dict[Root, frozenset[tuple[str, int, int]]]:
        return {root: stamp(root.path) for root in self._roots()}


skills = Skills(app_roots)
"""Those of installed apps."""


def _digests(found: dict[str, Found]) -> dict[str, str]:
    return {
        each.folder.uri_of(file.path): file.digest for each in found.values() for file in each.folder.files.values()
    }


def _tell(uris: Iterable[str]) -> None:
    try:
        for server in every_server():
            if "resources" in server.capabilities:
                server.notify_list_changed("resources")
                for uri in uris:
                    server.notify_resource_updated(uri)
    except DatabaseError:
        logger.warning(
            "nobody who listens is told of changed skills, for the database cannot be written", exc_info=True
        )


@receiver(server_made, dispatch_uid="django_mcp.skills")
def _place_late(sender: MCPServer, **_: Any) -> None:
    """An endpoint made after the start, in a ``urls.py`` say."""
    if skills.started:
        skills.place(sender)


@receiver(autoreload_started, dispatch_uid="django_mcp.skills")
def _watch(sender: Any, **_: Any) -> None:
    """Have ``runserver`` look at the folders, so that clients that listen hear of a change at once."""
    for root in app_roots():
        sender.watch_dir(root.path, "**/*")


@receiver(file_changed, dispatch_uid="django_mcp.skills")
def _on_file_changed(file_path: Path, **_: Any) -> bool | None:
    """A file of a skill is no reason to start anew."""
    return skills.refresh() or skills.is_of_a_skill(file_path) or None
