"""Batches, and scopes that a token lacks: one row of the request log, and nothing is looked at before its number."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from django_mcp import tool
from django_mcp.models import RequestLog
from django_mcp.transports import http
from tests.audit.test_entry_of_refusals import Stepping
from tests.clients import LEGACY, MODERN, Client

Log = Callable[[], list[RequestLog]]


@pytest.fixture
def scoped(make_server: Any, client: Client) -> Client:
    """A client whose token lacks the scope of the tool `purge`, over HTTP."""
    server = make_server("scoped", authentication=[Stepping()])

    @tool(server=server, scopes=["admin"])
    def purge() -> str:
        """Purge."""
        return "gone"

    return Client(server, client.version, client.edge)


PURGE = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "purge", "arguments": {}}}


@pytest.mark.every_way_in
@pytest.mark.parametrize("version", [MODERN, LEGACY, "2025-03-26", "2024-11-05"], indirect=True)
def test_a_refused_batch_is_one_row_that_names_the_refused_tool(call_log: Log, scoped: Client) -> None:
    batch = [{}, 5, {**PURGE, "method": "ping"}, PURGE, *[{**PURGE, "id": number} for number in range(40)]]
    assert scoped.post(json.dumps(batch).encode(), {"mcp-protocol-version": scoped.version}).status == 403
    assert [(row.method, row.name) for row in call_log()] == [("tools/call", "purge")]


@pytest.mark.every_way_in
@pytest.mark.parametrize("version", [MODERN, LEGACY, "2025-03-26", "2024-11-05"], indirect=True)
@pytest.mark.parametrize("others", [[{}] * 60, [PURGE] * 5000, [None] * 600_000])
def test_a_batch_of_too_many_is_not_looked_at(
    call_log: Log, scoped: Client, others: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "require_scopes", pytest.fail)
    answer = scoped.post(json.dumps([PURGE, *others]).encode(), {"mcp-protocol-version": scoped.version})
    assert answer.status == 400
    assert answer.error["message"] == f"A batch holds 1 to 50 messages; this one holds {len(others) + 1}."
    assert call_log() == []
