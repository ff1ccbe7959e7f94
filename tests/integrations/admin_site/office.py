"""An admin site of a test's own, at URLs of its own, and rows for it."""

import sys
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from django.contrib.admin import AdminSite, site
from django.db import models
from django.test import override_settings
from django.urls import clear_url_caches, path
from django.utils import timezone

from demo_project.travel.models import Booking, City, Hotel


@contextmanager
def own_site(pages: Mapping[type[models.Model], Any], *, cls: type[AdminSite] = AdminSite) -> Iterator[AdminSite]:
    """Give a site with these models beside Django's own, which has the approvals."""
    made = cls("back_office")
    for model, page in pages.items():
        made.register(model, page)
    module = types.ModuleType("tests.integrations.admin_site.urls_of_a_test")
    module.urlpatterns = [path("admin/", site.urls), path("office/", made.urls)]  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module
    try:
        with override_settings(ROOT_URLCONF=module.__name__):
            clear_url_caches()
            yield made
    finally:
        del sys.modules[module.__name__]
        clear_url_caches()


def make_city(name: str = "Lisbon") -> City:
    """A city that can stand beside those of the sample data."""
    return City.objects.create(
        name=name,
        slug=f"office-{name.lower()}",
        country="Portugal",
        region="europe",
        airport=f"Q{name[:2].upper()}",
        airport_name="Humberto Delgado",
        timezone="Europe/Lisbon",
        **{
            field.name: 1
            for field in City._meta.concrete_fields
            if field.get_internal_type().endswith(("FloatField", "IntegerField")) and not field.has_default()
        },
    )


def make_hotel(city: City, name: str = "Aurora", **values: Any) -> Hotel:
    usual = {"district": "Baixa", "stars": 4, "rating": "4.5", "price": 120, "rooms": 9}
    return Hotel.objects.create(name=name, city=city, **{**usual, **values})


def make_booking(hotel: Hotel, user: Any) -> Booking:
    day = timezone.now()
    return Booking.objects.create(
        reference="R1", user=user, hotel=hotel, check_in=day.date(), nights=2, total=240, created=day
    )
