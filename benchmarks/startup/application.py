"""The site under ASGI; with the endpoint beside Django, where it is installed."""

from collections.abc import Awaitable, Callable
from typing import Any

from django.apps import apps
from django.core.asgi import get_asgi_application

Application = Callable[[Any, Any, Any], Awaitable[None]]

application: Application = get_asgi_application()
if apps.is_installed("django_mcp"):
    from django_mcp.asgi import mcp_application

    application = mcp_application(application)
