"""``skill()``: permissions and endpoints of skills."""

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from django.core.exceptions import ImproperlyConfigured

from django_mcp.core.context import Context
from django_mcp.core.decorators import servers_of
from django_mcp.core.server import MCPServer
from django_mcp.skills.skill import FoundSkill

Key = tuple[str | None, str | None]
"""App label and path, one of them None."""


class SkillOptions(NamedTuple):
    """The options of a skill, or of all skills of an app.

    Attributes:
        servers: endpoints; None for all endpoints that serve skills.
        options: the given options of its primitives.
    """

    servers: Sequence[MCPServer] | None
    options: dict[str, Any]


_declared: dict[Key, SkillOptions] = {}


def skill(
    path: str | None = None,
    *,
    app: str | None = None,
    permission: str | Sequence[str] | None = None,
    groups: Sequence[str] | None = None,
    scopes: Sequence[str] | None = None,
    visible: Callable[[Context], bool] | None = None,
    tags: Collection[str] | None = None,
    server: MCPServer | Sequence[MCPServer] | None = None,
) -> None:
    """Set the permissions and endpoints of a skill: ``skill("plan-a-trip", permission="travel.view_booking")``.

    Other skills are available to every caller of the default endpoint and of endpoints with ``skills=True``. Options
    that are not given are those of the skill's app.

    Args:
        path: path of the skill below ``skills/``, such as ``"plan-a-trip"`` or ``"billing/refunds"``.
        app: an app label instead of *path*, for all its skills.
        permission: permission such as ``"travel.view_booking"``, or a list of them. The skill and its files are hidden
            from callers without all of them.
        groups: names of Django groups. Callers in none of them cannot see the skill.
        scopes: OAuth scopes required in addition to those of the endpoint.
        visible: function that takes the ``Context`` and returns True if the caller may see the skill; see ``tool``.
        tags: tags for selection by endpoints (``MCPServer(include_tags=…)``).
        server: the only endpoint or endpoints to serve it at.

    Raises:
        ImproperlyConfigured: not exactly one of *path* and *app* was given, or it was declared twice. At startup also
            if the skill does not exist or the app has no skills.
    """
    key = (app, path)
    if (path is None) == (app is None):
        msg = "skill() takes either the path of a skill or the label of an app as app=…."
        raise ImproperlyConfigured(msg)
    if key in _declared:
        msg = f"skill(): {_named(key)} was already declared; combine all options in one call."
        raise ImproperlyConfigured(msg)
    given = {"permission": permission, "groups": groups, "scopes": scopes, "visible": visible, "tags": tags}
    servers = None if server is None else servers_of(server)
    if wrong := [entry for entry in servers or () if not isinstance(entry, MCPServer)]:
        msg = f"skill({_named(key)}): server must be an endpoint, not {wrong[0]!r}; skills have no namespace."
        raise ImproperlyConfigured(msg)
    options = {name: value for name, value in given.items() if value is not None}
    _declared[key] = SkillOptions(servers, options)  # type: ignore[arg-type]


def has_declarations() -> bool:
    return bool(_declared)


def skill_options(path: str, app: str) -> SkillOptions:
    own, general = (_declared.get(key, SkillOptions(None, {})) for key in ((None, path), (app, None)))
    servers = general.servers if own.servers is None else own.servers
    return SkillOptions(servers, {**general.options, **own.options})


def check_declarations(found: dict[str, FoundSkill], wrong: Collection[str] = ()) -> None:
    """Raise ImproperlyConfigured for options of skills that do not exist: the site may rely on them being hidden.

    *wrong* are paths of skills with errors.
    """
    apps = {skill.app for skill in found.values()}
    for key in _declared:
        app, path = key
        if path not in found and path not in wrong and app not in apps and not (wrong and path is None):
            there = ", ".join(map(repr, found)) or "none"
            msg = f"skill({_named(key)}): no installed app has such a skill in its folder skills/. Found: {there}."
            raise ImproperlyConfigured(msg)


def _named(key: Key) -> str:
    app, path = key
    return f"app={app!r}" if path is None else repr(path)
