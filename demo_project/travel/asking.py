"""Tools that ask the traveller before booking, and a model before recommending.

A tool that asks runs again from the top with each answer, so side effects come after the last question.
"""

import datetime
from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, Field

from demo_project.travel import advice, bookings, flights, results
from demo_project.travel.arguments import PLAIN, CityName, city_or_tool_error, way_or_tool_error
from demo_project.travel.bookings import NotAvailableError, Offer
from demo_project.travel.endpoints import SIGNED_IN
from demo_project.travel.icons import BED, PLANE
from demo_project.travel.models import Booking, City, Hotel
from django_mcp import Context, ToolError, ToolResult, tool

MAX_HOTELS = 5
MAX_SHOWN = 5
MAX_DAYS = 14


class Confirmation(BaseModel):
    """The traveller's answer to an offer."""

    confirm: bool = Field(title="Confirm the booking", description="Nothing is booked without your confirmation.")
    room: Booking.Room = Field(Booking.Room.CITY, title="Room type", description="If the hotel has such rooms.")
    insurance: bool = Field(
        default=False, title="Travel insurance", description=f"€{bookings.INSURANCE} per person and night."
    )


class ConfirmationWithSeat(Confirmation):
    """The answer to an offer with a flight."""

    seat: Booking.Seat = Field(Booking.Seat.ANY, title="Seat preference", description="For the outbound flight.")


class NotWantedError(Exception):
    """The traveller did not confirm. *action* is the elicitation's action."""

    def __init__(self, action: str) -> None:
        super().__init__(action)
        self.action = action


def what_is_booked(
    ctx: Context, city: str, check_in: datetime.date, nights: int, travellers: int, hotel: str, flight: str
) -> str:
    """Return the preview for the approver at the agency.

    Raises:
        ToolError: it cannot be booked.
    """
    place = city_or_tool_error(city)
    try:
        bookings.check_day(place, check_in)
        free = bookings.free_hotels(place, check_in, nights, travellers)
        there = bookings.flight_there(place, flight, check_in, travellers) if flight else None
        if hotel:
            offer = Offer(bookings.hotel_called(hotel, free), check_in, nights, travellers, there)
            return f"For {ctx.user.get_username()}, in {place.name}:\n{offer}"
    except NotAvailableError as error:
        raise ToolError(f"Nothing was booked. {error}") from None
    prices = [Offer(each, check_in, nights, travellers, there).total(insured=False) for each in free]
    return (
        f"For {ctx.user.get_username()}, in {place.name}: {results.count(nights, 'night')} from {check_in} for "
        f"{results.count(travellers, 'traveller')}, hotel to be chosen: €{min(prices):.2f} to €{max(prices):.2f}."
    )


@tool(
    title="Book a hotel",
    icons=[BED],
    read_only=False,
    destructive=False,
    idempotent=False,
    open_world=False,
    scopes=["travel:write"],
    policy="ask",
    preview=what_is_booked,
)
def book_hotel(
    ctx: Context,
    city: CityName,
    check_in: datetime.date,
    nights: Annotated[int, Field(ge=1, le=30)] = 3,
    travellers: Annotated[int, Field(ge=1, le=9)] = 2,
    hotel: Annotated[str, Field(max_length=120), PLAIN] = "",
    flight: Annotated[str, Field(max_length=8), PLAIN] = "",
) -> ToolResult[results.BookingAnswer]:
    """Book hotel rooms, and optionally the outbound flight. Nothing is booked without the traveller's confirmation.

    Args:
        check_in: First night: YYYY-MM-DD.
        nights: Number of nights.
        travellers: Number of people. Two share a room.
        hotel: Name of the hotel. If omitted, the traveller is asked to choose.
        flight: Number of a flight that arrives on the day of check_in, from search_flights.
    """
    if not ctx.supports("elicitation"):
        raise ToolError(
            "Nothing was booked. A booking requires the traveller's confirmation, but this client does not support "
            "elicitation. Use a client that does."
        )
    place = city_or_tool_error(city)
    try:
        bookings.check_day(place, check_in)
        free = bookings.free_hotels(place, check_in, nights, travellers)
        there = bookings.flight_there(place, flight, check_in, travellers) if flight else None
        house = bookings.hotel_called(hotel or chosen_hotel(ctx, place, free), free)
        booking = confirmed(ctx, Offer(house, check_in, nights, travellers, there))
    except NotAvailableError as error:
        raise ToolError(f"Nothing was booked. {error}") from None
    except NotWantedError as refusal:
        return not_booked(refusal.action)
    booked = results.Booking.of(booking)
    return ToolResult(results.BookingAnswer(outcome="booked", booking=booked), text=f"Booked: {booked}")


def chosen_hotel(ctx: Context, place: City, free: Sequence[Hotel]) -> str:
    """Ask the traveller for a hotel and return its name.

    Raises:
        NotWantedError: the traveller did not choose.
    """
    offers = [
        {
            "const": each.name,
            "title": f"{each.name}, {each.stars} stars, rated {each.rating}, €{each.price:.2f} a night",
        }
        for each in free[:MAX_HOTELS]
    ]
    hotel = {"type": "string", "title": "Hotel", "oneOf": offers}
    form = {"type": "object", "properties": {"hotel": hotel}, "required": ["hotel"]}
    answer = ctx.elicit(f"Where would you like to stay in {place.name}?", form)
    if not answer.accepted:
        raise NotWantedError(answer.action)
    return str(answer.data["hotel"])


def confirmed(ctx: Context, offer: Offer) -> Booking:
    """Ask the traveller to confirm the offer, and book it.

    Raises:
        NotWantedError: the traveller did not confirm.
        NotAvailableError: the offer is no longer available.
    """
    form = ConfirmationWithSeat if offer.flight else Confirmation
    answer = ctx.elicit(f"Confirm your {offer.hotel.city.name} trip\n\n{offer}", form)
    if not answer.accepted:
        raise NotWantedError(answer.action)
    wishes = answer.data
    if not wishes.confirm:
        raise NotWantedError("decline")
    seat = wishes.seat if offer.flight else ""
    # The only side effect, after the last question, so that it happens once.
    return bookings.book(offer, ctx.user, room=wishes.room, seat=seat, insured=wishes.insurance)


def not_booked(action: str) -> ToolResult[results.BookingAnswer]:
    """Return the result for the model, with whether it may ask again."""
    if action == "cancel":
        words = "Nothing was booked: the traveller closed the form without an answer. You may ask again."
        return ToolResult(results.BookingAnswer(outcome="cancelled", booking=None), text=words)
    words = "Nothing was booked: the traveller declined. Do not ask again unless they request it."
    return ToolResult(results.BookingAnswer(outcome="declined", booking=None), text=words)


@tool(title="Find the best flight", icons=[PLANE], read_only=True, open_world=False, server=SIGNED_IN)
def find_best_flight(
    ctx: Context,
    origin: CityName,
    destination: CityName,
    date: datetime.date,
    days: Annotated[int, Field(ge=1, le=MAX_DAYS)] = 3,
    wishes: Annotated[str, Field(max_length=500), PLAIN] = "",
) -> ToolResult[results.FlightChoice]:
    """Compare the flights of several days and let the client's model choose the best one for the traveller.

    If the client does not support sampling, the result has the cheapest flights and no choice.

    Args:
        date: First departure date, in the origin's local time: YYYY-MM-DD.
        days: Number of days to compare.
        wishes: The traveller's preferences, such as mornings only, business class or lowest price.
    """
    start, end = way_or_tool_error(origin, destination)
    try:
        wanted = [date + datetime.timedelta(days=each) for each in range(days)]
        found = flights_of(ctx, start, end, wanted)
    except (OverflowError, ValueError):
        raise ToolError(f"{date} is out of range.") from None
    if not found:
        raise ToolError(f"No flights from {start.name} to {end.name} on these days. Try more days, or search_flights.")
    best, reason = advised(ctx, found, wishes)
    cheapest = found[:MAX_SHOWN]
    answer = results.FlightChoice(best=best, reason=reason, considered=len(found), cheapest=cheapest)
    if best:
        return ToolResult(answer, text=f"Chosen from {results.count(len(found), 'flight')}: {best}\n{reason}")
    lines = [f"{reason} The cheapest of {results.count(len(found), 'flight')}:", *map(str, cheapest)]
    return ToolResult(answer, text="\n".join(lines))


def flights_of(ctx: Context, start: City, end: City, days: Sequence[datetime.date]) -> list[results.Flight]:
    """Return the flights on *days*, cheapest first, and report progress."""
    found: list[results.Flight] = []
    for done, day in enumerate(days, start=1):
        on_day = flights.flights_on(start, end, day)
        found += map(results.Flight.of, on_day)
        ctx.report_progress(done, len(days), f"{day}: {results.count(len(on_day), 'flight')}")
    return sorted(found, key=lambda flight: (flight.price, flight.departs))[: advice.MAX_FLIGHTS]


def advised(ctx: Context, found: Sequence[results.Flight], wishes: str) -> tuple[results.Flight | None, str]:
    """Return the flight chosen by the client's model and its reason; None and an explanation if there is no choice."""
    if not ctx.supports("sampling"):
        return None, "No flight was chosen, because your client does not support sampling."
    try:
        said = ctx.sample(advice.question(found, wishes), max_tokens=300, system_prompt=advice.ROLE)
    except ToolError as error:  # the user declined, or the model is unavailable
        return None, f"Your client's model did not choose a flight. {error}"
    best, reason = advice.choice(said.text, found)
    if best is None:
        return None, f"Your client's model chose none of the flights. Its answer: {reason}"
    # After the question: messages before it would be repeated in each round.
    ctx.log("info", f"{said.model} chose {advice.code_of(best)}.", logger="flights")
    return best, reason
