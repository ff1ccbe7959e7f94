"""Defaults of parameters: what is published of them, and that calls do not share them."""

import dataclasses
import datetime
import enum
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel

from tests.primitives.makers import taking


class Board(enum.Enum):
    NONE = "none"
    HALF = "half"


class Guest(BaseModel):
    names: list[str] = []


@dataclasses.dataclass
class Point:
    x: float = 1.0


# Annotation, default, and the default in the schema.
DEFAULTS: dict[str, tuple[Any, Any, Any]] = {
    "list": (list[int], [1], [1]),
    "dict": (dict[str, int], {"a": 1}, {"a": 1}),
    "set": (set[int], {1}, [1]),
    "tuple": (tuple[int, str], (1, "a"), [1, "a"]),
    "enum": (Board, Board.HALF, "half"),
    "date": (datetime.date, datetime.date(2030, 5, 1), "2030-05-01"),
    "decimal": (Decimal, Decimal("1.50"), "1.50"),
    "model": (Guest, Guest(names=["Ann"]), {"names": ["Ann"]}),
    "dataclass": (Point, Point(2.0), {"x": 2.0}),
    "none": (int | None, None, None),
}


def test_what_is_left_out_is_the_default(subtests: pytest.Subtests) -> None:
    for kind, (annotation, default, told) in DEFAULTS.items():
        with subtests.test(kind):
            tool = taking(annotation, default)
            schema = tool.definition["inputSchema"]
            assert "required" not in schema
            assert schema["properties"]["value"].get("default") == told
            assert tool.arguments.validate({}) == {"value": default}


def test_calls_do_not_share_a_default_that_can_be_changed(subtests: pytest.Subtests) -> None:
    for kind in ["list", "dict", "set", "model", "dataclass"]:
        with subtests.test(kind=kind):
            annotation, default, _ = DEFAULTS[kind]
            tool = taking(annotation, default)
            first, second = (tool.arguments.validate({})["value"] for _ in range(2))
            assert first is not second
            assert first is not default
