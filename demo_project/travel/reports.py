"""Annual report of bookings, made in the background, with a table to download afterwards."""

import csv
import datetime
import io
from collections.abc import Generator, Iterator
from decimal import Decimal
from typing import Annotated
from uuid import UUID

from django.db.models import Count, F, Q, QuerySet, Sum
from django.db.models.functions import Coalesce
from django.utils import timezone
from pydantic import BaseModel, Field

from demo_project.travel.endpoints import staff
from demo_project.travel.models import Booking, Report
from demo_project.travel.results import Euros
from django_mcp import Context, Progress, ResourceLink, ToolResult, resource, tool

MAX_CITIES = 5
STEPS = 13
"""Twelve months, and the destinations."""
KEPT = datetime.timedelta(days=1)
COLUMNS = ["reference", "created", "status", "city", "check_in", "nights", "travellers", "total"]
CITY = Coalesce("flight__destination__name", "hotel__city__name")
"""Destination of the flight, or else the hotel's city."""


class Month(BaseModel):
    """Bookings of one month."""

    month: str = Field(description="YYYY-MM")
    bookings: int
    cancelled: int
    travellers: int
    turnover: Euros


class Destination(BaseModel):
    """A city and its number of bookings."""

    city: str
    bookings: int


class YearReport(BaseModel):
    """Bookings of one year."""

    year: int
    bookings: int
    turnover: Euros
    months: list[Month]
    destinations: list[Destination] = Field(description="The five most booked, in descending order.")
    table: str = Field(description="URI of a CSV table of all bookings. Available for one day, only to you.")


@tool(
    title="Report of a year",
    read_only=True,
    idempotent=True,
    open_world=False,
    permission="travel.view_booking",
    task="optional",
    server=staff,
)
def year_report(
    ctx: Context, year: Annotated[int, Field(ge=2000, le=2100)]
) -> Generator[Progress | ResourceLink, None, ToolResult[YearReport]]:
    """Report all bookings of one year: by month, by destination, and as a table to download.

    Args:
        year: Year in which the bookings were made (UTC).
    """
    booked = Booking.objects.filter(created__gte=first_moment(year), created__lt=first_moment(year + 1))
    months, lines = [], []
    for number in range(1, 13):
        of_month = in_month(booked, year, number)
        months.append(summed(of_month, f"{year}-{number:02}"))
        lines += lines_of(of_month)
        yield Progress(number, STEPS, f"{months[-1].month}: {months[-1].bookings} bookings")
    destinations = most_booked(booked)
    table = keep(ctx, f"Bookings of {year}", lines)
    yield ResourceLink(table.uri, table.title, mime_type="text/csv")
    yield Progress(STEPS, STEPS, "Destinations")
    report = YearReport(
        year=year,
        bookings=sum(each.bookings for each in months),
        turnover=sum((each.turnover for each in months), Decimal(0)),
        months=months,
        destinations=destinations,
        table=table.uri,
    )
    return ToolResult(report, text=in_markdown(report))


@resource(
    "travel://reports/{report}",
    title="Report",
    mime_type="text/csv",
    permission="travel.view_booking",
    server=staff,
)
def report_table(ctx: Context, report: UUID) -> str:
    """A CSV table made by year_report for you, available for one day."""
    return Report.objects.kept_for(ctx.user).get(pk=report).text


def keep(ctx: Context, title: str, lines: list[tuple[object, ...]]) -> Report:
    """Store a table for the caller, and delete expired ones."""
    file = io.StringIO()
    csv.writer(file).writerows([COLUMNS, *lines])
    now = timezone.now()
    Report.objects.filter(expires__lte=now).delete()
    return Report.objects.create(owner=ctx.user, title=title, text=file.getvalue(), expires=now + KEPT)


def first_moment(year: int, month: int = 1) -> datetime.datetime:
    return datetime.datetime(year, month, 1, tzinfo=datetime.UTC)


def in_month(booked: QuerySet[Booking], year: int, number: int) -> QuerySet[Booking]:
    after = first_moment(year + number // 12, number % 12 + 1)
    return booked.filter(created__gte=first_moment(year, number), created__lt=after)


def summed(of_month: QuerySet[Booking], name: str) -> Month:
    """Return the figures of a month. Cancelled bookings have no turnover."""
    kept = ~Q(status=Booking.Status.CANCELLED)
    found = of_month.aggregate(
        bookings=Count("pk"),
        cancelled=Count("pk", filter=~kept),
        travellers=Coalesce(Sum("travellers", filter=kept), 0),
        turnover=Coalesce(Sum("total", filter=kept), Decimal(0)),
    )
    return Month(month=name, **found)


def lines_of(of_month: QuerySet[Booking]) -> Iterator[tuple[object, ...]]:
    """Yield the bookings of a month as lines of the table, oldest first."""
    columns = [CITY if each == "city" else F(each) for each in COLUMNS]
    return of_month.order_by("created", "reference").values_list(*columns).iterator()


def most_booked(booked: QuerySet[Booking]) -> list[Destination]:
    counted = booked.exclude(status=Booking.Status.CANCELLED).values(city=CITY).annotate(bookings=Count("pk"))
    return [Destination(**each) for each in counted.order_by("-bookings", "city")[:MAX_CITIES]]


def in_markdown(report: YearReport) -> str:
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
            f"All bookings as CSV, available until tomorrow: {report.table}",
        ]
    )
