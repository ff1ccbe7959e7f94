"""The package's own URL: ``/mcp``."""

from django.urls import include, path

urlpatterns = [path("", include("mcp_server.urls"))]
