"""Start-up of model resources, and signal receivers for endpoints and tools that are added later."""

from functools import partial
from typing import Any

from django_mcp.core import elicitation
from django_mcp.core import server as core_server
from django_mcp.core.server import MCPServer, every_server, together
from django_mcp.core.signals import primitive_added, server_made
from django_mcp.primitives.base import Primitive
from django_mcp.primitives.tool import Tool


def connect() -> None:
    server_made.connect(_build_late, dispatch_uid="django_mcp.model_resources.registration")
    primitive_added.connect(_bind_late, dispatch_uid="django_mcp.model_resources.registration")
    elicitation.django_forms[:] = [_elicited_form]


def start() -> None:
    """Build all endpoints once every ``mcp.py`` is imported. Later registrations are built immediately.

    Raises:
        ImproperlyConfigured: tools are invalid; the message lists all of them.
    """
    core_server.is_started = True
    together(partial(_build_endpoint, server) for server in every_server())


def _build_endpoint(server: MCPServer) -> None:
    if _has_models(server):
        _build(server)
    else:
        together(partial(bind_model_arguments, server, tool) for tool in server.tools.values())


def _build(server: MCPServer) -> None:
    from django_mcp.model_resources.registry import build  # noqa: PLC0415 - many sites have no models as resources

    build(server)


def bind_model_arguments(server: MCPServer, tool: Tool) -> None:
    tool.bind()
    if tool.is_deferred or tool.read_preview is not None or server.model_resources:
        from django_mcp.model_resources import arguments  # noqa: PLC0415 - most tools take and give no rows

        arguments.bind_model_arguments(server, tool)


def _elicited_form(*arguments: Any) -> Any:
    from django_mcp.model_resources.elicited_forms import ElicitedForm  # noqa: PLC0415 - most sites ask nothing

    return ElicitedForm(*arguments)


def _has_models(server: MCPServer) -> bool:
    return bool(server.model_resources or server.connector) or (
        server.source is not None and bool(server.source.model_resources)
    )


def _build_late(sender: MCPServer, **_: Any) -> None:
    if core_server.is_started and sender.source is not None:
        _build_endpoint(sender)


def _bind_late(sender: MCPServer, primitive: Primitive, **_: Any) -> None:
    # An endpoint that is being made has no models yet: _build_late binds its tools.
    if core_server.is_started and sender.is_made and isinstance(primitive, Tool):
        bind_model_arguments(sender, primitive)
