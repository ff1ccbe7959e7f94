"""The endpoint as a Django view, as ``include()`` gives it to any site."""

from django.urls import include, path

urlpatterns = [path("", include("django_mcp.urls"))]
