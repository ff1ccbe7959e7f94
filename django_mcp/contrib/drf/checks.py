"""A system check: that the URLconf leads to what is published."""

from collections.abc import Iterator, Sequence
from typing import Any

from django.core.checks import CheckMessage, Error, register
from django.core.exceptions import ImproperlyConfigured
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
            hint=_("Add the view to the URLconf, or say version=… or mounted=False."),
            id="django_mcp.E028",
        )
        for server in every_server()
        for tool in server.tools.values()
        if isinstance(endpoint := getattr(tool, "endpoint", None), Endpoint) and endpoint.mounted
        for known in _unreachable(endpoint)
    ]


def _unreachable(endpoint: Endpoint) -> Iterator[Any]:
    """Yield the URLs of a view if each of them needs a version and ``drf_tools`` was given none."""
    try:
        known = addresses(endpoint.operation, endpoint.version)
    except ImproperlyConfigured:  # the URLconf cannot be imported, and whatever is wrong with it is told elsewhere
        return
    unknown = endpoint.operation.version_variable if endpoint.version is None else None
    if not any(unknown not in each.required for each in known):
        yield known
