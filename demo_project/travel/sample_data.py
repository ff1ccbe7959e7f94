"""The agency's sample data: what the files in ``data/`` say, and what is invented around it.

Everything is a function of the day it is made for: the same day gives the same rows. Objects come back unsaved, in
an order in which they can be saved.
"""

import csv
import json
import math
import random
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from itertools import count, permutations
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.utils.text import slugify

from demo_project.travel.models import (
    Activity,
    Airport,
    Booking,
    CalendarEvent,
    City,
    Document,
    Flight,
    Hotel,
    RegionPreference,
    Trip,
)
from demo_project.travel.regions import Region

DATA = Path(__file__).resolve().parent / "data"
DAYS_AROUND = 365  # flights are a year back and a year ahead

AIRLINES = [
    ("ALB", "Albatross Air"),
    ("CRL", "Coral Airways"),
    ("MRD", "Meridian Skies"),
    ("SMT", "Summit Air"),
    ("TRN", "Blue Tern"),
]
HUBS = ["dubai", "johannesburg", "london", "los-angeles", "new-york", "paris", "sao-paulo", "singapore", "sydney"]
DAILY = [
    ("amsterdam", "barcelona"),
    ("london", "barcelona"),
    ("london", "dubai"),
    ("london", "new-york"),
    ("los-angeles", "tokyo"),
    ("madrid", "barcelona"),
    ("new-york", "barcelona"),
    ("new-york", "park-city"),
    ("paris", "barcelona"),
    ("paris", "new-york"),
    ("paris", "rome"),
    ("singapore", "sydney"),
    ("tokyo", "sydney"),
]
HOTEL_NAMES = [
    "{} House",
    "{} Garden Hotel",
    "Hotel {}",
    "The {} Rooms",
    "{} Park Hotel",
    "Little {}",
    "{} Suites",
    "{} Corner Hotel",
]
NIGHT_PRICES = {1: 48, 2: 72, 3: 108, 4: 172, 5: 310}
DEAR = {Region.NORTH_AMERICA: 1.35, Region.EUROPE: 1.1, Region.OCEANIA: 1.15, Region.MIDDLE_EAST: 1.1}
TRIP_CITIES = [
    *["barcelona", "lisbon", "paris", "park-city", "kyoto", "rome", "new-york", "istanbul", "reykjavik", "cape-town"],
    *["mexico-city", "vienna", "sydney", "marrakesh", "vancouver", "singapore"],
]
LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"


def rows(name: str) -> Iterator[dict[str, str]]:
    """The lines of a CSV file in ``data/``."""
    with (DATA / name).open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def cities() -> list[City]:
    """Some seventy cities, with facts; only the numbers of the climate are rounded."""
    whole = {"warmest_month", "wettest_month"}
    words = {"name", "country", "region", "airport", "metro", "airport_name", "timezone"}
    return [
        City(
            slug=slugify(row["name"]),
            **{
                key: value if key in words else int(value) if key in whole else float(value)
                for key, value in row.items()
                if key != "districts"
            },
        )
        for row in rows("cities.csv")
    ]


def airports(by_slug: dict[str, City]) -> list[Airport]:
    """The main airport of each city, and the further ones of the cities that have several."""
    main = [Airport(code=city.airport, name=city.airport_name, city=city) for city in by_slug.values()]
    further = [Airport(code=row["code"], name=row["name"], city=by_slug[row["city"]]) for row in rows("airports.csv")]
    return [*main, *further]


def activities(by_slug: dict[str, City]) -> list[Activity]:
    """What there is to do."""
    return [
        Activity(
            city=by_slug[row["city"]],
            category=row["category"],
            name=row["name"],
            description=row["description"],
            price=Decimal(row["price"]),
            duration=timedelta(minutes=int(row["minutes"])),
        )
        for row in rows("activities.csv")
    ]


def documents(today: date) -> list[Document]:
    """The files in ``data/documents``: a title, a line with the category, and the text."""
    chance = random.Random("documents")
    made = []
    for path in sorted((DATA / "documents").glob("*.md")):
        title, category, _, text = path.read_text(encoding="utf-8").split("\n", 3)
        document = Document(
            title=title.removeprefix("# "),
            slug=path.stem,
            category=category.removeprefix("Category: "),
            text=text.strip(),
            updated=today - timedelta(days=chance.randint(3, 700)),
        )
        document.clean_for_search()
        made.append(document)
    return made


def region_preferences() -> list[RegionPreference]:
    """What customers like, region by region."""
    regions = json.loads((DATA / "regions.json").read_text(encoding="utf-8"))
    return [RegionPreference(region=region, **fields) for region, fields in regions.items()]


def hotels(by_slug: dict[str, City]) -> list[Hotel]:
    """One invented house in each of the real districts."""
    chance = random.Random("hotels")
    made = []
    for row in rows("cities.csv"):
        city = by_slug[slugify(row["name"])]
        for pattern, district in zip(HOTEL_NAMES, row["districts"].split("|"), strict=True):
            stars = chance.choices([1, 2, 3, 4, 5], [1, 3, 8, 7, 3])[0]
            price = NIGHT_PRICES[stars] * DEAR.get(Region(city.region), 0.85) * chance.uniform(0.8, 1.35)
            made.append(
                Hotel(
                    city=city,
                    name=pattern.format(district.removeprefix("The ")),
                    district=district,
                    stars=stars,
                    rating=Decimal(str(round(min(6.6 + 0.5 * stars + chance.gauss(0, 0.4), 9.8), 1))),
                    price=Decimal(round(price)),
                    rooms=chance.randint(12, 60 + 45 * stars),
                    breakfast=chance.random() < 0.45,
                )
            )
    return made


def kilometres(start: City, end: City) -> float:
    """The great-circle distance."""
    south, north = math.radians(start.latitude), math.radians(end.latitude)
    turn = math.radians(end.longitude - start.longitude)
    cosine = math.sin(south) * math.sin(north) + math.cos(south) * math.cos(north) * math.cos(turn)
    return 6371 * math.acos(max(-1.0, min(1.0, cosine)))


def routes(by_slug: dict[str, City]) -> Iterator[tuple[City, City, int]]:
    """Pairs of cities, in both directions, with flights a week.

    Busy routes fly every day, the hubs are joined once a week, and each city has two flights to its nearest hub.
    """
    weekly: dict[tuple[str, str], int] = dict.fromkeys(permutations(HUBS, 2), 1)
    for slug, city in by_slug.items():
        if slug not in HUBS:
            nearest = min(HUBS, key=lambda hub: kilometres(city, by_slug[hub]))
            weekly[slug, nearest] = weekly[nearest, slug] = 2
    for pair in DAILY:
        weekly[pair] = weekly[pair[::-1]] = 7
    for (origin, destination), times in weekly.items():
        yield by_slug[origin], by_slug[destination], times


def flights(by_slug: dict[str, City], today: date) -> Iterator[Flight]:
    """Two years of flights around *today*; of those that have left, one in three."""
    chance = random.Random("flights")
    numbers = count(100)
    first = today - timedelta(days=DAYS_AROUND)
    for origin, destination, times in routes(by_slug):
        code, airline = chance.choice(AIRLINES)
        number = f"{code}{next(numbers)}"
        distance = kilometres(origin, destination)
        # The wind blows from the west: eastbound flights are a little quicker.
        eastbound = (destination.longitude - origin.longitude + 540) % 360 - 180 > 0
        minutes = 5 * round((35 + distance / 13.8 * (0.97 if eastbound else 1.04)) / 5)
        leaves = time(chance.randint(6, 21), chance.choice(range(0, 60, 5)))
        weekdays = chance.sample(range(7), times)
        fare = 24 + 2.1 * distance**0.62
        for day in (first + timedelta(days=at) for at in range(2 * DAYS_AROUND + 1)):
            if day.weekday() not in weekdays or (day < today and day.toordinal() % 3):
                continue
            departs = datetime.combine(day, leaves, tzinfo=origin.zone).astimezone(UTC)
            price = fare * _demand(day) * chance.uniform(0.78, 1.3)
            offers = [(Flight.Cabin.ECONOMY, price, chance.randint(0, 120))]
            if times == 7 and day.weekday() < 2:
                offers.append((Flight.Cabin.BUSINESS, price * chance.uniform(2.6, 3.4), chance.randint(0, 18)))
            for cabin, amount, seats in offers:
                yield Flight(
                    number=number,
                    airline=airline,
                    origin=origin,
                    destination=destination,
                    departs=departs,
                    arrives=departs + timedelta(minutes=minutes),
                    cabin=cabin,
                    price=Decimal(round(amount) * 100 - 5) / 100,
                    seats_left=seats,
                )


def _demand(day: date) -> float:
    """What a day's fare is multiplied with: dear in July, in the last days of December, and at weekends."""
    season = 1 + 0.18 * math.cos(2 * math.pi * (day.timetuple().tm_yday - 205) / 365.25)
    holidays = 1.25 if (day.month, day.day) >= (12, 19) or (day.month, day.day) <= (1, 4) else 1
    return season * holidays * (1.12 if day.weekday() in {4, 6} else 0.96)


def events(today: date, agent: User, customer: User) -> list[CalendarEvent]:
    """The agency's calendar of last year, this one and the next, and a few private entries."""
    made = []
    for year in range(today.year - 1, today.year + 2):
        for row in rows("events.csv"):
            starts = datetime(year, int(row["month"]), int(row["day"]), int(row["hour"]), tzinfo=UTC)
            made.append(
                CalendarEvent(
                    title=row["title"],
                    starts=starts,
                    ends=starts + timedelta(hours=int(row["hours"])),
                    location=row["location"],
                    notes=row["notes"],
                )
            )
    private = [
        (agent, 4, 9, "Call about the Kyoto group", "Rooming list, and two guests who need a ground floor."),
        (agent, 11, 15, "Check rail options Paris–Barcelona", "Compare with the morning flight before quoting."),
        (customer, 6, 12, "Pay the balance for Lisbon", "Thirty days before departure."),
        (customer, 20, 18, "Pack for Barcelona", "One bag; see the document about cabin luggage."),
    ]
    for owner, days, hour, title, notes in private:
        starts = datetime.combine(today + timedelta(days=days), time(hour), tzinfo=UTC)
        made.append(
            CalendarEvent(title=title, starts=starts, ends=starts + timedelta(hours=1), notes=notes, owner=owner)
        )
    return made


def trips(by_slug: dict[str, City], offers: Sequence[Activity], today: date) -> list[Trip]:
    """Trips of the last three years, each to do with what its city really has."""
    chance = random.Random("trips")
    made = []
    for year in range(today.year - 3, today.year):
        for slug in TRIP_CITIES:
            city = by_slug[slug]
            starts = date(year, chance.randint(1, 12), chance.randint(1, 20))
            days = chance.randint(4, 8)
            travellers = chance.choice([1, 2, 2, 2, 3, 4, 4])
            done = [activity for activity in offers if activity.city == city]
            chance.shuffle(done)
            made.append(
                Trip(
                    slug=f"{year}-{slug}",
                    title=f"{city.name}, {starts:%B %Y}",
                    city=city,
                    starts=starts,
                    ends=starts + timedelta(days=days - 1),
                    travellers=travellers,
                    cost=Decimal(travellers * (days * chance.randint(110, 240) + chance.randint(140, 900))),
                    rating=chance.choice([3, 4, 4, 4, 5, 5, 5]),
                    itinerary=_itinerary(city, done, days),
                )
            )
    return made


def _itinerary(city: City, done: Sequence[Activity], days: int) -> str:
    plans = iter(done)
    lines = [f"Day 1: Arrival at {city.airport_name} ({city.airport}); a walk around the hotel and an early supper."]
    for day in range(2, days):
        plan = next(plans, None)
        lines.append(f"Day {day}: {plan.name}. {plan.description}" if plan else f"Day {day}: Free for favourites.")
    lines.append(f"Day {days}: Breakfast, the last presents, and home.")
    return "\n".join(lines)


def bookings(
    flown: Sequence[Flight],
    houses: Sequence[Hotel],
    today: date,
    agent: User,
    customer: User,
) -> list[Booking]:
    """Bookings with a flight, with a hotel in the city it goes to, or with both. Both must have been saved."""
    chance = random.Random("bookings")
    noon = datetime.combine(today, time(12), tzinfo=UTC)
    in_city: dict[Any, list[Hotel]] = {}
    for hotel in houses:
        in_city.setdefault(hotel.city_id, []).append(hotel)
    made = []
    for position in range(60):
        flight = chance.choice(flown)
        hotel = chance.choice(in_city[flight.destination_id])
        travellers, nights = chance.randint(1, 4), chance.randint(2, 9)
        kind = chance.choice(["both", "both", "both", "flight", "hotel"])
        lodging = hotel.price * nights * math.ceil(travellers / 2) if kind != "flight" else Decimal(0)
        air = flight.price * travellers if kind != "hotel" else Decimal(0)
        made.append(
            Booking(
                reference="".join(chance.choices(LETTERS, k=6)),
                user=agent if position % 4 == 0 else customer,
                flight=flight if kind != "hotel" else None,
                hotel=hotel if kind != "flight" else None,
                check_in=flight.arrives.astimezone(flight.destination.zone).date() if kind != "flight" else None,
                nights=nights if kind != "flight" else 0,
                travellers=travellers,
                total=lodging + air,
                status=chance.choices(Booking.Status.values, [2, 7, 1])[0],
                created=min(noon, flight.departs) - timedelta(days=chance.randint(5, 90), hours=chance.randint(0, 8)),
            )
        )
    return made
