"""``manage.py load_travel``: what it loads, and what it leaves alone."""

import csv
import datetime
import io
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth import authenticate, get_user_model
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from demo_project.travel import sample_data
from demo_project.travel.models import (
    Activity,
    Airport,
    Booking,
    CalendarEvent,
    City,
    Document,
    Flight,
    Hotel,
    RegionPreference,
    Trip,
)
from demo_project.travel.regions import Region
from tests.demo.kept import TODAY, empty

pytestmark = pytest.mark.usefixtures("travel")


def test_there_is_enough_of_everything():
    assert City.objects.count() >= 60
    assert Airport.objects.count() >= City.objects.count() + 40
    assert Flight.objects.count() >= 20_000
    assert Hotel.objects.count() >= 500
    assert Activity.objects.count() >= 300
    assert Document.objects.count() == 50
    assert Trip.objects.count() >= 40
    assert Booking.objects.count() >= 40
    assert RegionPreference.objects.count() == len(Region)


def test_a_second_load_writes_nothing_takes_a_few_queries_and_says_so():
    out = io.StringIO()
    with CaptureQueriesContext(connection) as queries:
        call_command("load_travel", stdout=out)

    assert len(queries) < 10
    assert [each["sql"] for each in queries if each["sql"].startswith(("INSERT", "UPDATE", "DELETE"))] == []
    assert "already loaded" in out.getvalue()


def test_the_same_day_has_the_same_flights():
    by_slug = {city.slug: city for city in sample_data.cities()}
    first, second = (
        [
            (flight.number, flight.departs, flight.arrives, flight.price, flight.seats_left)
            for flight, _ in zip(sample_data.flights(by_slug, TODAY), range(3000), strict=False)
        ]
        for _ in range(2)
    )

    assert first == second


def test_a_reset_brings_the_same_rows_back_and_says_how_many_of_every_kind(monkeypatch):
    monkeypatch.setattr(sample_data, "DAYS_AROUND", 20)
    empty()
    call_command("load_travel", today=TODAY, verbosity=0)
    before = described()
    Hotel.objects.filter(bookings=None).update(price=1)
    Trip.objects.all().delete()
    Airport.objects.filter(code="LGW").delete()
    Airport.objects.create(code="QQQ", name="Nowhere", city=City.objects.get(slug="london"))

    out = io.StringIO()
    call_command("load_travel", reset=True, today=TODAY, stdout=out)

    assert described() == before
    for model in apps.get_app_config("travel").get_models():
        assert f" {model.objects.count():,} {model._meta.verbose_name_plural}" in out.getvalue()


def described() -> list[list[tuple[Any, ...]]]:
    """The rows without their keys, which a reset does not bring back."""
    return [
        list(Airport.objects.values_list("code", "name", "city__slug")),
        list(Flight.objects.values_list("number", "departs", "arrives", "cabin", "price", "seats_left")),
        list(Hotel.objects.values_list("city__slug", "name", "stars", "price", "rooms")),
        list(Trip.objects.values_list("slug", "starts", "cost", "itinerary")),
        list(Booking.objects.values_list("reference", "flight__number", "hotel__name", "total", "created")),
        list(CalendarEvent.objects.values_list("title", "starts", "owner__username")),
        list(Document.objects.values_list("slug", "updated", "text")),
    ]


def test_flights_surround_the_day_of_loading():
    first, last = Flight.objects.earliest("departs").departs, Flight.objects.latest("departs").departs

    assert (TODAY - first.date()).days == pytest.approx(365, abs=3)
    assert (last.date() - TODAY).days == pytest.approx(365, abs=2)


def test_the_calendar_has_last_year_this_one_and_the_next():
    for year in range(TODAY.year - 1, TODAY.year + 2):
        assert CalendarEvent.objects.filter(starts__year=year, owner=None).count() >= 30


def test_trips_are_over_and_have_a_day_by_day_itinerary():
    assert Trip.objects.filter(slug=f"{TODAY.year - 1}-barcelona").exists()
    for trip in Trip.objects.all():
        assert trip.ends < TODAY
        assert len(trip.itinerary.splitlines()) == (trip.ends - trip.starts).days + 1


def test_barcelona_has_its_museums():
    museums = "\n".join(
        Activity.objects.filter(city__slug="barcelona", category="museums").values_list("name", flat=True)
    )

    for name in ("Picasso Museum", "MACBA", "Fundació Joan Miró", "MNAC"):
        assert name in museums


def test_bookings_are_made_before_departure_and_hotels_are_where_the_flight_goes():
    for booking in Booking.objects.select_related("flight__destination", "hotel__city"):
        assert booking.total > 0
        if booking.flight:
            assert booking.created < booking.flight.departs
        if booking.flight and booking.hotel:
            assert booking.flight.destination == booking.hotel.city


def test_every_row_passes_its_own_validation():
    for model in (City, Airport, Hotel, Activity, Trip, Booking, Document, RegionPreference, CalendarEvent):
        for row in model.objects.all():
            row.clean_fields(exclude=[field.name for field in model._meta.fields if field.is_relation])


def test_facts_of_cities_are_plausible():
    for city in City.objects.all():
        now = datetime.datetime(2026, 1, 15, tzinfo=city.zone)
        offset = now.utcoffset().total_seconds() / 3600
        assert abs((city.longitude / 15 - offset + 12) % 24 - 12) < 3.5, city


def test_every_activity_belongs_to_a_known_city():
    with (sample_data.DATA / "activities.csv").open(encoding="utf-8") as file:
        slugs = {row["city"] for row in csv.DictReader(file)}

    assert slugs == set(City.objects.values_list("slug", flat=True))


def test_the_sample_users_can_sign_in():
    admin, anna, ben = (
        authenticate(username=name, password=password)
        for name, password in [("admin", "admin"), ("anna", "travel-anna"), ("ben", "travel-ben")]
    )

    assert admin.is_superuser
    assert anna.is_staff
    assert not anna.is_superuser
    assert anna.has_perm("travel.add_calendarevent")
    assert not anna.has_perm("travel.delete_flight")
    assert not ben.is_staff


def test_a_user_who_exists_keeps_the_password():
    ben = get_user_model().objects.get(username="ben")
    ben.set_password("changed")
    ben.save()

    call_command("load_travel", verbosity=0)

    assert authenticate(username="ben", password="changed")
