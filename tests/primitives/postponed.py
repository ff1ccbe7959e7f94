"""Functions whose annotations are strings until somebody looks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, Field

from django_mcp import Context

if TYPE_CHECKING:
    from decimal import Decimal


class Stay(BaseModel):
    nights: int = Field(ge=1)
    city: str


def book(
    ctx: Context, stay: Stay, board: Literal["none", "half"] = "none", guests: Annotated[int, Field(le=9)] = 1
) -> Stay:
    """Book a stay."""
    return stay


def price(amount: Decimal) -> str:
    return str(amount)


def total(amount: int) -> Decimal:
    raise NotImplementedError


class Desk:
    def open(self, amount: Decimal) -> str:
        return str(amount)
