"""The endpoint beside Django, for ``asgi.py``."""

from django_mcp.endpoint.asgi import Application, MCPApplication

__all__ = ["mcp_application"]


def mcp_application(django_application: Application) -> Application:
    """An ASGI application that serves the MCP endpoints and hands everything else to *django_application*.

    Call it after ``get_asgi_application()``, which sets Django up::

        application = mcp_application(get_asgi_application())

    Raises:
        ImproperlyConfigured: an endpoint has no authentication.
    """
    return MCPApplication(django_application)
