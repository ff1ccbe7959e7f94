"""The tools that ask: a traveller before they book, and a model before they recommend.

A tool that asks is run again from the top with each answer, so what it does comes after what it asks.
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
    """What a traveller says to an offer."""

    confirm: bool = Field(title="Confirm the booking", description="Without a yes nothing is booked.")
    room: Booking.Room = Field(Booking.Room.CITY, title="Room type", description="Where the house has such rooms.")
    insurance: bool = Field(
        default=False, title="Travel insurance", description=f"€{bookings.INSURANCE} more per person and night."
    )


class ConfirmationWithSeat(Confirmation):
    """The same where there is a flight in it."""

    seat: Booking.Seat = Field(Booking.Seat.ANY, title="Seat preference", description="On the flight there.")


class NotWantedError(Exception):
    """The traveller did not say yes; *action* is what they did."""

    def __init__(self, action: str) -> None:
        super().__init__(action)
        self.action = action


def what_is_booked(
    ctx: Context, city: str, check_in: datetime.date, nights: int, travellers: int, hotel: str, flight: str
) -> str:
    """For the person of the agency who is asked first: what the traveller is then asked to confirm.

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
        f"{results.count(travellers, 'traveller')}, in a hotel they choose: €{min(prices):.2f} to €{max(prices):.2f}."
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
    """Book rooms, and the flight there if one is given. It asks the traveller, and without a yes nothing is booked.

    Args:
        check_in: The first night: YYYY-MM-DD.
        nights: How many nights.
        travellers: How many people; they sleep two to a room.
        hotel: Its name; where it is not given, the traveller is asked to choose.
        flight: The number of a flight that arrives on the day of check_in, as search_flights finds it.
    """
    if not ctx.supports("elicitation"):
        raise ToolError(
            "Nothing was booked. A booking needs the traveller's own yes, and this client cannot ask for it: it does "
            "not support elicitation. Use a client that does."
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
    """The name of the one that the traveller likes best.

    Raises:
        NotWantedError: none.
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
    """The booking of what the traveller says yes to.

    Raises:
        NotWantedError: they did not.
        NotAvailableError: it is gone.
    """
    form = ConfirmationWithSeat if offer.flight else Confirmation
    answer = ctx.elicit(f"Confirm your {offer.hotel.city.name} trip\n\n{offer}", form)
    if not answer.accepted:
        raise NotWantedError(answer.action)
    wishes = answer.data
    if not wishes.confirm:
        raise NotWantedError("decline")
    seat = wishes.seat if offer.flight else ""
    # Only here, after the last question, is anything done: so it is done once.
    return bookings.book(offer, ctx.user, room=wishes.room, seat=seat, insured=wishes.insurance)


def not_booked(action: str) -> ToolResult[results.BookingAnswer]:
    """What the model is told, so that it knows whether it makes sense to ask again."""
    if action == "cancel":
        words = "Nothing was booked: the traveller closed the question without an answer, and may be asked again."
        return ToolResult(results.BookingAnswer(outcome="cancelled", booking=None), text=words)
    words = "Nothing was booked: the traveller declined. Do not ask again unless they want something else."
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
    """Look at the flights of several days, and have the client's own model choose the best one for the traveller.

    Where the client has no model to ask, it gives the cheapest and says so.

    Args:
        date: The first day of departure, by the clocks of the origin: YYYY-MM-DD.
        days: How many days to look at.
        wishes: What the traveller wants: mornings only, business, the lowest price.
    """
    start, end = way_or_tool_error(origin, destination)
    try:
        wanted = [date + datetime.timedelta(days=each) for each in range(days)]
        found = flights_of(ctx, start, end, wanted)
    except (OverflowError, ValueError):
        raise ToolError(f"{date} is too far away.") from None
    if not found:
        raise ToolError(f"No flights from {start.name} to {end.name} in these days. Try more days, or search_flights.")
    best, reason = advised(ctx, found, wishes)
    cheapest = found[:MAX_SHOWN]
    answer = results.FlightChoice(best=best, reason=reason, considered=len(found), cheapest=cheapest)
    if best:
        return ToolResult(answer, text=f"Chosen from {results.count(len(found), 'flight')}: {best}\n{reason}")
    lines = [f"{reason} The cheapest of {results.count(len(found), 'flight')}:", *map(str, cheapest)]
    return ToolResult(answer, text="\n".join(lines))


def flights_of(ctx: Context, start: City, end: City, days: Sequence[datetime.date]) -> list[results.Flight]:
    """What leaves on *days*, the cheapest first; the client hears how far the search is."""
    found: list[results.Flight] = []
    for done, day in enumerate(days, start=1):
        on_day = flights.flights_on(start, end, day)
        found += map(results.Flight.of, on_day)
        ctx.report_progress(done, len(days), f"{day}: {results.count(len(on_day), 'flight')}")
    return sorted(found, key=lambda flight: (flight.price, flight.departs))[: advice.MAX_FLIGHTS]


def advised(ctx: Context, found: Sequence[results.Flight], wishes: str) -> tuple[results.Flight | None, str]:
    """The flight that the client's model chooses, and why; or None, and why not."""
    if not ctx.supports("sampling"):
        return None, "Your client has no model that could be asked to choose (it does not support sampling)."
    try:
        said = ctx.sample(advice.question(found, wishes), max_tokens=300, system_prompt=advice.ROLE)
    except ToolError as error:  # the person said no, or the model could not be reached
        return None, f"Your client's model was asked to choose and did not. {error}"
    best, reason = advice.choice(said.text, found)
    if best is None:
        return None, f"Your client's model was asked to choose and named none of the flights. It said: {reason}"
    # After the question: what stands before it is said again in each round.
    ctx.log("info", f"{said.model} chose {advice.code_of(best)}.", logger="flights")
    return best, reason
