"""What staff do for customers, at an endpoint of their own.

Two things are asked of a caller there: to be staff, which the endpoint asks, and the permission that the tool names.
A tool for which somebody has no permission does not exist for them.
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
    """How full one hotel is."""

    hotel: str
    rooms: int
    taken: int


class Occupancy(BaseModel):
    """How full the hotels of a city are on one night."""

    city: str
    night: datetime.date
    hotels: list[Fullness] = Field(description="The fullest first.")


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
    """Cancel anybody's booking that has not begun, for a customer who asks for it. It cannot be taken back."""
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
    """How many rooms of each hotel of a city are taken on one night.

    Args:
        night: The day on which it begins: YYYY-MM-DD.
    """
    place = city_or_tool_error(city)
    taken = rooms_taken(place, night)
    hotels = [Fullness(hotel=each.name, rooms=each.rooms, taken=taken[each.pk]) for each in place.hotels.all()]
    hotels.sort(key=lambda each: each.taken / max(each.rooms, 1), reverse=True)
    lines = [f"{each.hotel}: {each.taken} of {each.rooms} rooms taken" for each in hotels]
    answer = Occupancy(city=str(place), night=night, hotels=hotels)
    return ToolResult(answer, text="\n".join([f"{place}, {night}:", *lines]))
