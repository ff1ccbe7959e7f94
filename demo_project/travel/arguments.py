"""What several tools and resources take: cities, slugs, and text that can be stored."""

from typing import Annotated

from django.http import Http404
from pydantic import AfterValidator, Field

from demo_project.travel.models import City
from demo_project.travel.places import UnknownCityError, find_city
from django_mcp import ToolError

CityName = Annotated[
    str, Field(min_length=1, max_length=100, description="Name, slug or IATA code: Barcelona, new-york or BCN.")
]

Slug = Annotated[str, Field(pattern="^[a-z0-9-]+$")]
PLAIN = AfterValidator(lambda text: text.replace("\0", "").strip())  # PostgreSQL stores no NUL


def city_or_tool_error(text: str) -> City:
    """The city, or words from which the model can mend its call."""
    try:
        return find_city(text)
    except UnknownCityError as error:
        raise ToolError(str(error)) from None


def way_or_tool_error(origin: str, destination: str) -> tuple[City, City]:
    """Two cities, or words from which the model can mend its call."""
    start, end = city_or_tool_error(origin), city_or_tool_error(destination)
    if start == end:
        raise ToolError(f"Origin and destination are both {start.name}.")
    return start, end


def city_or_404(text: str) -> City:
    """The city, or no such resource."""
    try:
        return find_city(text)
    except UnknownCityError as error:
        raise Http404(str(error)) from None
