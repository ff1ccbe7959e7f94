"""The agency's MCP tools, resources and prompts.

The work is done in the other modules of this folder; here it gets names, descriptions and types.
"""

import datetime
import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal

from django.db.models.signals import post_delete, post_save
from django.dispatch import receiver
from django.utils import timezone
from django.utils.text import slugify
from pydantic import Field

from demo_project.travel import (
    asking,  # noqa: F401 - its tools
    calculator,
    catalogue,  # noqa: F401 - models as resources
    customers,  # noqa: F401 - its tools
    documents,
    existing,  # noqa: F401 - its tools and prompt
    flights,
    importing,  # noqa: F401 - its tool
    mailing,  # noqa: F401 - its tool
    reports,  # noqa: F401 - its tool and resource
    results,
    staff,  # noqa: F401 - its tools
    weather,
)
from demo_project.travel.arguments import PLAIN, CityName, city_or_404, city_or_tool_error, way_or_tool_error
from demo_project.travel.endpoints import EVERYWHERE, SIGNED_IN
from demo_project.travel.icons import PLANE, SUN
from demo_project.travel.models import (
    Activity,
    CalendarEvent,
    City,
    CityQuerySet,
    Region,
)
from demo_project.travel.places import UnknownCityError, find_city
from django_mcp import Context, PromptMessage, ToolError, ToolResult, prompt, resource, tool

# Completions of arguments of prompts and resource templates


def names_and_codes(cities: CityQuerySet, text: str) -> list[str]:
    """Return the names and airport codes of matching cities."""
    found, code = cities.starting_with(text), slugify(text).upper()
    codes = found.filter(airport__startswith=code) if code else found.none()
    return [*found.values_list("name", flat=True), *codes.values_list("airport", flat=True)]


def complete_city(value: str) -> list[str]:
    """Complete any city."""
    return names_and_codes(City.objects.all(), value)


def complete_destination(value: str, arguments: Mapping[str, str]) -> list[str]:
    """Complete a city with flights from the origin, once that is known."""
    try:
        origin = find_city(arguments.get("origin", ""))
    except UnknownCityError:
        return complete_city(value)
    return names_and_codes(City.objects.filter(pk__in=origin.departures.values("destination")), value)


# Tools


@tool(
    title="Search flights",
    icons=[PLANE],
    read_only=True,
    open_world=False,
    app="travel/flights.html",
    server=EVERYWHERE,
)
def search_flights(origin: CityName, destination: CityName, date: datetime.date) -> ToolResult[results.FlightList]:
    """Find flights from one city to another on one day, cheapest first.

    Fares are in euros per person. If there is no flight on that day, the result has the next day with one.

    Args:
        date: Departure date, in the origin's local time: YYYY-MM-DD.
    """
    start, end = way_or_tool_error(origin, destination)
    try:
        found = [results.Flight.of(flight) for flight in flights.flights_on(start, end, date)]
        following = None if found else flights.next_day(start, end, date)
    except ValueError as error:
        raise ToolError(str(error)) from None
    answer = results.FlightList(
        origin=start.airport, destination=end.airport, date=date, flights=found, next_date=following
    )
    way = f"from {start.name} ({start.airport}) to {end.name} ({end.airport})"
    if found:
        lines = [f"{len(found)} flight{'s' if len(found) > 1 else ''} {way} on {date}:", *map(str, found)]
    elif following:
        lines = [f"No flights {way} on {date}. The next flight is on {following}."]
    else:
        lines = [f"No flights {way} on {date} or later. Try a connection through a larger city."]
    return ToolResult(answer, text="\n".join(lines))


@tool(title="Check the weather", icons=[SUN], read_only=True, idempotent=True, open_world=False, server=EVERYWHERE)
def check_weather(city: CityName, date: datetime.date) -> ToolResult[results.DayForecast]:
    """Get the weather forecast of a city for one day: temperatures, sky, chance of rain, humidity and wind.

    Args:
        date: YYYY-MM-DD; any day, past or future.
    """
    place = city_or_tool_error(city)
    answer = results.DayForecast.of(place, date, weather.forecast(place, date))
    return ToolResult(answer, text=str(answer))


@tool(title="Weather now", icons=[SUN], read_only=True, open_world=False, server=EVERYWHERE)
def weather_current(
    location: CityName, units: Literal["metric", "imperial", "kelvin"] = "metric"
) -> ToolResult[results.CurrentConditions]:
    """Get the current weather in a city.

    Args:
        units: metric: °C and km/h; imperial: °F and mph; kelvin: K and km/h.
    """
    place = city_or_tool_error(location)
    now = weather.current(place, timezone.now(), units)
    answer = results.CurrentConditions(
        location=str(place),
        local_time=now.local_time,
        condition=now.condition,
        temperature=now.temperature,
        temperature_unit=now.temperature_unit,
        humidity=now.humidity,
        wind=now.wind,
        wind_unit=now.wind_unit,
    )
    return ToolResult(answer, text=str(answer))


@tool(title="Calculate", read_only=True, idempotent=True, open_world=False, server=EVERYWHERE)
async def calculator_arithmetic(
    expression: Annotated[str, Field(max_length=calculator.MAX_CHARACTERS)],
) -> ToolResult[results.Calculation]:
    """Evaluate an arithmetic expression, such as a budget: ``2 * 4 * 135 + 389.5``.

    Supports + - * / // % ** and parentheses, the constants pi, e and tau, and functions such as sqrt, sin, cos, tan,
    asin, log, exp, round, min and max. Angles are in radians.

    Args:
        expression: The expression to evaluate.
    """
    try:
        answer = results.Calculation(expression=expression, result=calculator.calculate(expression))
    except calculator.CalculationError as error:
        raise ToolError(str(error)) from None
    return ToolResult(answer, text=f"{expression.strip()} = {answer.result}")


@tool(title="Search documents", read_only=True, idempotent=True, open_world=False, server=EVERYWHERE)
def search_documents(
    keyword: Annotated[str, Field(min_length=1, max_length=200)],
    page_index: Annotated[int, Field(ge=1, le=documents.LAST_PAGE)] = 1,
) -> ToolResult[results.DocumentPage]:
    """Search the agency's documents: city guides, visa notes, packing lists, insurance, health and policies.

    A document matches if it contains every word. Results have ten documents per page; read one by its URI.

    Args:
        keyword: One or more words, in any order and case.
        page_index: Page of the results, from 1 to 10.
    """
    try:
        page = documents.search(keyword, page_index)
    except ValueError as error:
        raise ToolError(str(error)) from None
    hits = [
        results.DocumentHit(
            title=hit.document.title,
            uri=f"travel://documents/{hit.document.slug}/text",
            category=hit.document.category,
            updated=hit.document.updated,
            snippet=hit.snippet,
        )
        for hit in page.hits
    ]
    answer = results.DocumentPage(
        keyword=keyword, page_index=page_index, page_count=page.pages, total_count=page.total, documents=hits
    )
    if page.total:
        count = f"{page.total} document{'s match' if page.total > 1 else ' matches'}"
        lines = [f"{count} ‘{keyword}’; page {page_index} of {page.pages}.", *map(str, hits)]
    else:
        lines = [f"No document contains all of ‘{keyword}’. Try fewer or more general words."]
    return ToolResult(answer, text="\n".join(lines))


@tool(
    title="Create a calendar event",
    read_only=False,
    destructive=False,
    idempotent=False,
    open_world=False,
    scopes=["travel:write"],
)
def create_calendar_event(
    ctx: Context,
    title: Annotated[str, Field(min_length=1, max_length=200, pattern=r"[^\s\x00]"), PLAIN],
    starts: datetime.datetime,
    ends: datetime.datetime | None = None,
    location: Annotated[str, Field(max_length=200), PLAIN] = "",
    notes: Annotated[str, Field(max_length=5000), PLAIN] = "",
) -> ToolResult[results.Event]:
    """Create a calendar event: in your own calendar if you are signed in, otherwise in the agency's public one.

    Args:
        title: Short title of the event.
        starts: ISO 8601, such as 2030-05-01T15:00+02:00. Without an offset, UTC.
        ends: ISO 8601. Default: one hour after starts.
        location: Place of the event.
        notes: Further notes.
    """
    try:
        start = aware(starts)
        end = start + datetime.timedelta(hours=1) if ends is None else aware(ends)
    except OverflowError:
        raise ToolError("The date is out of range: use the years 1 to 9999.") from None
    if end < start:
        raise ToolError(f"ends ({end.isoformat()}) must not be before starts ({start.isoformat()}).")
    event = CalendarEvent.objects.create(
        title=title,
        starts=start,
        ends=end,
        location=location,
        notes=notes,
        owner=ctx.user if ctx.user.is_authenticated else None,
    )
    answer = results.Event.of(event)
    return ToolResult(answer, text=f"Created: {answer}")


def aware(moment: datetime.datetime) -> datetime.datetime:
    """*moment* in UTC."""
    if timezone.is_naive(moment):
        moment = timezone.make_aware(moment)
    return moment.astimezone(datetime.UTC)


@receiver([post_save, post_delete], sender=CalendarEvent)
def calendar_changed(instance: CalendarEvent, **_: Any) -> None:
    """Notify subscribed clients of a change, made by a tool or in the admin."""
    for endpoint in SIGNED_IN:
        endpoint.notify_resource_updated(f"calendar://events/{instance.starts.astimezone(datetime.UTC).year}")


# Resources


@resource("travel://guide", title="Guide to this server", mime_type="text/markdown")
def guide() -> str:
    """The available data, and how to query it. Read this first."""
    regions = ", ".join(Region.values)
    categories = ", ".join(Activity.Category.values)
    return (
        "# The travel agency\n\n"
        f"There are {City.objects.count()} cities (`travel://cities`). A city argument is a name, slug or IATA code. "
        "Prices are in euros.\n\n"
        "* Flights: the tool `search_flights`, or `travel://flights/{origin}/{destination}` for the next ones. "
        "`find_best_flight` compares several days and lets your model choose. "
        "`departures_board` lists the next departures of an airport.\n"
        "* Hotels: `search_hotels`. The tool `book_hotel` requires the agency's approval and the traveller's "
        "confirmation; `hold_rooms` holds rooms until the agency calls back (in clients with apps: "
        "`hold_rooms_form`).\n"
        "* Your own bookings: `search_bookings`, and `cancel_booking` for one that has not begun. "
        "`send_email` writes to travellers after the agency's approval.\n"
        "* Weather: `check_weather` for a day, `weather_current` for now, `weather://forecast/{city}/{date}`.\n"
        f"* Things to do: `travel://activities/{{city}}/{{category}}`, with category one of {categories}.\n"
        f"* What customers like: `travel://preferences/{{region}}`, with region one of {regions}.\n"
        "* Past trips: `search_trips`, or `trips://history/{slug}`, with slug such as `2025-barcelona`.\n"
        "* The calendar: `calendar://events/{year}`, `search_calendar_events`, and the tool `create_calendar_event`. "
        "Your own entries: `list_own_events`, `get_own_event`, `update_own_event`, `delete_own_event`.\n"
        "* Guides, visa notes, packing lists and policies: the tool `search_documents`.\n"
        "* Arithmetic: the tool `calculator_arithmetic`.\n"
        "* Cities, airports, hotels, activities, trips, calendar events and bookings can be searched (`search_cities` "
        "and so on) and read one by one (`get_city`; also `get_flight`, `get_document`, `get_preferences`); some can "
        "be aggregated (`aggregate_hotels`). Resources such as `schema://travel/city` describe their fields.\n\n"
        "The prompt `plan-vacation` combines these.\n"
    )


@resource("calendar://events/{year}", title="Calendar of a year", mime_type="application/json", server=SIGNED_IN)
def calendar_events(ctx: Context, year: Annotated[int, Field(ge=1900, le=2200)]) -> list[results.Event]:
    """The agency's events of one year, and your own if you are signed in."""
    return [results.Event.of(event) for event in CalendarEvent.objects.visible_to(ctx.user).filter(starts__year=year)]


@resource(
    "travel://activities/{city}/{category}",
    title="Things to do in a city",
    mime_type="application/json",
    completions={"city": complete_city},
    server=EVERYWHERE,
)
def city_activities(city: str, category: Activity.Category) -> list[results.ActivityOffer]:
    """Activities of one category: family, food, museums, nightlife, outdoors or shopping."""
    return [
        results.ActivityOffer(
            name=activity.name,
            description=activity.description,
            price=activity.price,
            duration_minutes=int(activity.duration.total_seconds() // 60),
        )
        for activity in city_or_404(city).activities.filter(category=category)
    ]


@resource(
    "travel://flights/{origin}/{destination}",
    title="Next flights",
    icons=[PLANE],
    mime_type="application/json",
    completions={"origin": complete_city, "destination": complete_destination},
    server=EVERYWHERE,
)
def next_flights(origin: str, destination: str) -> list[results.Flight]:
    """The next twenty flights from one city to another."""
    found = flights.next_flights(city_or_404(origin), city_or_404(destination), timezone.now())
    return [results.Flight.of(flight) for flight in found]


@resource(
    "weather://forecast/{city}/{date}",
    title="Forecast",
    icons=[SUN],
    mime_type="application/json",
    completions={"city": complete_city},
    server=EVERYWHERE,
)
def weather_forecast(city: str, date: datetime.date) -> results.DayForecast:
    """The weather forecast of a city for one day, YYYY-MM-DD."""
    place = city_or_404(city)
    return results.DayForecast.of(place, date, weather.forecast(place, date))


# Prompts


@prompt(name="plan-vacation", title="Plan a vacation", completions={"destination": complete_city})
def plan_vacation(
    destination: str,
    duration: Annotated[int, Field(ge=1, le=60)],
    budget: Annotated[Decimal, Field(gt=0)],
    interests: str = "",
) -> list[PromptMessage]:
    """Plan a vacation with the agency's flights, weather, activities and past trips.

    Args:
        destination: City to travel to.
        duration: Number of days.
        budget: Total budget in euros.
        interests: The travellers' interests, comma-separated: museums, food, outdoors.
    """
    liked = ", ".join(word.strip() for word in interests.split(",") if word.strip()) or "a bit of everything"
    request = (
        f"Plan a vacation of {duration} day{'s' if duration > 1 else ''} in {destination} for €{budget:f} in all. "
        f"Interests: {liked}.\n\n"
        "Ask me where I start from and when, if I have not said. Then use this agency's tools and resources: "
        "search_flights for the way there and back, check_weather for each day, search_hotels for where to stay, "
        "travel://activities for what to "
        "do, search_trips for past trips, and search_documents for entry rules and packing. "
        "Give a plan day by day that suits the weather, with a price for each part, and add up the prices with "
        "calculator_arithmetic so that the total stays within the budget. Create no calendar events before I agree."
    )
    try:
        facts = known_facts(find_city(destination))
    except UnknownCityError as error:
        return [PromptMessage(f"{request}\n\n{error} Say so before you plan.")]
    return [PromptMessage(f"{request}\n\nThe agency's data on this city: {json.dumps(facts, ensure_ascii=False)}")]


def known_facts(city: City) -> dict[str, Any]:
    """Return facts about a city for planning."""
    return {
        "city": str(city),
        "airport": f"{city.airport} ({city.airport_name})",
        "slug": city.slug,
        "region": city.region,
        "activity categories": sorted(set(city.activities.values_list("category", flat=True))),
        "past trips": list(city.trips.values_list("slug", flat=True)),
    }
