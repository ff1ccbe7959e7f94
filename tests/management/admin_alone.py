"""URLs of a site that serves its admin and not the pages on which users look at their own calls."""

from django.contrib import admin
from django.urls import path

urlpatterns = [path("admin/", admin.site.urls)]
