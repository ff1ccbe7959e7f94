"""Finding flights, and flights worth finding."""

import datetime
from decimal import Decimal

import pytest
from django.db.models import Count

from demo_project.travel import flights
from demo_project.travel.models import City, Flight
from demo_project.travel.places import find_city
from demo_project.travel.sample_data import kilometres
from tests.demo.kept import TODAY

pytestmark = pytest.mark.usefixtures("travel")

DAY = TODAY + datetime.timedelta(days=30)


@pytest.fixture
def way() -> tuple[City, City]:
    return find_city("Paris"), find_city("Barcelona")


def test_the_cheapest_comes_first(way):
    prices = [flight.price for flight in flights.flights_on(find_city("NYC"), find_city("LON"), DAY)]

    assert prices == sorted(prices)


def test_a_busy_route_flies_every_day(way):
    for at in range(60):
        day = TODAY + datetime.timedelta(days=at)
        start = datetime.datetime.combine(day, datetime.time.min, tzinfo=way[0].zone)
        assert Flight.objects.filter(
            origin=way[0],
            destination=way[1],
            departs__gte=start,
            departs__lt=start + datetime.timedelta(days=1),
        ).exists()


def test_the_day_is_that_of_the_origin():
    sydney, tokyo = find_city("Sydney"), find_city("Tokyo")
    found = [flight for at in range(14) for flight in flights.flights_on(sydney, tokyo, DAY + datetime.timedelta(at))]

    assert found
    days = [DAY + datetime.timedelta(at) for at in range(14)]
    assert all(flight.departs.astimezone(sydney.zone).date() in days for flight in found)


def test_full_flights_are_not_offered(way):
    Flight.objects.filter(origin=way[0], destination=way[1]).update(seats_left=0)

    assert flights.flights_on(*way, DAY) == []
    assert flights.next_day(*way, DAY) is None


def test_no_more_than_twenty_are_given(way):
    noon = datetime.datetime.combine(DAY, datetime.time(12), tzinfo=datetime.UTC)
    Flight.objects.bulk_create(
        Flight(
            number=f"T{at}",
            airline="Test",
            origin=way[0],
            destination=way[1],
            departs=noon,
            arrives=noon + datetime.timedelta(hours=2),
            price=Decimal(100 - at),
            seats_left=1,
        )
        for at in range(40)
    )

    assert [flight.price for flight in flights.flights_on(*way, DAY)] == [Decimal(61 + at) for at in range(20)]
    assert len(flights.next_flights(*way, noon)) == 20


def test_the_next_flights_leave_one_after_the_other(way):
    now = datetime.datetime.combine(TODAY, datetime.time(12), tzinfo=datetime.UTC)
    found = flights.next_flights(*way, now)

    assert len(found) == 20
    assert now <= found[0].departs
    assert [flight.departs for flight in found] == sorted(flight.departs for flight in found)


def test_a_route_without_flights_that_day_names_the_next_one():
    boston, new_york = find_city("Boston"), find_city("New York")
    day = next(
        day for at in range(7) if not flights.flights_on(boston, new_york, day := DAY + datetime.timedelta(days=at))
    )

    following = flights.next_day(boston, new_york, day)

    assert following is not None
    assert following > day
    assert flights.flights_on(boston, new_york, following)


def test_a_pair_of_cities_may_have_no_flights_at_all():
    assert flights.next_day(find_city("Bali"), find_city("Warsaw"), TODAY) is None


@pytest.mark.parametrize("day", [datetime.date.min, datetime.date.max])
@pytest.mark.parametrize("origin", ["Tokyo", "Honolulu", "Los Angeles"])
def test_the_edges_of_the_calendar_are_refused_in_words(origin, day):
    try:
        assert flights.flights_on(find_city(origin), find_city("Sydney"), day) == []
    except ValueError as error:
        assert "out of range" in str(error)  # noqa: PT017 - either is a good answer


def test_durations_and_fares_grow_with_the_distance():
    routes = Flight.objects.filter(cabin="economy").select_related("origin", "destination")[:5000]
    for flight in routes:
        distance = kilometres(flight.origin, flight.destination)
        hours = flight.duration.total_seconds() / 3600
        assert 0.5 + distance / 900 <= hours <= 0.8 + distance / 750, flight
        assert 20 < flight.price < 150 + distance / 5, flight


def test_every_city_can_be_left_and_reached():
    assert not City.objects.annotate(flights=Count("departures")).filter(flights=0).exists()
    assert not City.objects.annotate(flights=Count("arrivals")).filter(flights=0).exists()


def test_business_class_costs_more():
    business = Flight.objects.filter(cabin="business").select_related("origin", "destination")[:200]
    assert business
    for flight in business:
        assert flight.price > Flight.objects.get(number=flight.number, departs=flight.departs, cabin="economy").price
