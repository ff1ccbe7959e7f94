"""The endpoints as Django views, under ASGI."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.faults.site.settings")
application = get_asgi_application()
