"""A service of a site, decorated in its own module."""

import functools
from collections.abc import Callable
from typing import Any

from django.db import transaction

from django_mcp import Context, tool

made: list["Desk"] = []


def loud(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator like many of a site's own."""

    @functools.wraps(function)
    def inner(*positional: Any, **keywords: Any) -> Any:
        return function(*positional, **keywords).upper()

    return inner


class Desk:
    """Where rooms are booked."""

    city = "Porto"

    def __init__(self) -> None:
        made.append(self)

    @tool(name="desk_book")
    def book(self, room: str, nights: int = 1) -> str:
        """Book a room.

        Args:
            room: Which one.
            nights: How long.
        """
        return f"{self.city}: {room} for {nights}"

    @tool(name="desk_abook")
    async def abook(self, room: str) -> str:
        """Book a room."""
        return f"{self.city}: {room}"

    @tool(name="desk_above")
    @classmethod
    def above(cls, room: str) -> str:
        """Ask for a room."""
        return f"{cls.__name__}: {room}"

    @classmethod
    @tool(name="desk_below")
    def below(cls, ctx: Context, room: str) -> str:
        """Ask for a room."""
        return f"{cls.__name__}, {ctx.server.name}: {room}"

    @tool(name="desk_static_above")
    @staticmethod
    def static_above(room: str) -> str:
        """Ask for a room."""
        return f"static: {room}"

    @staticmethod
    @tool(name="desk_static_below")
    def static_below(room: str) -> str:
        """Ask for a room."""
        return f"static: {room}"

    @tool(name="desk_loud")
    @loud
    def loudly(self, room: str) -> str:
        """Ask for a room."""
        return f"{self.city}: {room}"

    @tool(name="desk_in_transaction")
    @transaction.atomic
    def safely(self, room: str) -> str:
        """Ask for a room."""
        return f"{transaction.get_connection().in_atomic_block}: {room}"

    @loud
    @tool(name="desk_quiet")
    def quietly(self, room: str) -> str:
        """Ask for a room."""
        return room


class Clerk:
    """Cannot be made without a name."""

    def __init__(self, name: str) -> None:
        self.name = name

    @tool(name="clerk_greet")
    def greet(self, guest: str) -> str:
        """Greet."""
        return f"{guest}, I am {self.name}"
