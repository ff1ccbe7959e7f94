"""The endpoints at the ASGI edge."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchmarks.scale.site.settings")
django_application = get_asgi_application()

from django_mcp.asgi import mcp_application  # noqa: E402  # needs the apps to be ready

application = mcp_application(django_application)
