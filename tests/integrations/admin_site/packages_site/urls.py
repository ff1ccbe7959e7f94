"""Two admins of the same rows: one for all staff, one for those with a second factor."""

from django.contrib import admin
from django.urls import include, path
from django_otp.admin import OTPAdminSite
from simple_history.admin import SimpleHistoryAdmin

from tests.integrations.admin_site.packages_site.models import Shelf

safe = OTPAdminSite("safe")
safe.register(Shelf, SimpleHistoryAdmin)
if not admin.site.is_registered(Shelf):
    admin.site.register(Shelf, SimpleHistoryAdmin)
urlpatterns = [path("admin/", admin.site.urls), path("safe/", safe.urls), path("", include("django_mcp.urls"))]
