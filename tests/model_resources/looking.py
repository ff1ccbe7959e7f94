"""Previews of calls, asked for as whoever approves calls asks for them; nothing may happen meanwhile."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from django.contrib.auth.models import User
from django.db import connection
from django.db.models import Model
from django.db.models.signals import m2m_changed, post_delete, post_save, pre_delete, pre_save
from django.http import HttpRequest
from django.test.utils import CaptureQueriesContext

from django_mcp import Context, MCPServer, Principal
from django_mcp.approvals.previews import preview_of
from django_mcp.core.channel import Channel
from django_mcp.core.concurrency import INLINE, run_inline
from django_mcp.core.request import CallSource
from django_mcp.protocol.jsonrpc import Request

SIGNALS = (pre_save, post_save, pre_delete, post_delete, m2m_changed)
WRITING = ("INSERT", "UPDATE", "DELETE")


def call_of(server: MCPServer, user: Any, params: dict[str, Any] | None = None) -> Context:
    """The context of a user's call of a tool."""
    principal = Principal(kind="name", id=str(user), user=user, scopes=None)
    return Context(
        CallSource(server, principal, INLINE, HttpRequest), Request(1, "tools/call", params or {}), Channel()
    )


def look(server: MCPServer, user: User, name: str, /, **arguments: Any) -> Any:
    """The preview of a user's call of a tool."""
    context = call_of(server, user, {"name": name, "arguments": arguments})
    tool = server.tools[name]
    with nothing_happens():
        return run_inline(preview_of(context, tool, tool.arguments.validate(arguments))).value


@contextmanager
def nothing_happens() -> Iterator[None]:
    """Fails where a row is saved or deleted, a signal is sent for one, or a statement writes."""
    heard: list[str] = []

    def hear(sender: Any, **_: Any) -> None:
        heard.append(str(sender))

    for signal in SIGNALS:
        signal.connect(hear)
    refuse = mock.Mock(side_effect=AssertionError("a preview neither saves nor deletes"))
    try:
        with (
            mock.patch.multiple(Model, save=refuse, delete=refuse, save_base=refuse),
            CaptureQueriesContext(connection) as queries,
        ):
            yield
    finally:
        for signal in SIGNALS:
            signal.disconnect(hear)
    assert heard == []
    assert [each["sql"] for each in queries if each["sql"].startswith(WRITING)] == []


def changes(shown: Any) -> dict[str, Any]:
    """Of a preview the changes by field: a pair of before and after, or whatever else there is of them."""
    found = {}
    for each in shown["changes"]:
        rest = {key: value for key, value in each.items() if key not in {"field", "label"}}
        assert each["field"] not in found
        found[each["field"]] = (rest["before"], rest["after"]) if rest.keys() == {"before", "after"} else rest
    return found
