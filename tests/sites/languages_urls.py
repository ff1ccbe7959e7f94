"""Pages by language, and the endpoint."""

from django.conf.urls.i18n import i18n_patterns
from django.contrib import admin
from django.contrib.auth.views import LoginView
from django.urls import include, path

from tests.sites.shop.views import hours, queue_order

urlpatterns = [
    path("", include("django_mcp.urls")),
    *i18n_patterns(
        path("admin/", admin.site.urls),
        path("login/", LoginView.as_view(template_name="admin/login.html"), name="login"),
        path("hours/", hours, name="hours"),
        path("orders/", queue_order, name="queue-order"),
    ),
]
