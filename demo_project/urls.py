"""Addresses of the demo project."""

from django.contrib import admin
from django.urls import include, path

from demo_project.travel.views import index

urlpatterns = [
    path("", index, name="index"),
    path("admin/", admin.site.urls),
    path("", include("django_mcp.urls")),
]
