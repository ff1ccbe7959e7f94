"""Addresses of admin sites, one at a time: those of the whole matrix take seconds to read."""

from types import ModuleType

from django.contrib.admin import AdminSite
from django.urls import path

from tests.integrations.back_office.shop import site


def addresses_of(site: AdminSite) -> ModuleType:
    """Return a URLconf of a site's admin."""
    made = ModuleType(f"urls_of_{site.name}")
    made.urlpatterns = [path(f"{site.name}/", site.urls)]
    return made


urlpatterns = [path("back_office/", site.urls)]
