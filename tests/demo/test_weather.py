"""Computed weather: the same for everybody, and such that nobody wonders."""

import datetime
import itertools
import os
import statistics
import subprocess
import sys

import pytest
from django.conf import settings

from demo_project.travel import weather
from demo_project.travel.models import City
from demo_project.travel.sample_data import cities

CITIES = {city.slug: city for city in cities()}
DAY = datetime.date(2027, 3, 14)


def month(slug: str, number: int) -> list[weather.DayWeather]:
    start = datetime.date(2027, number, 1)
    return [weather.forecast(CITIES[slug], start + datetime.timedelta(days=at)) for at in range(28)]


def warmth(slug: str, number: int) -> float:
    return statistics.mean((day.high + day.low) / 2 for day in month(slug, number))


def test_the_same_question_has_the_same_answer():
    assert weather.forecast(CITIES["paris"], DAY) == weather.forecast(CITIES["paris"], DAY)


@pytest.mark.slow
def test_another_process_gives_the_same_answer():
    program = (
        "import datetime, django; django.setup(); "
        "from demo_project.travel import weather, sample_data; "
        "city = next(city for city in sample_data.cities() if city.slug == 'paris'); "
        f"print(weather.forecast(city, {DAY!r}))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7", "DJANGO_SETTINGS_MODULE": "demo_project.settings"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        cwd=settings.BASE_DIR,
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.strip() == str(weather.forecast(CITIES["paris"], DAY))


@pytest.mark.parametrize("slug", ["sydney", "cape-town", "buenos-aires", "queenstown", "santiago"])
def test_the_south_is_warmer_in_january_than_in_july(slug):
    assert warmth(slug, 1) > warmth(slug, 7) + 5


@pytest.mark.parametrize("slug", ["barcelona", "new-york", "tokyo", "helsinki", "beijing", "cairo"])
def test_the_north_is_warmer_in_july_than_in_january(slug):
    assert warmth(slug, 7) > warmth(slug, 1) + 8


def test_the_tropics_know_no_winter():
    assert abs(warmth("singapore", 1) - warmth("singapore", 7)) < 3


def test_months_are_about_as_warm_as_they_are_known_to_be():
    assert warmth("barcelona", 8) == pytest.approx(24.2, abs=2.5)
    assert warmth("montreal", 1) == pytest.approx(-8.5, abs=3.5)
    assert warmth("dubai", 8) == pytest.approx(36.5, abs=2.5)
    assert warmth("reykjavik", 7) == pytest.approx(11, abs=2.5)


def test_deserts_are_dry_and_monsoons_are_not():
    rainy = {"light rain", "rain", "heavy rain", "thunderstorm"}

    assert sum(day.condition in rainy for day in month("cairo", 7)) <= 1
    assert sum(day.condition in rainy for day in month("bangkok", 9)) >= 12
    assert sum(day.condition in rainy for day in month("bangkok", 1)) <= 8


def test_it_snows_in_winter_and_where_it_is_cold():
    assert any(day.condition == "snow" for number in (12, 1, 2) for day in month("park-city", number))
    for slug in ("singapore", "bali", "honolulu", "cairo"):
        assert not any(day.condition in {"snow", "sleet"} for number in range(1, 13) for day in month(slug, number))


def test_every_number_is_one_that_a_newspaper_would_print():
    wrong = [
        (slug, day)
        for slug in CITIES
        for number in range(1, 13)
        for day in month(slug, number)
        if not (
            -40 < day.low < day.high < 50
            and 1 <= day.rain_probability <= 97
            and 5 <= day.humidity <= 100
            and 0 < day.wind < 60
        )
    ]
    assert wrong == []


def test_rain_is_announced_when_it_comes():
    days = [day for number in range(1, 13) for day in month("london", number)]
    wet = [day for day in days if "rain" in day.condition]

    assert wet
    assert all(day.rain_probability >= 50 for day in wet)
    assert all(day.rain_probability <= 55 for day in days if day.condition == "sunny")


def test_warm_and_cold_spells_last_for_days():
    highs = [day.high for number in (1, 2) for day in month("berlin", number)]
    steps = [abs(after - before) for before, after in itertools.pairwise(highs)]

    assert statistics.mean(steps) < statistics.stdev(highs) * 2
    assert max(steps) < 9


@pytest.mark.parametrize("day", [datetime.date.min, datetime.date.max, datetime.date(2028, 2, 29)])
def test_there_is_weather_on_any_day(day):
    assert weather.forecast(CITIES["rome"], day).condition


def test_the_hour_matters():
    at = datetime.datetime(2027, 7, 1, tzinfo=datetime.UTC)
    rome: City = CITIES["rome"]
    hours = [weather.current(rome, at + datetime.timedelta(hours=hour)).temperature for hour in (1, 13)]
    day = weather.forecast(rome, at.date())

    assert hours == [pytest.approx(day.low), pytest.approx(day.high)]  # three at night and three in the afternoon


def test_the_clock_is_the_city_s():
    moment = datetime.datetime(2027, 1, 1, 20, 30, tzinfo=datetime.UTC)

    assert weather.current(CITIES["tokyo"], moment).local_time.strftime("%Y-%m-%d %H:%M") == "2027-01-02 05:30"


def test_units_are_the_same_weather():
    moment = datetime.datetime(2027, 5, 1, 12, tzinfo=datetime.UTC)
    metric, imperial, kelvin = (
        weather.current(CITIES["oslo"], moment, units) for units in ("metric", "imperial", "kelvin")
    )

    assert imperial.temperature == pytest.approx(metric.temperature * 9 / 5 + 32, abs=0.15)
    assert kelvin.temperature == pytest.approx(metric.temperature + 273.15, abs=0.11)
    assert imperial.wind == pytest.approx(metric.wind / 1.609, abs=0.1)
    assert (metric.temperature_unit, imperial.temperature_unit, kelvin.temperature_unit) == ("°C", "°F", "K")
