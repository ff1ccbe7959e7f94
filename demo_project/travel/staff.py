"""Tools for staff, at their own endpoint.

The endpoint requires staff status, and each tool a permission. A tool is hidden from users without its permission.
"""

import datetime

from pydantic import BaseModel, Field

from demo_project.travel.arguments import CityName, city_or_tool_error
from demo_project.travel.bookings import rooms_taken
from demo_project.travel.customers import Booked, Reference, cancelled
from demo_project.travel.endpoints import staff
from demo_project.travel.icons import BED
from demo_project.travel.models import Booking
from django_mcp import ToolResult, tool


class Fullness(BaseModel):
    """Occupancy of one hotel."""

    hotel: str
    rooms: int
    taken: int


class Occupancy(BaseModel):
    """Occupancy of a city's hotels on one night."""

    city: str
    night: datetime.date
    hotels: list[Fullness] = Field(description="Highest occupancy first.")


@tool(
    title="Cancel a customer's booking",
    icons=[BED],
    read_only=False,
    destructive=True,
    idempotent=False,
    open_world=False,
    permission="travel.change_booking",
    scopes=["travel:write"],
    server=staff,
)
def cancel_any_booking(reference: Reference) -> ToolResult[Booked]:
    """Cancel any customer's booking that has not begun, at the customer's request. This cannot be undone."""
    return cancelled(Booking.objects.all(), reference)


@tool(
    title="Hotel occupancy",
    icons=[BED],
    read_only=True,
    idempotent=True,
    open_world=False,
    permission="travel.view_hotel",
    server=staff,
)
def hotel_occupancy(city: CityName, night: datetime.date) -> ToolResult[Occupancy]:
    """Get the number of occupied rooms in each hotel of a city on one night.

    Args:
        night: Date on which the night begins: YYYY-MM-DD.
    """
    place = city_or_tool_error(city)
    taken = rooms_taken(place, night)
    hotels = [Fullness(hotel=each.name, rooms=each.rooms, taken=taken[each.pk]) for each in place.hotels.all()]
    hotels.sort(key=lambda each: each.taken / max(each.rooms, 1), reverse=True)
    lines = [f"{each.hotel}: {each.taken} of {each.rooms} rooms taken" for each in hotels]
    answer = Occupancy(city=str(place), night=night, hotels=hotels)
    return ToolResult(answer, text="\n".join([f"{place}, {night}:", *lines]))
