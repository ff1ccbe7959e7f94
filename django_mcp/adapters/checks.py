"""System checks of what was declared before there was a URLconf."""

from collections.abc import Iterator, Sequence
from typing import Any

from django.core.checks import CheckMessage, Error, Warning  # noqa: A004
from django.core.exceptions import ImproperlyConfigured
from django.db import Error as DatabaseError
from django.utils.translation import gettext as _

from django_mcp.adapters.forms import OpenFormTool
from django_mcp.adapters.late_tools import LateTool
from django_mcp.auth.checks.base import check, lets_everybody_in
from django_mcp.core.checking import add
from django_mcp.core.registry import every_server, servers


@add
def check_view_tools(app_configs: Sequence[Any] | None, **options: Any) -> list[CheckMessage]:  # noqa: ARG001
    """Tools of views that no URL leads to, or that do not take the method; and views and forms that cannot be read."""
    tools = [tool for server in every_server() for tool in server.tools.values() if isinstance(tool, LateTool)]
    found = [(tool.name, problem) for tool in tools if (problem := _problem(tool)) is not None]
    return [
        Error(_("Tool %(name)r: %(problem)s") % {"name": name, "problem": problem}, id="django_mcp.E029")
        for name, problem in found
    ]


def _problem(tool: LateTool) -> str | None:
    failure = tool.find_failure()
    if failure is None or isinstance(failure, DatabaseError):  # checks are run before migrate, too
        return None
    return (
        str(failure)
        if isinstance(failure, ImproperlyConfigured)
        else _("it cannot be described: %(why)r.") % {"why": failure}
    )


@check(deploy=True)
def check_open_forms() -> Iterator[CheckMessage]:
    """Forms of models through which anybody on the internet may write rows."""
    for server in servers():
        tools = server.tools.values() if lets_everybody_in(server) else ()
        if names := [tool.name for tool in tools if isinstance(tool, OpenFormTool) and not tool.is_guarded]:
            yield Warning(
                _("%(server)r lets everybody in, and anybody may write rows through forms of models: %(tools)s.")
                % {"server": server, "tools": ", ".join(names)},
                hint=_(
                    "Remove permission=None, so that they take the model's permission. If really everybody may, say so "
                    "with SILENCED_SYSTEM_CHECKS."
                ),
                obj=server,
                id="django_mcp.W019",
            )
