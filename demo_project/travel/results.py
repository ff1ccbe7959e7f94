"""Results of tools and resources as pydantic models, which define the output schemas."""

import datetime
from decimal import Decimal
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer

from demo_project.travel import models
from demo_project.travel.weather import Condition, DayWeather

Euros = Annotated[Decimal, PlainSerializer(float, return_type=float), Field(description="In euros.")]


def count(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 night``, ``2 nights``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


class Flight(BaseModel):
    """One flight in one cabin."""

    number: str
    airline: str
    origin: str = Field(description="IATA code.")
    destination: str = Field(description="IATA code.")
    departs: datetime.datetime = Field(description="In the origin's local time.")
    arrives: datetime.datetime = Field(description="In the destination's local time.")
    duration_minutes: int
    cabin: Literal["economy", "business"]
    price: Euros
    seats_left: int

    @classmethod
    def of(cls, flight: models.Flight) -> Self:
        """Create it from a row."""
        return cls(
            number=flight.number,
            airline=flight.airline,
            origin=flight.origin.airport,
            destination=flight.destination.airport,
            departs=flight.departs.astimezone(flight.origin.zone),
            arrives=flight.arrives.astimezone(flight.destination.zone),
            duration_minutes=int(flight.duration.total_seconds() // 60),
            cabin=flight.cabin,
            price=flight.price,
            seats_left=flight.seats_left,
        )

    def __str__(self) -> str:
        hours, minutes = divmod(self.duration_minutes, 60)
        return (
            f"{self.number} ({self.airline}), {self.cabin}: {self.origin} {self.departs:%Y-%m-%d %H:%M} → "
            f"{self.destination} {self.arrives:%Y-%m-%d %H:%M} local time, {hours} h {minutes:02} min, "
            f"€{self.price:.2f}, {self.seats_left} seats left"
        )


class FlightList(BaseModel):
    """Flights between two cities."""

    origin: str
    destination: str
    date: datetime.date
    flights: list[Flight] = Field(description="Cheapest first, at most twenty.")
    next_date: datetime.date | None = Field(description="If there is no flight on that day, the next day with one.")


class Departure(BaseModel):
    """An entry of the departures board."""

    number: str
    departs: str = Field(description="In the airport's local time.")
    destination: str
    cabin: str
    price: str = Field(description="In euros.")
    seats_left: int


class Departures(BaseModel):
    """The departures board of an airport."""

    airport: str
    city: str
    departures: list[Departure]


class FlightChoice(BaseModel):
    """The flight chosen by the client's model."""

    best: Flight | None = Field(description="Null if no flight was chosen.")
    reason: str = Field(description="The model's reason, or why no flight was chosen.")
    considered: int = Field(description="Number of flights found.")
    cheapest: list[Flight] = Field(description="The cheapest of them, at most five.")


class Booking(BaseModel):
    """A booked stay, with the outbound flight if there is one."""

    reference: str
    hotel: str
    city: str
    check_in: datetime.date
    nights: int
    travellers: int
    room: str
    flight: str | None
    seat: str | None
    insurance: bool
    total: Euros

    @classmethod
    def of(cls, booking: models.Booking) -> Self:
        """Create it from a row."""
        return cls(
            reference=booking.reference,
            hotel=booking.hotel.name,
            city=str(booking.hotel.city),
            check_in=booking.check_in,
            nights=booking.nights,
            travellers=booking.travellers,
            room=booking.get_room_display(),
            flight=booking.flight and str(booking.flight),
            seat=booking.get_seat_display() or None,
            insurance=booking.insurance,
            total=booking.total,
        )

    def __str__(self) -> str:
        flight = f" Flight {self.flight}; seat: {self.seat}." if self.flight else ""
        insured = "with" if self.insurance else "without"
        return (
            f"{self.reference}, {count(self.nights, 'night')} at {self.hotel}, {self.city}, from {self.check_in}, for "
            f"{count(self.travellers, 'traveller')}. Room: {self.room}.{flight} Total €{self.total:.2f}, {insured} "
            "insurance."
        )


class BookingAnswer(BaseModel):
    """The outcome of a booking."""

    outcome: Literal["booked", "declined", "cancelled"] = Field(
        description="declined: the traveller refused. cancelled: the traveller did not answer."
    )
    booking: Booking | None


class DayForecast(BaseModel):
    """The weather forecast of one day."""

    city: str
    date: datetime.date
    condition: Condition
    high: float = Field(description="°C")
    low: float = Field(description="°C")
    rain_probability: int = Field(description="Per cent.")
    humidity: int = Field(description="Per cent.")
    wind: float = Field(description="km/h")

    @classmethod
    def of(cls, city: models.City, day: datetime.date, weather: DayWeather) -> Self:
        """Create it from computed weather."""
        return cls(
            city=str(city),
            date=day,
            condition=weather.condition,
            high=weather.high,
            low=weather.low,
            rain_probability=weather.rain_probability,
            humidity=weather.humidity,
            wind=weather.wind,
        )

    def __str__(self) -> str:
        return (
            f"{self.city}, {self.date:%A %Y-%m-%d}: {self.condition}, {self.low:g} to {self.high:g} °C, "
            f"{self.rain_probability} % chance of rain, humidity {self.humidity} %, wind {self.wind:g} km/h."
        )


class CurrentConditions(BaseModel):
    """The current weather."""

    location: str
    local_time: datetime.datetime
    condition: Condition
    temperature: float
    temperature_unit: Literal["°C", "°F", "K"]
    humidity: int = Field(description="Per cent.")
    wind: float
    wind_unit: Literal["km/h", "mph"]

    def __str__(self) -> str:
        return (
            f"{self.location}, {self.local_time:%Y-%m-%d %H:%M} local time: {self.condition}, "
            f"{self.temperature:g} {self.temperature_unit}, humidity {self.humidity} %, "
            f"wind {self.wind:g} {self.wind_unit}."
        )


class Calculation(BaseModel):
    """An expression and its value."""

    expression: str
    result: int | float


class DocumentHit(BaseModel):
    """A document found by a search."""

    title: str
    uri: str = Field(description="URI of the resource with the full text.")
    category: str
    updated: datetime.date
    snippet: str

    def __str__(self) -> str:
        return f"{self.title} ({self.category}, updated {self.updated}, {self.uri})\n  {self.snippet}"


class DocumentPage(BaseModel):
    """One page of documents."""

    model_config = ConfigDict(serialize_by_alias=True, validate_by_name=True)

    keyword: str
    page_index: int = Field(alias="pageIndex")
    page_count: int = Field(alias="pageCount", description="Number of pages available.")
    total_count: int = Field(alias="totalCount", description="Number of matching documents on all pages.")
    documents: list[DocumentHit]


class Event(BaseModel):
    """A calendar event."""

    id: int
    title: str
    starts: datetime.datetime
    ends: datetime.datetime
    location: str
    notes: str

    @classmethod
    def of(cls, event: models.CalendarEvent) -> Self:
        """Create it from a row."""
        return cls(
            id=event.pk,
            title=event.title,
            starts=event.starts,
            ends=event.ends,
            location=event.location,
            notes=event.notes,
        )

    def __str__(self) -> str:
        place = f", at {self.location}" if self.location else ""
        notes = f" Notes: {self.notes}" if self.notes else ""
        return (
            f"{self.title} (event {self.id}), {self.starts:%Y-%m-%d %H:%M %Z} to {self.ends:%Y-%m-%d %H:%M %Z}"
            f"{place}.{notes}"
        )


class ActivityOffer(BaseModel):
    """An activity."""

    name: str
    description: str
    price: Euros
    duration_minutes: int
