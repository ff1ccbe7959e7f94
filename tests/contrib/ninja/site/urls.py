"""The API, and the endpoint."""

from django.urls import include, path

from tests.contrib.ninja.site.api import api

urlpatterns = [path("api/", api.urls), path("", include("django_mcp.urls"))]
