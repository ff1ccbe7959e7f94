"""The site under WSGI, where the endpoint is a Django view."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchmarks.site.settings")
application = get_wsgi_application()
