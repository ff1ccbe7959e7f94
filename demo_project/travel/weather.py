"""Computed weather of any city on any day.

It needs no network and no table: the season comes from the city's climate, and the day's variation from a hash of the
city and the date, so that every process returns the same result.
"""

import hashlib
import math
from dataclasses import dataclass
from datetime import date, datetime
from typing import Literal

from demo_project.travel.models import City

Condition = Literal[
    "sunny", "partly cloudy", "cloudy", "fog", "light rain", "rain", "heavy rain", "thunderstorm", "sleet", "snow"
]
Units = Literal["metric", "imperial", "kelvin"]

DAYS_PER_MONTH = 365.25 / 12
FRONT_DAYS = 5  # how long a spell of warm or cold lasts
WARMEST_HOUR = 15


@dataclass(frozen=True, slots=True)
class DayWeather:
    """One day in one city: °C, km/h, and per cent."""

    high: float
    low: float
    condition: Condition
    rain_probability: int
    humidity: int
    wind: float


@dataclass(frozen=True, slots=True)
class CurrentWeather:
    """This hour in one city, in the units asked for."""

    local_time: datetime
    temperature: float
    temperature_unit: Literal["°C", "°F", "K"]
    condition: Condition
    humidity: int
    wind: float
    wind_unit: Literal["km/h", "mph"]


def forecast(city: City, day: date) -> DayWeather:
    """The weather in *city* on *day*."""
    rain_probability = _clamp(
        (city.rain_days + city.rain_swing * _season(day, city.wettest_month)) / DAYS_PER_MONTH, 0.01, 0.93
    )
    wet = _chance(city, day, "rain") < rain_probability
    # A spell of weather matters more where summer and winter differ than on the equator.
    spell = (0.8 + 0.35 * min(city.temp_swing, 12)) * _spell(city, day)
    mean = city.temp_mean + city.temp_swing * _season(day, city.warmest_month) + spell - (0.8 if wet else 0)
    half_range = city.daily_range / 2 * (0.65 if wet else 1.1) * (0.85 + 0.3 * _chance(city, day, "range"))
    high, low = round(mean + half_range, 1), round(mean - half_range, 1)
    # What is announced agrees with what comes, yet leaves room for doubt.
    doubt = _chance(city, day, "doubt")
    announced = 0.55 + 0.4 * doubt if wet else (0.05 + 0.45 * doubt) * min(1, 0.2 + 1.6 * rain_probability)
    humidity = city.humidity + 14 * (_chance(city, day, "humidity") - 0.5) + (9 if wet else -2)
    return DayWeather(
        high=high,
        low=low,
        condition=_wet_sky(city, day, high) if wet else _dry_sky(city, day, rain_probability),
        rain_probability=round(100 * announced),
        humidity=round(_clamp(humidity, 12, 99)),
        wind=round(city.wind * (0.5 + _chance(city, day, "wind")) * (1.15 if wet else 1), 1),
    )


def current(city: City, moment: datetime, units: Units = "metric") -> CurrentWeather:
    """The weather in *city* at *moment* (aware): between the day's low before dawn and its high at three."""
    local = moment.astimezone(city.zone)
    day = forecast(city, local.date())
    warmth = (1 + math.cos(2 * math.pi * (local.hour + local.minute / 60 - WARMEST_HOUR) / 24)) / 2
    celsius = day.low + (day.high - day.low) * warmth
    temperature: float
    unit: Literal["°C", "°F", "K"]
    match units:
        case "imperial":
            temperature, unit = celsius * 9 / 5 + 32, "°F"
        case "kelvin":
            temperature, unit = celsius + 273.15, "K"
        case _:
            temperature, unit = celsius, "°C"
    return CurrentWeather(
        local_time=local.replace(second=0, microsecond=0),
        temperature=round(temperature, 1),
        temperature_unit=unit,
        condition=day.condition,
        humidity=day.humidity,
        wind=round(day.wind / 1.609344, 1) if units == "imperial" else day.wind,
        wind_unit="mph" if units == "imperial" else "km/h",
    )


def _wet_sky(city: City, day: date, high: float) -> Condition:
    force = _chance(city, day, "force")
    if high < 1.5:
        return "snow"
    if high < 4:
        return "sleet" if force < 0.6 else "snow"
    if high > 24 and force > 0.6:
        return "thunderstorm"
    if force > 0.85:
        return "heavy rain"
    return "rain" if force > 0.4 else "light rain"


def _dry_sky(city: City, day: date, rain_probability: float) -> Condition:
    clouds = _chance(city, day, "clouds")
    if city.humidity > 72 and clouds > 0.96:
        return "fog"
    clear = 0.85 - rain_probability  # where it seldom rains the sky is seldom grey
    if clouds < clear:
        return "sunny"
    return "partly cloudy" if clouds < clear + 0.3 else "cloudy"


def _season(day: date, peak_month: int) -> float:
    """1 in the middle of *peak_month*, -1 half a year away."""
    peak = (peak_month - 0.5) * DAYS_PER_MONTH
    return math.cos(2 * math.pi * (day.timetuple().tm_yday - peak) / 365.25)


def _spell(city: City, day: date) -> float:
    """From -1 to 1, changing over several days rather than overnight."""
    block, position = divmod(day.toordinal(), FRONT_DAYS)
    before, after = (2 * _uniform(f"{city.slug}|spell|{block + step}") - 1 for step in (0, 1))
    blend = (1 - math.cos(math.pi * position / FRONT_DAYS)) / 2
    return before + (after - before) * blend


def _chance(city: City, day: date, what: str) -> float:
    return _uniform(f"{city.slug}|{what}|{day.toordinal()}")


def _uniform(key: str) -> float:
    """A number from 0 to 1 that depends on *key* alone; ``hash()`` would differ between processes."""
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest()) / 2**64


def _clamp(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)
