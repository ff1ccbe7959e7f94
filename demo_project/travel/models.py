"""What the agency knows."""

import re
import uuid
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.db.models import F, Q
from django.utils import timezone
from django.utils.text import slugify

from demo_project.travel.regions import Region
from demo_project.travel.text import fold

IATA_CODE = RegexValidator(r"^[A-Z]{3}\Z", "Three capital letters.")


class CityQuerySet(models.QuerySet["City"]):
    """Ways to find cities."""

    def called(self, text: str) -> "CityQuerySet":
        """The city with this name, slug or IATA code; a country after a comma is ignored."""
        name = text.partition(",")[0].strip()
        wanted = Q(slug=slugify(name))
        if re.fullmatch("[A-Za-z]{3}", name):
            wanted |= Q(airport=name.upper()) | Q(metro=name.upper())
        return self.filter(wanted)

    def starting_with(self, text: str) -> "CityQuerySet":
        """Cities one may be typing: a word of the name, or a code, begins with *text*."""
        slug = slugify(text)
        if text.strip() and not slug:
            return self.none()
        wanted = Q(slug__startswith=slug) | Q(slug__contains=f"-{slug}")
        if re.fullmatch("[A-Za-z]{1,3}", text.strip()):
            wanted |= Q(airport__startswith=text.strip().upper()) | Q(metro__startswith=text.strip().upper())
        return self.filter(wanted)


class City(models.Model):
    """A place with an airport, a climate and things to do.

    The climate is a dozen numbers, of which ``weather.py`` makes the weather of any day: yearly means, half the
    distance between the extremes of the year, and the months in which the extremes fall.
    """

    name = models.CharField(max_length=80)
    slug = models.SlugField(max_length=80, unique=True)
    country = models.CharField(max_length=80)
    region = models.CharField(max_length=20, choices=Region)
    airport = models.CharField("IATA code", max_length=3, unique=True, validators=[IATA_CODE])
    metro = models.CharField(
        "IATA city code", max_length=3, blank=True, help_text="Where several airports share one, such as NYC."
    )
    airport_name = models.CharField(max_length=80, help_text="The nearest large airport; it may be in the next town.")
    latitude = models.FloatField(validators=[MinValueValidator(-90), MaxValueValidator(90)])
    longitude = models.FloatField(validators=[MinValueValidator(-180), MaxValueValidator(180)])
    timezone = models.CharField(max_length=40)
    temp_mean = models.FloatField(help_text="Mean of the year, °C.")
    temp_swing = models.FloatField(help_text="How far the warmest month is above that mean, °C.")
    warmest_month = models.PositiveSmallIntegerField()
    daily_range = models.FloatField(help_text="From the night's low to the day's high, °C.")
    rain_days = models.FloatField(help_text="Days with rain or snow in a month, mean of the year.")
    rain_swing = models.FloatField(help_text="How many more of them the wettest month has.")
    wettest_month = models.PositiveSmallIntegerField()
    humidity = models.FloatField(help_text="Per cent, mean of the year.")
    wind = models.FloatField(help_text="km/h, mean of the year.")

    objects = CityQuerySet.as_manager()

    class Meta:
        ordering = ["name"]
        verbose_name_plural = "cities"
        constraints = [
            models.CheckConstraint(
                condition=Q(warmest_month__range=(1, 12), wettest_month__range=(1, 12)), name="city_months"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name}, {self.country}"

    @property
    def zone(self) -> ZoneInfo:
        """The time zone of the city's clocks."""
        return ZoneInfo(self.timezone)


class Airport(models.Model):
    """One of a city's airports, perhaps in the next town. ``City.airport`` has the code of the main one."""

    code = models.CharField("IATA code", max_length=3, unique=True, validators=[IATA_CODE])
    name = models.CharField(max_length=80)
    city = models.ForeignKey(City, on_delete=models.CASCADE, related_name="airports")

    class Meta:
        ordering = ["code"]

    def __str__(self) -> str:
        return f"{self.name} ({self.code})"


class Flight(models.Model):
    """One departure in one cabin, with the fare of today."""

    class Cabin(models.TextChoices):
        """Where one sits."""

        ECONOMY = "economy", "Economy"
        BUSINESS = "business", "Business"

    number = models.CharField(max_length=8)
    airline = models.CharField(max_length=60)
    origin = models.ForeignKey(City, on_delete=models.CASCADE, related_name="departures")
    destination = models.ForeignKey(City, on_delete=models.CASCADE, related_name="arrivals")
    departs = models.DateTimeField(db_index=True)
    arrives = models.DateTimeField()
    cabin = models.CharField(max_length=10, choices=Cabin, default=Cabin.ECONOMY)
    price = models.DecimalField("price (€)", max_digits=8, decimal_places=2)
    seats_left = models.PositiveSmallIntegerField()

    class Meta:
        ordering = ["departs", "number"]
        indexes = [models.Index(fields=["origin", "destination", "departs"], name="flight_route_day")]
        constraints = [
            models.UniqueConstraint(fields=["number", "departs", "cabin"], name="flight_once_a_day"),
            models.CheckConstraint(condition=Q(arrives__gt=F("departs")), name="flight_takes_time"),
            models.CheckConstraint(condition=~Q(origin=F("destination")), name="flight_goes_somewhere"),
            models.CheckConstraint(condition=Q(price__gt=0), name="flight_has_a_price"),
        ]

    def __str__(self) -> str:
        return f"{self.number}, {self.departs:%Y-%m-%d}"

    @property
    def duration(self) -> timedelta:
        """From take-off to landing."""
        return self.arrives - self.departs


class Hotel(models.Model):
    """A house the agency has rooms in."""

    city = models.ForeignKey(City, on_delete=models.CASCADE, related_name="hotels")
    name = models.CharField(max_length=120)
    district = models.CharField(max_length=60)
    stars = models.PositiveSmallIntegerField()
    rating = models.DecimalField(max_digits=3, decimal_places=1, help_text="Guests' mean mark, from 0 to 10.")
    price = models.DecimalField("price per night (€)", max_digits=7, decimal_places=2)
    rooms = models.PositiveSmallIntegerField()
    breakfast = models.BooleanField("breakfast included", default=False)

    class Meta:
        ordering = ["city__name", "name"]
        constraints = [
            models.UniqueConstraint(fields=["city", "name"], name="hotel_name_in_city"),
            models.CheckConstraint(condition=Q(stars__range=(1, 5)), name="hotel_stars"),
            models.CheckConstraint(condition=Q(rating__range=(0, 10)), name="hotel_rating"),
        ]

    def __str__(self) -> str:
        return self.name


class Activity(models.Model):
    """Something to do in a city."""

    class Category(models.TextChoices):
        """What kind of thing."""

        FAMILY = "family", "Family"
        FOOD = "food", "Food and drink"
        MUSEUMS = "museums", "Museums"
        NIGHTLIFE = "nightlife", "Nightlife"
        OUTDOORS = "outdoors", "Outdoors"
        SHOPPING = "shopping", "Shopping"

    city = models.ForeignKey(City, on_delete=models.CASCADE, related_name="activities")
    category = models.CharField(max_length=10, choices=Category)
    name = models.CharField(max_length=120)
    description = models.TextField()
    price = models.DecimalField("price (€)", max_digits=7, decimal_places=2)
    duration = models.DurationField()

    class Meta:
        ordering = ["city__name", "category", "name"]
        verbose_name_plural = "activities"
        indexes = [models.Index(fields=["city", "category"], name="activity_city_category")]
        constraints = [
            models.UniqueConstraint(fields=["city", "name"], name="activity_name_in_city"),
            models.CheckConstraint(condition=Q(price__gte=0), name="activity_price"),
        ]

    def __str__(self) -> str:
        return self.name


class CalendarEventQuerySet(models.QuerySet["CalendarEvent"]):
    """Ways to find events."""

    def visible_to(self, user: Any) -> "CalendarEventQuerySet":
        """The agency's own events, and those of *user* (who may be anonymous)."""
        return self.filter(Q(owner=None) | Q(owner_id=user.pk))


class CalendarEvent(models.Model):
    """An entry in the agency's calendar, or in one user's."""

    title = models.CharField(max_length=200)
    starts = models.DateTimeField(db_index=True)
    ends = models.DateTimeField()
    location = models.CharField(max_length=200, blank=True)
    notes = models.TextField(blank=True)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        null=True,
        blank=True,
        related_name="calendar_events",
        help_text="Empty for the agency's events, which everybody sees.",
    )

    objects = CalendarEventQuerySet.as_manager()

    class Meta:
        ordering = ["starts", "title"]
        constraints = [
            models.CheckConstraint(condition=Q(ends__gte=F("starts")), name="event_ends_after_it_starts"),
        ]

    def __str__(self) -> str:
        return self.title


class Trip(models.Model):
    """A trip that the agency planned and somebody came home from."""

    slug = models.SlugField(max_length=80, unique=True, help_text="Year and city, such as 2025-barcelona.")
    title = models.CharField(max_length=120)
    city = models.ForeignKey(City, on_delete=models.CASCADE, related_name="trips")
    starts = models.DateField()
    ends = models.DateField()
    travellers = models.PositiveSmallIntegerField()
    cost = models.DecimalField("cost (€)", max_digits=9, decimal_places=2)
    rating = models.PositiveSmallIntegerField(help_text="The travellers' mark, from 1 to 5.")
    itinerary = models.TextField()

    class Meta:
        ordering = ["-starts"]
        constraints = [
            models.CheckConstraint(condition=Q(ends__gte=F("starts")), name="trip_ends_after_it_starts"),
            models.CheckConstraint(condition=Q(rating__range=(1, 5)), name="trip_rating"),
        ]

    def __str__(self) -> str:
        return self.title


class BookingQuerySet(models.QuerySet["Booking"]):
    """Ways to find bookings."""

    def made_by(self, user: Any) -> "BookingQuerySet":
        """Those of *user*; nobody's bookings belong to somebody who is not signed in."""
        return self.filter(user_id=user.pk) if user.is_authenticated else self.none()

    def in_full(self) -> "BookingQuerySet":
        """With all that a list shows of them, in the same query."""
        return self.select_related("user", "hotel__city", "flight__origin", "flight__destination")


class Booking(models.Model):
    """A flight, a hotel, or both, reserved for a user."""

    class Status(models.TextChoices):
        """How firm it is."""

        HELD = "held", "Held"
        CONFIRMED = "confirmed", "Confirmed"
        CANCELLED = "cancelled", "Cancelled"

    class Room(models.TextChoices):
        """What one wants to see from the window."""

        CITY = "city", "City view"
        SEA = "sea", "Sea view"
        GARDEN = "garden", "Garden view"

    class Seat(models.TextChoices):
        """Where one wants to sit."""

        WINDOW = "window", "Window"
        AISLE = "aisle", "Aisle"
        ANY = "any", "No preference"

    reference = models.CharField(max_length=8, unique=True)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        null=True,
        blank=True,
        related_name="bookings",
        help_text="Empty for a guest who was not signed in.",
    )
    flight = models.ForeignKey(Flight, on_delete=models.PROTECT, null=True, blank=True, related_name="bookings")
    hotel = models.ForeignKey(Hotel, on_delete=models.PROTECT, null=True, blank=True, related_name="bookings")
    check_in = models.DateField(null=True, blank=True)
    nights = models.PositiveSmallIntegerField(default=0)
    travellers = models.PositiveSmallIntegerField(default=1)
    room = models.CharField(max_length=10, choices=Room, blank=True)
    seat = models.CharField(max_length=10, choices=Seat, blank=True)
    insurance = models.BooleanField("travel insurance", default=False)
    total = models.DecimalField("total (€)", max_digits=9, decimal_places=2)
    status = models.CharField(max_length=10, choices=Status, default=Status.HELD)
    created = models.DateTimeField()

    objects = BookingQuerySet.as_manager()

    class Meta:
        ordering = ["-created", "reference"]
        constraints = [
            models.CheckConstraint(
                condition=Q(flight__isnull=False) | Q(hotel__isnull=False), name="booking_of_something"
            ),
            models.CheckConstraint(
                condition=Q(hotel=None) | Q(check_in__isnull=False, nights__gte=1), name="booking_hotel_has_nights"
            ),
        ]

    def __str__(self) -> str:
        return self.reference


class Document(models.Model):
    """A text for customers and colleagues: a guide, a policy, a list."""

    class Category(models.TextChoices):
        """What it is about."""

        CITY_GUIDE = "city-guide", "City guide"
        GUIDE = "guide", "Guide"
        HEALTH = "health", "Health"
        INSURANCE = "insurance", "Insurance"
        MONEY = "money", "Money and telephone"
        PACKING = "packing", "Packing"
        POLICY = "policy", "Policy"
        TRANSPORT = "transport", "Transport"
        VISA = "visa", "Visa and entry"

    title = models.CharField(max_length=200)
    slug = models.SlugField(max_length=80, unique=True)
    category = models.CharField(max_length=10, choices=Category)
    text = models.TextField(help_text="Markdown.")
    folded = models.TextField(editable=False, help_text="Title and text without case and accents, for the search.")
    updated = models.DateField()

    class Meta:
        ordering = ["title"]

    def __str__(self) -> str:
        return self.title

    def save(self, **options: Any) -> None:
        """Save with an up-to-date search text."""
        self.clean_for_search()
        if (fields := options.get("update_fields")) is not None and {"title", "text"} & set(fields):
            options["update_fields"] = {*fields, "folded"}
        super().save(**options)

    def clean_for_search(self) -> None:
        """Bring ``folded`` up to date. ``save()`` does so too; ``bulk_create()`` does not."""
        self.folded = fold(f"{self.title}\n{self.text}")


class RegionPreference(models.Model):
    """What the agency's customers like in a part of the world."""

    region = models.CharField(max_length=20, choices=Region, unique=True)
    summary = models.TextField()
    preferences = models.JSONField(default=dict)

    class Meta:
        ordering = ["region"]

    def __str__(self) -> str:
        return self.get_region_display()


class ReportQuerySet(models.QuerySet["Report"]):
    """Ways to find reports."""

    def kept_for(self, user: Any) -> "ReportQuerySet":
        """Those of *user* that can still be read."""
        return self.filter(owner_id=user.pk, expires__gt=timezone.now())


class Report(models.Model):
    """A table that was made for somebody, and is kept for a while so that they can fetch it."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="reports")
    title = models.CharField(max_length=80)
    text = models.TextField(help_text="CSV.")
    expires = models.DateTimeField(db_index=True)

    objects = ReportQuerySet.as_manager()

    class Meta:
        ordering = ["-expires"]

    def __str__(self) -> str:
        return self.title

    @property
    def uri(self) -> str:
        """Where clients read it."""
        return f"travel://reports/{self.pk}"


class SentEmail(models.Model):
    """A mail of the demo, which is kept here instead of being sent."""

    sender = models.CharField(max_length=200)
    recipients = models.CharField(max_length=1000)
    subject = models.CharField(max_length=200)
    body = models.TextField()
    sent = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-sent"]
        verbose_name = "e-mail"
        verbose_name_plural = "e-mails"

    def __str__(self) -> str:
        return self.subject
