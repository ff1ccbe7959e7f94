"""System checks of what was declared before there was a URLconf."""

from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage, Error
from django.utils.translation import gettext as _

from django_mcp.adapters.view_tools import ViewTool
from django_mcp.core.checking import add
from django_mcp.core.registry import every_server


@add
def check_view_tools(app_configs: Sequence[Any] | None, **options: Any) -> list[CheckMessage]:  # noqa: ARG001
    """Tools of views that no URL leads to, or that do not take the method."""
    tools = [tool for server in every_server() for tool in server.tools.values() if isinstance(tool, ViewTool)]
    found = [(tool.name, problem) for tool in tools if (problem := tool.find_problem()) is not None]
    return [
        Error(_("Tool %(name)r: %(problem)s") % {"name": name, "problem": problem}, id="django_mcp.E029")
        for name, problem in found
    ]
