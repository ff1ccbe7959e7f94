"""System check that views of ``drf_tools`` are in the URLconf."""

from collections.abc import Iterator, Sequence
from typing import Any

from django.core.checks import CheckMessage, Error, register
from django.core.exceptions import ImproperlyConfigured
from django.utils.translation import gettext as _

from django_mcp.contrib.drf.operations import Operation, addresses, missing_url_message, relatives
from django_mcp.contrib.drf.requests import Endpoint
from django_mcp.core.server import every_server


@register("django_mcp")
def check_addresses(app_configs: Sequence[Any] | None, **options: Any) -> list[CheckMessage]:  # noqa: ARG001
    """Check that each tool's view can be reached by a URL."""
    return [
        Error(
            _("The tool %(tool)r on %(server)r cannot reach its view. %(missing)s")
            % {"tool": tool.name, "server": server, "missing": missing_url_message(endpoint.operation, known)},
            hint=_remedy(endpoint.operation),
            id="django_mcp.E028",
        )
        for server in every_server()
        for tool in server.tools.values()
        if isinstance(endpoint := getattr(tool, "endpoint", None), Endpoint) and endpoint.mounted
        for known in _unreachable(endpoint)
    ]


@register("django_mcp")
def check_arguments(app_configs: Sequence[Any] | None, **options: Any) -> list[CheckMessage]:  # noqa: ARG001
    """Check that each name in ``arguments=`` of ``drf_tools`` is one of an operation."""
    declared: dict[int, tuple[Any, set[str], list[str]]] = {}
    for server in every_server():
        for tool in server.tools.values():
            if isinstance(endpoint := getattr(tool, "endpoint", None), Endpoint) and tool.find_failure() is None:
                tool_options = endpoint.described.tool_options
                found = declared.setdefault(id(tool_options), (tool_options, set(), []))
                found[1].update(location.name for location in endpoint.described.arguments.locations.values())
                found[2].append(tool.name)
    return [
        Error(
            _("arguments= of drf_tools renames %(name)r, which none of %(tools)s has.")
            % {"name": name, "tools": ", ".join(tools)},
            hint=_("They have %(known)s.") % {"known": ", ".join(sorted(known)) or _("no arguments")},
            id="django_mcp.E064",
        )
        for tool_options, known, tools in declared.values()
        for name in tool_options.arguments
        if name not in known
    ]


def _remedy(operation: Operation) -> str:
    general = _("Add the view to the URLconf, or set version=… or mounted=False.")
    if not (routed := relatives(operation)):
        return general
    return general + " " + _("Or publish %(views)s, which is in the URLconf.") % {"views": ", ".join(routed)}


def _unreachable(endpoint: Endpoint) -> Iterator[Any]:
    """Yield the URLs of a view if all of them need a version that is not set."""
    try:
        known = addresses(endpoint.operation, endpoint.version)
    except ImproperlyConfigured:  # the URLconf cannot be imported; other checks report it
        return
    unknown = endpoint.operation.version_variable if endpoint.version is None else None
    if not any(unknown not in address.required for address in known):
        yield known
