"""Argument types shared by tools and resources: cities, slugs, and text."""

from typing import Annotated

from django.http import Http404
from pydantic import AfterValidator, Field

from demo_project.travel.models import City
from demo_project.travel.places import UnknownCityError, find_city
from django_mcp import ToolError

CityName = Annotated[
    str,
    Field(
        min_length=1, max_length=100, description="City name, slug or IATA code, such as Barcelona, new-york or BCN."
    ),
]

Slug = Annotated[str, Field(pattern="^[a-z0-9-]+$")]
PLAIN = AfterValidator(lambda text: text.replace("\0", "").strip())  # PostgreSQL stores no NUL


def city_or_tool_error(text: str) -> City:
    """Return the city, or raise an error that helps the model correct its call."""
    try:
        return find_city(text)
    except UnknownCityError as error:
        raise ToolError(str(error)) from None


def way_or_tool_error(origin: str, destination: str) -> tuple[City, City]:
    """Return two different cities, or raise an error that helps the model correct its call."""
    start, end = city_or_tool_error(origin), city_or_tool_error(destination)
    if start == end:
        raise ToolError(f"Origin and destination are both {start.name}.")
    return start, end


def city_or_404(text: str) -> City:
    """Return the city, or raise Http404."""
    try:
        return find_city(text)
    except UnknownCityError as error:
        raise Http404(str(error)) from None
