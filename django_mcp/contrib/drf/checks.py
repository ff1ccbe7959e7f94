"""A system check: that the URLconf leads to what is published."""

from collections.abc import Iterator, Sequence
from typing import Any

from django.core.checks import CheckMessage, Error, register
from django.core.exceptions import ImproperlyConfigured
from django.db import Error as DatabaseError
from django.utils.translation import gettext as _

from django_mcp.contrib.drf.operations import addresses, missing
from django_mcp.contrib.drf.requests import Endpoint
from django_mcp.core.server import every_server


@register("django_mcp")
def check_addresses(app_configs: Sequence[Any] | None, **options: Any) -> list[CheckMessage]:  # noqa: ARG001
    """Tools whose calls would end nowhere."""
    return [
        Error(
            _("The tool %(tool)r on %(server)r cannot reach its view. %(missing)s")
            % {"tool": tool.name, "server": server, "missing": missing(endpoint.operation, known)},
            hint=_("Add the view to the URLconf, name variables with path_arguments={…}, or say mounted=False."),
            id="django_mcp.E028",
        )
        for server in every_server()
        for tool in server.tools.values()
        if isinstance(endpoint := getattr(tool, "endpoint", None), Endpoint) and endpoint.mounted
        for known in _unreachable(endpoint)
    ]


def _unreachable(endpoint: Endpoint) -> Iterator[Any]:
    """The addresses of a view, where none of them has the variables that its tool can fill in."""
    try:
        known = addresses(endpoint.operation, endpoint.version)
    except ImproperlyConfigured:  # the URLconf cannot be imported, and whatever is wrong with it is told elsewhere
        return
    try:
        variables = endpoint.described.arguments.variables
    except (ImproperlyConfigured, DatabaseError):  # E029 tells of the first; the second is there before migrate
        return
    version = endpoint.operation.version_variable
    own = {version} if version and endpoint.version is not None else set()
    least, most = {name for name, is_needed in variables.items() if is_needed} | own, {*variables, *own}
    if not any(least <= each.variables.keys() <= most for each in known):
        yield known
