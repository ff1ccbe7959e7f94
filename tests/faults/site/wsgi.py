"""The endpoints as Django views, under WSGI."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.faults.site.settings")
application = get_wsgi_application()
