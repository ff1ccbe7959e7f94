"""Who is turned down before anything is looked at is in the log, as far as it is known who it is."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser
from django.test import RequestFactory
from django.utils import timezone

from django_mcp import APIKeyAuthentication, BaseAuthentication, MCPServer, Principal, RequestHead, tool
from django_mcp.audit import recorder
from django_mcp.audit.entry import of_refusal
from django_mcp.core import dispatch
from django_mcp.models import RequestLog
from tests.audit.test_writer import renamed_table
from tests.clients import Client

Log = Callable[[], list[RequestLog]]


class Stepping(BaseAuthentication):
    """A token with too little scope, whose client can ask for more."""

    blocking = False

    def authenticate(self, head: RequestHead, server: MCPServer) -> Principal | None:
        return Principal("oauth", "7", AnonymousUser(), server.scopes, client_id="desk", steps_up=True)


def test_a_bad_credential_is_a_row_of_nobody(call_log: Log, make_server: Any, client: Client) -> None:
    keyed = Client(make_server("keyed", authentication=[APIKeyAuthentication()]), client.version, client.edge)
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}'
    assert keyed.post(body, {"x-api-key": "mcp_key_wrong1" + "x" * 40}).status == 401
    [row] = call_log()
    assert (row.outcome, row.server, row.principal_kind, row.principal_id) == ("rejected", "keyed", "", "")
    assert "xxxx" not in row.error


def test_a_request_without_credential_is_none(call_log: Log, make_server: Any, client: Client) -> None:
    keyed = Client(make_server("keyed", authentication=[APIKeyAuthentication()]), client.version, client.edge)
    assert keyed.post(b"{}").status == 401
    assert call_log() == []


def test_too_little_scope_names_caller_and_tool(call_log: Log, make_server: Any, client: Client) -> None:
    server = make_server("scoped", authentication=[Stepping()])

    @tool(server=server, scopes=["admin"])
    def purge() -> str:
        """Purge."""
        return "gone"

    scoped = Client(server, client.version, client.edge)
    body, headers = scoped.compose("tools/call", {"name": "purge", "arguments": {}})
    assert scoped.post(json.dumps(body).encode(), headers).status == 403
    [row] = call_log()
    assert (row.outcome, row.method, row.name) == ("rejected", "tools/call", "purge")
    assert (row.principal_kind, row.principal_id, row.client_id) == ("oauth", "7", "desk")


def test_whom_nobody_knows_cannot_fill_the_log(
    call_log: Log, make_server: Any, modern: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "REFUSALS_A_MINUTE", 2)
    monkeypatch.setattr(dispatch.observer, "_refused", 0)
    monkeypatch.setattr(recorder.time, "monotonic", lambda: 60.0)
    keyed = Client(make_server("keyed", authentication=[APIKeyAuthentication()]), modern.version, modern.edge)
    for _ in range(5):
        assert keyed.post(b"{}", {"x-api-key": "mcp_key_wrong1" + "x" * 40}).status == 401
    assert len(call_log()) == 2


def test_what_is_denied_while_the_log_cannot_be_written_is_not_said_to_have_run(
    call_log: Log, make_server: Any, client: Client
) -> None:
    server = make_server("scoped", authentication=[Stepping(), APIKeyAuthentication()])
    runs: list[int] = []

    @tool(server=server, scopes=["admin"])
    def purge() -> str:
        """Purge."""
        runs.append(1)
        return "gone"

    scoped = Client(server, client.version, client.edge)
    body, headers = scoped.compose("tools/call", {"name": "purge", "arguments": {}})
    with renamed_table():
        for _ in range(2):
            answer = scoped.post(json.dumps(body).encode(), headers)
            assert answer.status == 503
            assert "so this call was not run" in answer.json["error"]["message"]
    assert scoped.post(json.dumps(body).encode(), headers).status == 403
    assert len(call_log()) == 1
    assert runs == []


def test_a_rejected_request_fills_every_column_of_the_log(make_server: Any) -> None:
    server = make_server("columns")
    facts = of_refusal(server, None, lambda: RequestFactory().get("/"), timezone.now(), None, "no")
    columns = {field.attname: field for field in RequestLog._meta.concrete_fields if not field.primary_key}
    assert facts.keys() == columns.keys()
    assert [name for name, field in columns.items() if facts[name] is None and not field.null] == []
