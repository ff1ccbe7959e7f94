"""The endpoint as a Django view."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.doctor.site.settings")
application = get_wsgi_application()
