"""The airports of the cities."""

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from demo_project.travel import sample_data
from demo_project.travel.models import Airport, City

pytestmark = pytest.mark.usefixtures("travel")


def test_every_city_has_its_main_airport_among_its_airports():
    for city in City.objects.all():
        assert (city.airport, city.airport_name) in city.airports.values_list("code", "name"), city


def test_the_data_have_no_code_twice():
    codes = [airport.code for airport in sample_data.airports({city.slug: city for city in City.objects.all()})]

    assert sorted(codes) == sorted(set(codes))
    assert sorted(codes) == list(Airport.objects.values_list("code", flat=True))


def test_cities_have_these_airports_by_code():
    airports = {
        "barcelona": ["BCN"],
        "chicago": ["MDW", "ORD"],
        "istanbul": ["IST", "SAW"],
        "london": ["LCY", "LGW", "LHR", "LTN", "SEN", "STN"],
        "new-york": ["EWR", "JFK", "LGA"],
        "paris": ["BVA", "CDG", "ORY"],
        "park-city": ["SLC"],
        "sao-paulo": ["CGH", "GRU", "VCP"],
        "tokyo": ["HND", "NRT"],
        "washington": ["BWI", "DCA", "IAD"],
    }
    cities = City.objects.filter(slug__in=airports)
    assert {city.slug: [airport.code for airport in city.airports.all()] for city in cities} == airports


def test_an_airport_is_shown_with_its_name_and_code():
    shown = {
        "EWR": ("Newark Liberty International (EWR)", "New York"),
        "LGW": ("Gatwick (LGW)", "London"),
        "NRT": ("Narita International (NRT)", "Tokyo"),
        "SAW": ("Sabiha Gökçen (SAW)", "Istanbul"),
        "SLC": ("Salt Lake City International (SLC)", "Park City"),
    }
    airports = Airport.objects.filter(code__in=shown)
    assert {airport.code: (str(airport), airport.city.name) for airport in airports} == shown


def test_a_code_is_three_capital_letters():
    for code in ("", "lhr", "LH", "LHRX", "L1R", "XXY\n", "ÄÖÜ"):
        with pytest.raises(ValidationError) as caught:
            Airport(code=code, name="Nowhere", city=City.objects.get(slug="london")).full_clean()

        assert list(caught.value.message_dict) == ["code"], code


def test_two_airports_cannot_have_the_same_code():
    with pytest.raises(IntegrityError), transaction.atomic():
        Airport.objects.create(code="LHR", name="Heathrow again", city=City.objects.get(slug="paris"))
