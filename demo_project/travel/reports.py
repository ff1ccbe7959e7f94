"""The agency's year in figures: a long report that says how far it is."""

import datetime
from collections.abc import Generator
from decimal import Decimal
from typing import Annotated

from django.db.models import Count, Q, QuerySet, Sum
from django.db.models.functions import Coalesce
from pydantic import BaseModel, Field

from demo_project.travel.endpoints import staff
from demo_project.travel.models import Booking
from demo_project.travel.results import Euros
from django_mcp import Progress, ToolResult, tool

MOST_CITIES = 5
STEPS = 13
"""The months, and the cities."""


class Month(BaseModel):
    """What was booked in one month."""

    month: str = Field(description="YYYY-MM")
    bookings: int
    cancelled: int
    travellers: int
    turnover: Euros


class Destination(BaseModel):
    """A city, and how often it was booked."""

    city: str
    bookings: int


class YearReport(BaseModel):
    """All that was booked in one year."""

    year: int
    bookings: int
    turnover: Euros
    months: list[Month]
    destinations: list[Destination] = Field(description="The five that were booked most, the first one first.")


@tool(
    title="Report of a year",
    read_only=True,
    idempotent=True,
    open_world=False,
    permission="travel.view_booking",
    server=staff,
)
def year_report(
    year: Annotated[int, Field(ge=2000, le=2100)],
) -> Generator[Progress, None, ToolResult[YearReport]]:
    """Everybody's bookings of one year, by month, and where they went. It reports its progress after each month.

    Args:
        year: In which they were made, by UTC.
    """
    booked = Booking.objects.filter(created__gte=first_moment(year), created__lt=first_moment(year + 1))
    months = []
    for number in range(1, 13):
        months.append(month_of(booked, year, number))
        yield Progress(number, STEPS, f"{months[-1].month}: {months[-1].bookings} bookings")
    destinations = most_booked(booked)
    yield Progress(STEPS, STEPS, "Destinations")
    report = YearReport(
        year=year,
        bookings=sum(each.bookings for each in months),
        turnover=sum((each.turnover for each in months), Decimal(0)),
        months=months,
        destinations=destinations,
    )
    return ToolResult(report, text=in_markdown(report))


def first_moment(year: int, month: int = 1) -> datetime.datetime:
    """Of a month."""
    return datetime.datetime(year, month, 1, tzinfo=datetime.UTC)


def month_of(booked: QuerySet[Booking], year: int, number: int) -> Month:
    """One month of the year; what was cancelled brings no turnover."""
    after = first_moment(year + number // 12, number % 12 + 1)
    kept = ~Q(status=Booking.Status.CANCELLED)
    found = booked.filter(created__gte=first_moment(year, number), created__lt=after).aggregate(
        bookings=Count("pk"),
        cancelled=Count("pk", filter=~kept),
        travellers=Coalesce(Sum("travellers", filter=kept), 0),
        turnover=Coalesce(Sum("total", filter=kept), Decimal(0)),
    )
    return Month(month=f"{year}-{number:02}", **found)


def most_booked(booked: QuerySet[Booking]) -> list[Destination]:
    """Cities people flew to, or else slept in."""
    city = Coalesce("flight__destination__name", "hotel__city__name")
    counted = booked.exclude(status=Booking.Status.CANCELLED).values(city=city).annotate(bookings=Count("pk"))
    return [Destination(**each) for each in counted.order_by("-bookings", "city")[:MOST_CITIES]]


def in_markdown(report: YearReport) -> str:
    """The report as a reader wants it."""
    rows = [
        f"| {each.month} | {each.bookings} | {each.cancelled} | {each.travellers} | {each.turnover:.2f} |"
        for each in report.months
    ]
    destinations = ", ".join(f"{each.city} ({each.bookings})" for each in report.destinations) or "none"
    return "\n".join(
        [
            f"# Bookings made in {report.year}: {report.bookings}, €{report.turnover:.2f}",
            "",
            "| month | bookings | cancelled | travellers | turnover (€) |",
            "|---|---|---|---|---|",
            *rows,
            "",
            f"Most booked: {destinations}.",
        ]
    )
