"""Any of the Django peers under ASGI: ``DJANGO_SETTINGS_MODULE`` says which."""

from django.core.asgi import get_asgi_application

application = get_asgi_application()
