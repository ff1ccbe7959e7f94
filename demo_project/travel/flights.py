"""Flight search."""

from datetime import date, datetime, time, timedelta

from django.db.models import QuerySet

from demo_project.travel.models import City, Flight

MAX_FLIGHTS = 20
MAX_HOURS = 168
"""Limit of hours ahead on the departures board."""


def flights_on(origin: City, destination: City, day: date) -> list[Flight]:
    """Return up to twenty flights on *day* (in the origin's local time) with a free seat, cheapest first.

    Raises:
        ValueError: *day* is out of range.
    """
    try:
        start = datetime.combine(day, time.min, tzinfo=origin.zone)
        end = datetime.combine(day + timedelta(days=1), time.min, tzinfo=origin.zone)
        flights = _between(origin, destination).filter(departs__gte=start, departs__lt=end)
        return list(flights.order_by("price", "departs")[:MAX_FLIGHTS])
    except OverflowError:
        raise ValueError(f"{day} is out of range.") from None


def next_day(origin: City, destination: City, day: date) -> date | None:
    """Return the first day after *day* with a flight."""
    start = datetime.combine(day, time.max, tzinfo=origin.zone)
    flight = _between(origin, destination).filter(departs__gt=start).order_by("departs").first()
    return flight.departs.astimezone(origin.zone).date() if flight else None


def next_flights(origin: City, destination: City, after: datetime) -> list[Flight]:
    """Return the next twenty flights with a free seat by departure."""
    return list(_between(origin, destination).filter(departs__gte=after).order_by("departs", "price")[:MAX_FLIGHTS])


def next_departures(origin: City, after: datetime, within: timedelta) -> list[Flight]:
    """Return up to twenty departures with a free seat by time."""
    leaving = origin.departures.filter(departs__gte=after, departs__lt=after + within, seats_left__gt=0)
    return list(leaving.select_related("destination").order_by("departs", "price")[:MAX_FLIGHTS])


def _between(origin: City, destination: City) -> QuerySet[Flight]:
    return Flight.objects.filter(origin=origin, destination=destination, seats_left__gt=0).select_related(
        "origin", "destination"
    )
