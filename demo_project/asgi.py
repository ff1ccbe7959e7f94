"""The ASGI application: the MCP endpoint beside Django, under Channels."""

import os

from channels.routing import ProtocolTypeRouter
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "demo_project.settings")

django_application = get_asgi_application()

from django_mcp.asgi import mcp_application  # noqa: E402 - Django has to be set up before

application = ProtocolTypeRouter({"http": mcp_application(django_application)})
