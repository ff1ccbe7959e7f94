"""One view, and the admin, as ``startproject`` has it; the endpoint where it is installed."""

from django.apps import apps
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.urls import include, path


def hello(request: HttpRequest) -> HttpResponse:
    """Say so."""
    return HttpResponse(f"hello from {request.path}")


urlpatterns = [path("admin/", admin.site.urls), path("hello/", hello)]
if apps.is_installed("django_mcp"):
    urlpatterns.append(path("", include("django_mcp.urls")))
