"""The API, and the endpoint."""

from django.urls import include, path

urlpatterns = [path("api/", include("tests.rest_framework.snippets.urls")), path("", include("django_mcp.urls"))]
