"""The endpoint beside Django, which gives out static files too."""

import os

from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.real_browser.site.settings")
django_application = ASGIStaticFilesHandler(get_asgi_application())

from django_mcp.asgi import mcp_application  # noqa: E402 - Django has to be set up before

application = mcp_application(django_application)
