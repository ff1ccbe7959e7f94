"""From what somebody typed to a city."""

from contextlib import suppress

import pytest

from demo_project.travel.models import City
from demo_project.travel.places import UnknownCityError, find_city, similar_cities

pytestmark = [pytest.mark.usefixtures("travel"), pytest.mark.postgresql]


def test_a_city_is_found_by_name_slug_and_code():
    slugs = {
        "Barcelona": "barcelona",
        "barcelona": "barcelona",
        "BCN": "barcelona",
        "bcn": "barcelona",
        "Barcelona, Spain": "barcelona",
        " new york ": "new-york",
        "NYC": "new-york",
        "JFK": "new-york",
        "São Paulo": "sao-paulo",
        "Sao Paulo": "sao-paulo",
        "park-city": "park-city",
        "SLC": "park-city",
        "TYO": "tokyo",
    }
    assert {text: find_city(text).slug for text in slugs} == slugs


def test_what_is_no_city_is_not_taken_for_one():
    taken = []
    for text in ("Xyzzy", "", "   ", ", Spain", "QQQ", "東京", "\0", "a" * 5000, "' OR 1=1 --"):
        with suppress(UnknownCityError):
            taken.append((text, find_city(text)))
    assert taken == []


def test_a_near_match_is_suggested():
    near = {"Barcelone": "Barcelona", "Londn": "London", "New York City": "New York", "Reyk": "Reykjavík"}
    for text, name in near.items():
        with pytest.raises(UnknownCityError, match=f"Did you mean .*{name}"):
            find_city(text)


def test_three_letters_lead_to_paris_and_to_park_city():
    assert [city.name for city in City.objects.starting_with("Par")] == ["Paris", "Park City"]


def test_a_second_word_may_be_typed_first():
    assert [city.name for city in City.objects.starting_with("fran")] == ["San Francisco"]


def test_nothing_typed_leaves_all_cities():
    assert City.objects.starting_with("").count() == City.objects.count()


def test_what_is_like_nothing_has_no_suggestions():
    assert similar_cities("qqqqqqqq") == []
    assert similar_cities("東京") == []
