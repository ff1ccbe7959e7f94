"""System checks that cost a start nothing: their modules are imported when Django asks for checks.

Servers never ask. ``manage.py`` does, for most of its commands.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from django.core import checks

if TYPE_CHECKING:
    from django_mcp.core.registry import MCPServer
    from django_mcp.primitives.tool import Tool

Check = Callable[..., Iterable[checks.CheckMessage]]

ALWAYS, DEPLOY, DATABASE = "always", "deploy", "database"
_found: dict[str, list[Check]] = {ALWAYS: [], DEPLOY: [], DATABASE: []}
_modules: dict[str, None] = {}


def add(check: Check, when: str = ALWAYS) -> Check:
    """Have Django ask *check*, which is called as Django calls checks.

    Args:
        check: gives what it finds.
        when: ``ALWAYS``; ``DEPLOY``, for ``manage.py check --deploy``; ``DATABASE``, where a database may be asked.
    """
    _found[when].append(check)
    return check


def described(server: "MCPServer") -> "Iterator[Tool]":
    """Give the tools of an endpoint whose definition can be made here.

    Some need the database for it, and checks are also run where there is none yet: before ``migrate``.
    """
    return (tool for tool in server.tools.values() if tool.find_failure() is None)


def expect(modules: Iterable[str]) -> None:
    """Have Django ask the checks in *modules*, which are imported then."""
    _modules.update(dict.fromkeys(modules))
    checks.register(_ask[ALWAYS], "django_mcp")
    checks.register(_ask[DEPLOY], "django_mcp", deploy=True)
    checks.register(_ask[DATABASE], checks.Tags.database)


def _found_now(when: str, app_configs: Any, **options: Any) -> list[checks.CheckMessage]:
    for name in _modules:
        import_module(name)
    return [message for check in _found[when] for message in check(app_configs, **options)]


# Django keeps a set of them, so that none is asked twice where an app is made ready twice.
_ask = {when: partial(_found_now, when) for when in _found}
