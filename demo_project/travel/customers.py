"""Tools for customers' own bookings."""

import datetime
from typing import Annotated, Self

from pydantic import BaseModel, Field

from demo_project.travel import bookings, models
from demo_project.travel.arguments import PLAIN
from demo_project.travel.bookings import NotAvailableError
from demo_project.travel.icons import BED
from demo_project.travel.results import Euros, count
from django_mcp import Context, ToolError, ToolResult, tool

Reference = Annotated[
    str, Field(min_length=1, max_length=20, description="The booking's reference, such as K7PQ2M."), PLAIN
]


class Booked(BaseModel):
    """A booking as listed."""

    reference: str
    status: models.Booking.Status
    customer: str | None = Field(description="Username; null for a guest.")
    hotel: str | None
    city: str = Field(description="Destination.")
    check_in: datetime.date | None
    nights: int
    flight: str | None = Field(description="Flight number.")
    departs: datetime.datetime | None = Field(description="In the origin's local time.")
    travellers: int
    total: Euros

    @classmethod
    def of(cls, booking: models.Booking) -> Self:
        """Create it from a row of ``BookingQuerySet.in_full``."""
        hotel, flight = booking.hotel, booking.flight
        return cls(
            reference=booking.reference,
            status=booking.status,
            customer=booking.user and booking.user.username,
            hotel=hotel and hotel.name,
            city=str(hotel.city if hotel else flight.destination),
            check_in=booking.check_in,
            nights=booking.nights,
            flight=flight and flight.number,
            departs=flight and flight.departs.astimezone(flight.origin.zone),
            travellers=booking.travellers,
            total=booking.total,
        )

    def __str__(self) -> str:
        parts = [f"{self.reference}, {self.status.label.lower()}: {self.city}"]
        if self.flight:
            parts.append(f"flight {self.flight} on {self.departs:%Y-%m-%d %H:%M}")
        if self.hotel:
            parts.append(f"{count(self.nights, 'night')} at {self.hotel} from {self.check_in}")
        return f"{', '.join(parts)}; {count(self.travellers, 'traveller')}, €{self.total:.2f}"


def cancelled(found: models.BookingQuerySet, reference: str) -> ToolResult[Booked]:
    """Cancel the booking with this reference, or raise an error that helps the model correct its call."""
    try:
        answer = Booked.of(bookings.cancel(found.in_full(), reference))
    except NotAvailableError as error:
        raise ToolError(f"Nothing was cancelled. {error}") from None
    return ToolResult(answer, text=f"Cancelled: {answer}")


@tool(
    title="Cancel my booking",
    icons=[BED],
    read_only=False,
    destructive=True,
    idempotent=False,
    open_world=False,
    scopes=["travel:write"],
)
def cancel_booking(ctx: Context, reference: Reference) -> ToolResult[Booked]:
    """Cancel one of your own bookings that has not begun. This cannot be undone: another customer may book the room."""
    return cancelled(models.Booking.objects.made_by(ctx.user), reference)
