"""The endpoint beside Django, for ``asgi.py``."""

from collections.abc import Awaitable, Callable
from typing import Any

__all__ = ["mcp_application"]

Application = Callable[[Any, Any, Any], Awaitable[None]]


def mcp_application(django_application: Application) -> Application:
    """An ASGI application that serves the MCP endpoints and hands everything else to *django_application*.

    Call it after ``get_asgi_application()``, which sets Django up; it may be imported before::

        application = mcp_application(get_asgi_application())

    Raises:
        ImproperlyConfigured: an endpoint has no authentication.
    """
    from django_mcp.transports.asgi import MCPApplication  # noqa: PLC0415 - needs the app registry

    return MCPApplication(django_application)
