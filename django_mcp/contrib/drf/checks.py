"""System check that views of ``drf_tools`` are in the URLconf."""

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
    """Check that each tool's view can be reached by a URL."""
    return [
        Error(
            _("The tool %(tool)r on %(server)r cannot reach its view. %(missing)s")
            % {"tool": tool.name, "server": server, "missing": missing(endpoint.operation, known)},
            hint=_("Add the view to the URLconf, or set version=… or mounted=False."),
            id="django_mcp.E028",
        )
        for server in every_server()
        for tool in server.tools.values()
        if isinstance(endpoint := getattr(tool, "endpoint", None), Endpoint) and endpoint.mounted
        for known in _unreachable(endpoint)
    ]


def _unreachable(endpoint: Endpoint) -> Iterator[Any]:
    """Yield the URLs of a view if all of them need a version that is not set."""
    try:
        known = addresses(endpoint.operation, endpoint.version)
    except ImproperlyConfigured:  # the URLconf cannot be imported; other checks report it
        return
    unknown = endpoint.operation.version_variable if endpoint.version is None else None
    if not any(unknown not in each.required for each in known):
        yield known
