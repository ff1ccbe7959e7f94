"""Tools that are completed when they are first listed or called."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from django.apps import apps
from django.core.exceptions import ImproperlyConfigured, SynchronousOnlyOperation
from django.db import OperationalError
from django.utils.asyncio import async_unsafe
from django.utils.translation import gettext_lazy

from django_mcp.adapters.late_tools import LateTool
from django_mcp.core.checking import described
from django_mcp.core.registry import MCPServer
from django_mcp.primitives.tool import Tool
from tests.clients import Client


def nothing(ctx: Any) -> None:
    """Do nothing."""


@async_unsafe("You cannot do this from an async context.")
def ask_the_database() -> str:
    return "Asked."


class Late(LateTool):
    """Says in its description what the database said."""

    reads_database = True
    errors: list[Exception]
    times = 0
    words: Callable[[], Any] = staticmethod(ask_the_database)

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        super().__init__(nothing, name="late")

    def made(self) -> Tool:
        if self.errors:
            raise self.errors.pop(0)
        self.times += 1
        return Tool(nothing, context_type=self._context_type, name="late", description=self.words())


def test_it_is_not_completed_while_apps_are_made_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apps, "ready", False)
    late = Late()
    assert late.definition["description"] == "Do nothing."
    monkeypatch.setattr(apps, "ready", True)
    assert late.definition["description"] == "Asked."


def test_words_that_prove_to_be_translations_are_told_in_the_language_of_the_caller(
    server: MCPServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = Late()
    late.words = lambda: gettext_lazy("Yes")
    monkeypatch.setattr(apps, "ready", False)
    server.add(late)
    monkeypatch.setattr(apps, "ready", True)
    (tool,) = client.request("tools/list", {}, headers={"accept-language": "de"}).result["tools"]
    assert tool["description"] == "Ja"


def test_it_may_ask_the_database_where_an_event_loop_lists_it() -> None:
    late, other = Late(), Late()

    async def listed() -> Any:
        with pytest.raises(SynchronousOnlyOperation):
            ask_the_database()
        return late.definition["description"]

    assert asyncio.run(listed()) == "Asked."
    assert other.times == 1, "all are completed with the first one"


def test_one_that_cannot_be_completed_keeps_no_other_from_it() -> None:
    bad, late = Late(OperationalError("no such table")), Late()

    async def listed() -> Any:
        return late.definition["description"]

    assert asyncio.run(listed()) == "Asked."
    assert bad.find_problem() is None


@pytest.mark.parametrize("in_loop", [False, True])
def test_without_a_database_it_is_tried_again_and_is_no_fault_of_the_declaration(
    server: MCPServer, in_loop: bool
) -> None:
    late = Late(OperationalError("no such table"))
    server.tools["late"] = late

    async def definition() -> Any:
        return late.definition

    with pytest.raises(OperationalError):
        asyncio.run(definition()) if in_loop else late.definition
    late.errors.append(OperationalError("no such table"))
    assert list(described(server)) == []
    assert late.find_problem() is None
    assert list(described(server)) == [late]


def test_one_that_is_misdeclared_fails_when_it_is_called() -> None:
    late = Late(ImproperlyConfigured("There is no such view."))
    assert str(late.find_problem()) == "There is no such view."
    with pytest.raises(ImproperlyConfigured, match="no such view"):
        late.arguments.validate({})
