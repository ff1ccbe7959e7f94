"""City lookup by name, slug or code."""

import difflib

from django.utils.text import slugify

from demo_project.travel.models import City


class UnknownCityError(LookupError):
    """The city does not exist; the message suggests similar ones."""


def find_city(text: str) -> City:
    """Return the city with this name, slug or IATA code, ignoring case and accents.

    Raises:
        UnknownCityError: there is none.
    """
    city = City.objects.called(text).first()
    if city is None:
        raise UnknownCityError(f"There is no city ‘{text[:60]}’. {_advice(text)}")
    return city


def _advice(text: str) -> str:
    similar = similar_cities(text)
    if not similar:
        return "Use a name, slug or IATA code from travel://cities."
    return f"Did you mean {' or '.join(f'{city.name} ({city.airport})' for city in similar)}?"


def similar_cities(text: str, limit: int = 3) -> list[City]:
    """Return cities whose name begins with *text* or is spelled similarly, most likely first."""
    slug = slugify(text[:60])
    if not slug:
        return []
    cities = list(City.objects.starting_with(slug)[:limit])
    others = {city.slug: city for city in City.objects.exclude(pk__in=[city.pk for city in cities])}
    cities += [other for key, other in others.items() if slug.startswith(f"{key}-")]
    cities += [others[key] for key in difflib.get_close_matches(slug, others, n=limit, cutoff=0.65)]
    return list(dict.fromkeys(cities))[:limit]
