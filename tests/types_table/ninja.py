"""Parameters of django-ninja's operations."""

import datetime
import itertools
from typing import Any, Literal

from django.http import HttpRequest
from ninja import File, Form, NinjaAPI, Query, Schema, UploadedFile
from pydantic import Field

from django_mcp import MCPServer
from django_mcp.contrib.ninja import ninja_tools
from tests.types_table.cases import Case

_numbers = itertools.count()


class Wish(Schema):
    value: int = Field(0, ge=0, le=9)


class Book(Schema):
    value: str = Field(min_length=1)


def case(label: str, annotation: Any, bad: Any, path: str = "/table") -> Case:
    """An operation of one parameter."""

    def operation(request: HttpRequest, value: Any) -> None: ...

    operation.__annotations__["value"] = annotation

    def publish(server: MCPServer) -> None:
        api = NinjaAPI(urls_namespace=f"table-{next(_numbers)}")
        api.post(path)(operation)
        ninja_tools(api, server=server)

    return Case(label, publish, "value", bad)


CASES = [
    case('"/table/{value}", value: int', int, "first", "/table/{value}"),
    case("value: datetime.date", datetime.date, "soon"),
    case('value: Literal["kind", "sharp"]', Literal["kind", "sharp"], "dull"),
    case("value: Query[list[int]]", Query[list[int]], ["a"]),
    case("value: Query[Wish], a Schema with value: int", Query[Wish], 10),
    case("value: Form[bool]", Form[bool], "maybe"),
    case("value: File[UploadedFile]", File[UploadedFile], "terms.txt"),
    case("value: Book, a Schema with value: str", Book, ""),
    case("value: list[Book]", list[Book], [{}]),
]
