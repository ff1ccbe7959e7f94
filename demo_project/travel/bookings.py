"""Booking of rooms, with or without a flight."""

import datetime
import math
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.db import transaction
from django.db.models import F, QuerySet
from django.utils import timezone
from django.utils.crypto import get_random_string

from demo_project.travel.models import Booking, City, Flight, Hotel
from demo_project.travel.results import count
from demo_project.travel.sample_data import LETTERS
from demo_project.travel.text import fold

DAYS_AHEAD = 365
INSURANCE = Decimal("4.50")
"""Per person and night."""


class NotAvailableError(Exception):
    """It cannot be booked; the message has the reason and alternatives."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A possible booking with its price."""

    hotel: Hotel
    check_in: datetime.date
    nights: int
    travellers: int
    flight: Flight | None = None

    @property
    def rooms(self) -> int:
        return math.ceil(self.travellers / 2)

    @property
    def lodging(self) -> Decimal:
        return self.hotel.price * self.nights * self.rooms

    @property
    def air(self) -> Decimal:
        return self.flight.price * self.travellers if self.flight else Decimal(0)

    def total(self, *, insured: bool) -> Decimal:
        insurance = INSURANCE * self.nights * self.travellers if insured else Decimal(0)
        return self.lodging + self.air + insurance

    def __str__(self) -> str:
        end = self.check_in + datetime.timedelta(days=self.nights)
        house = f"{self.hotel.name}, {self.hotel.district}, {count(self.hotel.stars, 'star')}"
        stay = f"{count(self.nights, 'night')}, from {self.check_in:%A %Y-%m-%d} to {end:%A %Y-%m-%d}"
        rooms = f"{count(self.rooms, 'room')} for {count(self.travellers, 'traveller')}"
        lines = [f"{house}: {stay}, {rooms}: €{self.lodging:.2f}"]
        if self.flight:
            way = f"{self.flight.number}, {self.flight.origin.name} to {self.flight.destination.name}"
            leaves = self.flight.departs.astimezone(self.flight.origin.zone)
            seats = count(self.travellers, "seat")
            lines.append(f"{way}, {self.flight.cabin}, {leaves:%A %Y-%m-%d %H:%M}, {seats}: €{self.air:.2f}")
        return "\n".join([*lines, f"Total: €{self.total(insured=False):.2f}"])


def today(city: City) -> datetime.date:
    """Return the current date in a city."""
    return timezone.now().astimezone(city.zone).date()


def check_day(city: City, check_in: datetime.date) -> None:
    """Raise NotAvailableError unless check-in is possible on that day."""
    now = today(city)
    last = now + datetime.timedelta(days=DAYS_AHEAD)
    if not now <= check_in <= last:
        raise NotAvailableError(f"Check-in is possible from {now} to {last}, not on {check_in}.")


def free_hotels(city: City, check_in: datetime.date, nights: int, travellers: int) -> list[Hotel]:
    """Return the hotels with enough rooms, best rated first; NotAvailableError if there are none."""
    hotels = city.hotels.order_by("-rating", "price")
    free = [each for each in hotels if _is_free(Offer(each, check_in, nights, travellers))]
    if not free:
        raise NotAvailableError(f"No hotel in {city.name} has rooms for those nights.")
    return free


def hotel_called(name: str, hotels: list[Hotel]) -> Hotel:
    """Return the hotel with this name, ignoring case and accents. A unique part of a name is enough.

    Raises:
        NotAvailableError: no hotel or several hotels match.
    """
    wanted = fold(name).strip()
    exact = [each for each in hotels if fold(each.name) == wanted]
    found = exact or [each for each in hotels if wanted in fold(each.name)]
    if len(found) == 1:
        return found[0]
    names = ", ".join(each.name for each in found or hotels)
    which = "Several hotels match" if found else "No hotel with rooms for those nights matches"
    raise NotAvailableError(f"{which} ‘{name[:60]}’. Choose one of: {names}.")


def flight_there(city: City, number: str, day: datetime.date, travellers: int) -> Flight:
    """Return the flight that arrives on *day*, in its cheapest cabin with enough seats.

    Raises:
        NotAvailableError: there is none.
    """
    start = datetime.datetime.combine(day, datetime.time.min, tzinfo=city.zone)
    end = start + datetime.timedelta(days=1)
    arriving = Flight.objects.filter(destination=city, arrives__gte=start, arrives__lt=end, seats_left__gte=travellers)
    found = arriving.filter(number__iexact=number.strip()).select_related("origin", "destination").order_by("price")
    flight = found.first()
    if flight is None:
        seats = count(travellers, "seat")
        raise NotAvailableError(f"No flight ‘{number[:20]}’ with {seats} left arrives in {city.name} on {day}.")
    return flight


def book(offer: Offer, user: Any, *, room: str, seat: str, insured: bool) -> Booking:
    """Book rooms and seats in one transaction.

    Raises:
        NotAvailableError: they were booked meanwhile.
    """
    with transaction.atomic():
        Hotel.objects.select_for_update().get(pk=offer.hotel.pk)  # concurrent bookings wait here
        if not _is_free(offer):
            raise NotAvailableError(f"{offer.hotel.name} has no room left for those nights.")
        if offer.flight and not _take_seats(offer.flight, offer.travellers):
            raise NotAvailableError(f"{offer.flight.number} has no seats left.")
        return Booking.objects.create(
            reference=get_random_string(6, LETTERS),
            user=user if user.is_authenticated else None,
            hotel=offer.hotel,
            flight=offer.flight,
            check_in=offer.check_in,
            nights=offer.nights,
            travellers=offer.travellers,
            room=room,
            seat=seat,
            insurance=insured,
            total=offer.total(insured=insured),
            status=Booking.Status.CONFIRMED,
            created=timezone.now(),
        )


def cancel(found: QuerySet[Booking], reference: str) -> Booking:
    """Cancel the booking with this reference, and release its rooms and seats.

    Raises:
        NotAvailableError: it does not exist, is cancelled, or has begun.
    """
    with transaction.atomic():
        booking = found.select_for_update(of=("self",)).filter(reference__iexact=reference.strip()).first()
        if booking is None:
            raise NotAvailableError(f"There is no booking ‘{reference[:20]}’. A reference has six characters.")
        if booking.status == Booking.Status.CANCELLED:
            raise NotAvailableError(f"{booking.reference} is already cancelled.")
        if has_begun(booking):
            raise NotAvailableError(f"{booking.reference} has already begun and cannot be cancelled.")
        booking.status = Booking.Status.CANCELLED
        booking.save(update_fields=["status"])
        if booking.flight_id:
            Flight.objects.filter(pk=booking.flight_id).update(seats_left=F("seats_left") + booking.travellers)
    return booking


def has_begun(booking: Booking) -> bool:
    """Return True if the flight has departed or, without a flight, the first night has come."""
    if booking.flight:
        return booking.flight.departs <= timezone.now()
    return booking.check_in <= today(booking.hotel.city)


def rooms_taken(city: City, night: datetime.date) -> dict[int, int]:
    """Return the number of booked rooms by hotel key, for one night."""
    taken: Counter[int] = Counter()
    staying = Booking.objects.filter(
        hotel__city=city, check_in__lte=night, check_in__gt=night - datetime.timedelta(days=DAYS_AHEAD)
    ).exclude(status=Booking.Status.CANCELLED)
    for hotel, start, nights, travellers in staying.values_list("hotel", "check_in", "nights", "travellers"):
        if night < start + datetime.timedelta(days=nights):
            taken[hotel] += math.ceil(travellers / 2)
    return taken


def _take_seats(flight: Flight, seats: int) -> bool:
    left = Flight.objects.filter(pk=flight.pk, seats_left__gte=seats)
    return bool(left.update(seats_left=F("seats_left") - seats))


def _is_free(offer: Offer) -> bool:
    others = offer.hotel.bookings.exclude(status=Booking.Status.CANCELLED).filter(
        check_in__lt=offer.check_in + datetime.timedelta(days=offer.nights),
        check_in__gt=offer.check_in - datetime.timedelta(days=DAYS_AHEAD),
    )
    taken = [0] * offer.nights
    for start, nights, travellers in others.values_list("check_in", "nights", "travellers"):
        first = (start - offer.check_in).days
        for night in range(max(first, 0), min(first + nights, offer.nights)):
            taken[night] += math.ceil(travellers / 2)
    return max(taken) + offer.rooms <= offer.hotel.rooms
