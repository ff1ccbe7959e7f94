"""Addresses of the demo project."""

from django.contrib import admin
from django.contrib.auth.views import LogoutView
from django.urls import include, path

from demo_project.travel.api import router
from demo_project.travel.views import SignIn, book, departures, index, outbox, privacy

urlpatterns = [
    path("", index, name="index"),
    path("book/", book, name="book"),
    path("departures/<slug:airport>/", departures, name="departures"),
    path("outbox/", outbox, name="outbox"),
    path("privacy/", privacy, name="privacy"),
    path("accounts/login/", SignIn.as_view(), name="login"),
    path("accounts/logout/", LogoutView.as_view(), name="logout"),
    path("admin/", admin.site.urls),
    path("api/", include(router.urls)),
    path("", include("django_mcp.urls")),
]
