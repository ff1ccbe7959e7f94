"""The ASGI application that serves MCP endpoints next to Django, for ``asgi.py``."""

from collections.abc import Awaitable, Callable
from typing import Any

__all__ = ["mcp_application"]

Application = Callable[[Any, Any, Any], Awaitable[None]]


def mcp_application(django_application: Application) -> Application:
    """Return an ASGI application that serves the MCP endpoints and passes other requests to *django_application*.

    Call it after ``get_asgi_application()``, which sets up Django; importing it earlier is safe::

        application = mcp_application(get_asgi_application())
    """
    from django_mcp.transports.asgi import MCPApplication  # noqa: PLC0415 - needs the app registry

    return MCPApplication(django_application)
