"""``load_travel``: load the sample data once."""

from argparse import ArgumentParser
from datetime import date
from typing import Any

from django.contrib.auth.models import Permission, User
from django.core.management.base import BaseCommand
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from demo_project.travel import models, sample_data
from demo_project.travel.sample_users import SAMPLE_USERS, SampleUser

BATCH = 2000
APPROVING = ["approve_tool_call", "change_autoapprovalrule", "try_tool"]
"""Permissions of agents, in addition to viewing everything."""
# In an order of deletion that respects foreign keys.
OURS = (
    models.SentEmail,
    models.Report,
    models.Booking,
    models.Trip,
    models.CalendarEvent,
    models.Activity,
    models.Hotel,
    models.Flight,
    models.Airport,
    models.City,
    models.Document,
    models.RegionPreference,
)


class Command(BaseCommand):
    """Load the agency's data into an empty database."""

    help = "Loads the sample data and the sample users. Does nothing if they are already loaded."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--reset", action="store_true", help="delete the agency's data first, bookings included")
        parser.add_argument(
            "--today",
            type=date.fromisoformat,
            default=None,
            metavar="YYYY-MM-DD",
            help="the day to arrange the data around (default: today)",
        )

    def handle(self, *, reset: bool, today: date | None, verbosity: int, **_: Any) -> None:
        with transaction.atomic():
            people = [sample_user(user) for user in SAMPLE_USERS]
            if reset:
                for model in OURS:
                    model.objects.all().delete()
            elif models.City.objects.exists():
                if verbosity:
                    self.stdout.write("The sample data is already loaded. Add --reset to reload it.")
                return
            load(today or timezone.localdate(), people)
        if verbosity:
            counts = ", ".join(f"{model.objects.count():,} {model._meta.verbose_name_plural}" for model in OURS)  # noqa: SLF001
            self.stdout.write(f"Loaded {counts}.")


def load(today: date, people: list[User]) -> None:
    """Fill the agency's empty tables with the data of *today*."""
    _, agent, customer, _ = people
    by_slug = {city.slug: city for city in models.City.objects.bulk_create(sample_data.cities())}
    models.Airport.objects.bulk_create(sample_data.airports(by_slug))
    hotels = models.Hotel.objects.bulk_create(sample_data.hotels(by_slug))
    activities = models.Activity.objects.bulk_create(sample_data.activities(by_slug))
    flights = models.Flight.objects.bulk_create(sample_data.flights(by_slug, today), batch_size=BATCH)
    models.Document.objects.bulk_create(sample_data.documents(today))
    models.RegionPreference.objects.bulk_create(sample_data.region_preferences())
    models.CalendarEvent.objects.bulk_create(sample_data.events(today, agent, customer))
    models.Trip.objects.bulk_create(sample_data.trips(by_slug, activities, today))
    models.Booking.objects.bulk_create(sample_data.bookings(flights, hotels, today, agent, customer))


def sample_user(sample: SampleUser) -> User:
    """Return the sample user, created if missing; an existing one stays unchanged."""
    if user := User.objects.filter(username=sample.username).first():
        return user
    if sample.role == "superuser":
        return User.objects.create_superuser(sample.username, password=sample.password)
    user = User.objects.create_user(sample.username, password=sample.password, is_staff=sample.role != "customer")
    if user.is_staff:
        user.user_permissions.set(Permission.objects.filter(allowed(sample.role)))
    return user


def allowed(role: str) -> Q:
    """Return the admin permissions of a role.

    Agents may do everything except delete, and approve calls; trainees may only view.
    """
    of_the_agency = Q(content_type__app_label="travel") & ~Q(codename__startswith="delete_")
    of_the_endpoint = Q(content_type__app_label="django_mcp", codename__in=APPROVING)
    looking = Q(content_type__app_label__in=["travel", "django_mcp"], codename__startswith="view_")
    return looking if role == "trainee" else of_the_agency | of_the_endpoint | looking
