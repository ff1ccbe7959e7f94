"""The endpoint beside Django."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.contrib.ninja.site.settings")
django_application = get_asgi_application()

from django_mcp.asgi import mcp_application  # noqa: E402 - Django has to be set up before

application = mcp_application(django_application)
