"""The site under WSGI, where the endpoint is a view too."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.conformance.settings")
application = get_wsgi_application()
