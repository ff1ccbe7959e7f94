"""Annotations of functions."""

import dataclasses
import datetime
import enum
import ipaddress
import uuid
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, Field, HttpUrl, SecretStr
from typing_extensions import TypedDict

from django_mcp import MCPServer, ModelArgument, Upload, tool
from tests.model_resources.library.models import Book, Tag
from tests.types_table.cases import Case


class Board(enum.Enum):
    NONE = "none"
    HALF = "half"


class Guest(BaseModel):
    name: str
    age: int = 18


@dataclasses.dataclass
class Point:
    x: float
    y: float = 0.0


class Filter(TypedDict):
    field: str


class Card(BaseModel):
    by: Literal["card"]
    number: str


class Cash(BaseModel):
    by: Literal["cash"]


def case(label: str, annotation: Any, bad: Any, *default: Any) -> Case:
    """A function with one parameter."""

    def take(value: Any) -> None: ...

    take.__annotations__["value"] = annotation
    take.__defaults__ = default or None

    def publish(server: MCPServer) -> None:
        tool(server=server)(take)

    return Case(label, publish, "value", bad)


CASES = [
    case("str", str, 5),
    case("Annotated[str, Field(min_length=1)]", Annotated[str, Field(min_length=1)], ""),
    case("Annotated[str, Field(max_length=3)]", Annotated[str, Field(max_length=3)], "abcd"),
    case('Annotated[str, Field(pattern="^[A-Z]{3}$")]', Annotated[str, Field(pattern="^[A-Z]{3}$")], "bcn"),
    case("int", int, "two"),
    case("int = 1", int, None, 1),
    case("Annotated[int, Field(ge=1, le=30)]", Annotated[int, Field(ge=1, le=30)], 0),
    case("float", float, "NaN"),
    case("Decimal", Decimal, "12,50"),
    case(
        "Annotated[Decimal, Field(max_digits=6, decimal_places=2)]",
        Annotated[Decimal, Field(max_digits=6, decimal_places=2)],
        "1.234",
    ),
    case("bool", bool, "perhaps"),
    case("datetime.date", datetime.date, "05/31/2030"),
    case("datetime.datetime", datetime.datetime, "last week"),
    case("AwareDatetime", AwareDatetime, "2030-05-01T10:00:00"),
    case("datetime.time", datetime.time, "3 pm"),
    case("datetime.timedelta", datetime.timedelta, "3 days later"),
    case("uuid.UUID", uuid.UUID, "7"),
    case("IPv4Address", ipaddress.IPv4Address, "192.0.2"),
    case("HttpUrl", HttpUrl, "example"),
    case("SecretStr", SecretStr, 5),
    case('Literal["none", "half"]', Literal["none", "half"], "None"),
    case("Board, an Enum", Board, "full"),
    case("Book.Binding, a TextChoices", Book.Binding, "Cloth"),
    case("int | None = None", int | None, "two", None),
    case('int | Literal["any"]', int | Literal["any"], "sea view"),
    case("list[int]", list[int], [1, "two"]),
    case("Annotated[list[str], Field(max_length=2)]", Annotated[list[str], Field(max_length=2)], ["a", "b", "c"]),
    case("set[str]", set[str], "sea"),
    case("tuple[int, str]", tuple[int, str], [1, "a", 2]),
    case("dict[str, int]", dict[str, int], {"a": "two"}),
    case("Guest, a pydantic model", Guest, {"nmae": "Ann"}),
    case("list[Guest]", list[Guest], "Ann"),
    case("Point, a dataclass", Point, {"x": "east"}),
    case("Filter, a TypedDict", Filter, ["field"]),
    case(
        'Annotated[Card | Cash, Field(discriminator="by")]',
        Annotated[Card | Cash, Field(discriminator="by")],
        {"by": "cheque"},
    ),
    case("bytes", bytes, "(image)"),
    case(
        'Annotated[bytes, Upload(max_bytes=10, media_type="image/*")]',
        Annotated[bytes, Upload(10, "image/*")],
        "A" * 16,
    ),
    case(
        "Tag, a model: Annotated[Tag, ModelArgument(lambda ctx: Tag.objects)]",
        Annotated[Tag, ModelArgument(lambda ctx: Tag.objects)],
        7,
    ),
    case(
        'list[Tag]: Annotated[list[Tag], ModelArgument(lambda ctx: Tag.objects, lookup_field="word")]',
        Annotated[list[Tag], ModelArgument(lambda ctx: Tag.objects, lookup_field="word")],
        ["sea"],
    ),
]
