"""Django's ASGI handler alone: the endpoint is one of its views."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.conformance.settings")
application = get_asgi_application()
