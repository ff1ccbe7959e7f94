"""The API, and the endpoint."""

from django.urls import include, path

urlpatterns = [path("api/", include("tests.contrib.drf.snippets.urls")), path("", include("django_mcp.urls"))]
