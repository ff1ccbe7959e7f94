"""System checks of view and form tools, which are completed after startup."""

from django.core.checks import CheckMessage, Error
from django.core.exceptions import ImproperlyConfigured
from django.db import Error as DatabaseError
from django.utils.translation import gettext as _

from django_mcp.core.late_tools import LateTool
from django_mcp.core.server import every_server


def check_view_tools() -> list[CheckMessage]:
    """Check that view, form and serializer tools can be completed: URL, method and arguments."""
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
        else _("its definition cannot be built: %(why)r.") % {"why": failure}
    )


ALWAYS = (check_view_tools,)
