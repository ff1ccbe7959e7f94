"""Import of flights from CSV: validated immediately, and imported in the background."""

import csv
import datetime
import io
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, Field, ValidationError

from demo_project.travel.arguments import PLAIN
from demo_project.travel.endpoints import staff
from demo_project.travel.icons import PLANE
from demo_project.travel.models import Airport, City, Flight
from demo_project.travel.results import count
from django_mcp import Context, ToolError, ToolResult, tool

MAX_LINES = 5000
MAX_TOLD = 10
BATCH = 100
KEY = ["number", "departs", "cabin"]
"""Fields that identify a flight."""
CHANGED = ["airline", "origin", "destination", "arrives", "price", "seats_left"]

Code = Annotated[str, Field(pattern="^[A-Z]{3}$")]
Moment = Annotated[
    AwareDatetime,
    Field(gt=datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC), lt=datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC)),
]


class Line(BaseModel):
    """A flight in a line of the table."""

    number: str = Field(pattern="^[A-Z0-9]{3,8}$")
    airline: Annotated[str, PLAIN, Field(min_length=1, max_length=60)]
    origin: Code
    destination: Code
    departs: Moment
    arrives: Moment
    cabin: Flight.Cabin
    price: Decimal = Field(gt=0, max_digits=8, decimal_places=2)
    seats_left: int = Field(ge=0, le=1000)

    def flight(self, cities: dict[str, City]) -> Flight:
        """Return the flight, unsaved.

        Raises:
            ValueError: the line is inconsistent.
        """
        if unknown := {self.origin, self.destination} - cities.keys():
            raise ValueError(f"unknown airport: {', '.join(sorted(unknown))}")
        if cities[self.origin] == cities[self.destination]:
            raise ValueError("origin and destination are in the same city")
        if self.arrives <= self.departs:
            raise ValueError("it arrives before it departs")
        return Flight(**{**dict(self), "origin": cities[self.origin], "destination": cities[self.destination]})


class WhatToDo(BaseModel):
    """The user's choice for flights that already exist."""

    existing: Literal["replace", "leave"] = Field(
        title="Existing flights", description="Replace them with those of the table, or leave them unchanged."
    )


class Imported(BaseModel):
    """The result of an import."""

    added: int
    replaced: int
    left: int = Field(description="Flights of the table that already existed and were left unchanged.")


def flights_in(table: str) -> list[Flight]:
    """Return the flights of a table, unsaved.

    Raises:
        ToolError: the table or some of its lines are invalid; the message names them.
    """
    cities = {each.code: each.city for each in Airport.objects.select_related("city")}
    found: dict[tuple[Any, ...], Flight] = {}
    wrong = []
    for number, row in rows_of(table):
        try:
            flight = Line.model_validate(row).flight(cities)
            if found.setdefault(key_of(flight), flight) is not flight:
                raise ValueError("the same flight is in the table twice")
        except ValueError as error:
            wrong.append(f"Line {number}: {words(error)}.")
    if wrong:
        more = [f"{len(wrong) - MAX_TOLD} more errors."] if len(wrong) > MAX_TOLD else []
        raise ToolError("\n".join(["Nothing was imported.", *wrong[:MAX_TOLD], *more]))
    return list(found.values())


def rows_of(table: str) -> list[tuple[int, dict[str, str]]]:
    """Return the lines below the header with their numbers.

    Raises:
        ToolError: it is not such a table.
    """
    reader = csv.DictReader(io.StringIO(table.strip()), restkey="")
    try:
        rows = [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise ToolError(f"This cannot be read as CSV: {error}.") from None
    if missing := Line.model_fields.keys() - set(reader.fieldnames or ()):
        raise ToolError(f"The first line must name the columns. Missing: {', '.join(sorted(missing))}.")
    if not 1 <= len(rows) <= MAX_LINES:
        raise ToolError(f"The table must have 1 to {MAX_LINES} flights, not {len(rows)}.")
    return rows


def words(error: ValueError) -> str:
    """Return the errors of a line as text."""
    if not isinstance(error, ValidationError):
        return str(error)
    return "; ".join(f"{each['loc'][0]}: {each['msg'][:1].lower()}{each['msg'][1:]}" for each in error.errors())


def key_of(flight: Flight) -> tuple[Any, ...]:
    return tuple(getattr(flight, each) for each in KEY)


@tool(
    title="Import flights",
    icons=[PLANE],
    read_only=False,
    destructive=True,
    idempotent=False,
    open_world=False,
    permission=["travel.add_flight", "travel.change_flight"],
    scopes=["travel:write"],
    task="optional",
    before_task=flights_in,
    server=staff,
)
def import_flights(ctx: Context, table: Annotated[str, Field(max_length=1_000_000)]) -> ToolResult[Imported]:
    """Import flights into the timetable, all or none. If some already exist, the user is asked whether to replace them.

    Args:
        table: CSV with the columns number, airline, origin, destination, departs, arrives, cabin, price and seats_left.
            Airports are IATA codes, times have an offset such as 2030-05-01T15:00+02:00, cabins are economy or
            business, prices are in euros.
    """
    flights = flights_in(table)
    known = set(Flight.objects.filter(number__in={each.number for each in flights}).values_list(*KEY))
    there = sum(key_of(each) in known for each in flights)
    replace = there > 0 and to_be_replaced(ctx, there, len(flights))
    conflicts = {"update_conflicts": True, "unique_fields": KEY, "update_fields": CHANGED}
    for start in range(0, len(flights), BATCH):
        batch = flights[start : start + BATCH]
        Flight.objects.bulk_create(batch, **(conflicts if replace else {"ignore_conflicts": True}))
        ctx.report_progress(start + len(batch), len(flights), f"{batch[-1]}")
    done = Imported(added=len(flights) - there, replaced=there * replace, left=there * (not replace))
    return ToolResult(done, text=f"{count(done.added, 'flight')} added, {done.replaced} replaced, {done.left} left.")


def to_be_replaced(ctx: Context, there: int, total: int) -> bool:
    """Ask the user whether to replace existing flights. Without elicitation, leave them.

    Raises:
        ToolError: the user declined the import.
    """
    if not ctx.supports("elicitation"):
        return False
    question = f"Already in the timetable: {there} of {count(total, 'flight')}. Replace or leave them?"
    answer = ctx.elicit(question, WhatToDo)
    if not answer.accepted:
        raise ToolError("Nothing was imported: the user did not choose what to do with existing flights.")
    return answer.data.existing == "replace"
