"""Pages and the endpoint."""

from django.contrib import admin
from django.contrib.auth.views import LoginView
from django.urls import include, path

from tests.sites.shop.views import hours, queue_order

urlpatterns = [
    path("admin/", admin.site.urls),
    path("login/", LoginView.as_view(template_name="admin/login.html"), name="login"),
    path("hours/", hours, name="hours"),
    path("orders/", queue_order, name="queue-order"),
    path("", include("django_mcp.urls")),
]
