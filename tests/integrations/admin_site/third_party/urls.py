"""Addresses of the admin and of what its pages link to."""

from django.contrib import admin
from django.urls import include, path

admin.autodiscover()

from tests.integrations.admin_site.third_party.admin import site  # noqa: E402 - needs the admins of packages

urlpatterns = [
    path("third/", site.urls),
    path("admin/", admin.site.urls),
    path("summernote/", include("django_summernote.urls")),
    path("ckeditor5/", include("django_ckeditor_5.urls")),
    path("filer/", include("filer.urls")),
    path("nested/", include("nested_admin.urls")),
    path("tinymce/", include("tinymce.urls")),
]
