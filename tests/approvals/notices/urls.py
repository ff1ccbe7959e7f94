"""Addresses of a site whose admin has the page of an approval."""

from django.http import HttpResponse
from django.urls import include, path

admin = [
    path("django_mcp/approval/<int:pk>/change/", lambda *_, **__: HttpResponse(), name="django_mcp_approval_change")
]
urlpatterns = [
    path("admin/", include((admin, "admin"))),
    path("", lambda _: HttpResponse("There it is.")),
]
