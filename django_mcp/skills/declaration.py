"""``skill()``: for whom a skill is, and where."""

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from django.core.exceptions import ImproperlyConfigured

from django_mcp.core.context import Context
from django_mcp.core.decorators import servers_of
from django_mcp.core.server import MCPServer
from django_mcp.skills.skill import Found

Key = tuple[str | None, str | None]
"""App and path, one of them None."""


class Declared(NamedTuple):
    """What was said of a skill, or of all skills of an app.

    Attributes:
        servers: where; None for wherever skills are served that do not say.
        options: of the primitives that are made of it, those that were given.
    """

    servers: Sequence[MCPServer] | None
    options: dict[str, Any]


_declared: dict[Key, Declared] = {}


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
    """Say for whom a skill is, and where: ``skill("plan-a-trip", permission="travel.view_booking")``.

    Skills nobody speaks of are for everybody who may call the default endpoint, and those with ``skills=True``. What is
    not said of a skill is as it is said of its app.

    Args:
        path: of the skill below ``skills/``, like ``"plan-a-trip"`` or ``"billing/refunds"``.
        app: instead of *path*, the label of an app: all its skills are meant.
        permission: like ``"travel.view_booking"``, or several in a list; without all of them neither the skill nor its
            files exist for the caller.
        groups: names of Django groups; for whoever is in none of them it does not exist.
        scopes: OAuth scopes that it needs besides those of the endpoint.
        visible: takes the ``Context``, tells whether it exists for the caller; see ``tool``.
        tags: words by which endpoints choose it (``MCPServer(include_tags=…)``).
        server: where to serve it, at one endpoint or several, and nowhere else.

    Raises:
        ImproperlyConfigured: neither or both of *path* and *app* are given, or it was said before. At the start also
            where there is no such skill, or no skill in such an app.
    """
    key = (app, path)
    if (path is None) == (app is None):
        msg = "skill() takes the path of a skill, or the label of an app as app=…, and not both."
        raise ImproperlyConfigured(msg)
    if key in _declared:
        msg = f"skill(): {_named(key)} was spoken of before; say all of it in one place."
        raise ImproperlyConfigured(msg)
    given = {"permission": permission, "groups": groups, "scopes": scopes, "visible": visible, "tags": tags}
    servers = None if server is None else servers_of(server)
    if wrong := [each for each in servers or () if not isinstance(each, MCPServer)]:
        msg = f"skill({_named(key)}): a skill goes to endpoints, not to {wrong[0]!r}, for its name is its folder's."
        raise ImproperlyConfigured(msg)
    options = {name: value for name, value in given.items() if value is not None}
    _declared[key] = Declared(servers, options)  # type: ignore[arg-type]


def has_declarations() -> bool:
    """Return True if ``skill()`` was called."""
    return bool(_declared)


def declared_of(path: str, app: str) -> Declared:
    """All that was said of a skill and of its app."""
    own, general = (_declared.get(key, Declared(None, {})) for key in ((None, path), (app, None)))
    servers = general.servers if own.servers is None else own.servers
    return Declared(servers, {**general.options, **own.options})


def check_declared(found: dict[str, Found], wrong: Collection[str] = ()) -> None:
    """Refuse what was said of skills that are not there: somebody may rely on their being hidden.

    Args:
        found: the skills that are served.
        wrong: paths of those that are not, for something is wrong with them.

    Raises:
        ImproperlyConfigured: there is something like that.
    """
    apps = {each.app for each in found.values()}
    for key in _declared:
        app, path = key
        if path not in found and path not in wrong and app not in apps and not (wrong and path is None):
            there = ", ".join(map(repr, found)) or "none"
            msg = f"skill({_named(key)}): no installed app has that in a folder skills/. There are: {there}."
            raise ImproperlyConfigured(msg)


def _named(key: Key) -> str:
    app, path = key
    return f"app={app!r}" if path is None else repr(path)
