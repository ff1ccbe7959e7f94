"""What is kept of a call holds for its tenant only: approvals, auto-approval rules, keys, answers that come later."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import pytest
from django.http import HttpRequest
from django.test import RequestFactory

from django_mcp import Context, MCPServer, Principal, tool
from django_mcp.approvals import auto_approvals
from django_mcp.approvals.decisions import approve
from django_mcp.core.channel import Channel
from django_mcp.core.concurrency import INLINE
from django_mcp.core.request import CallSource
from django_mcp.models import Approval
from django_mcp.protocol.jsonrpc import Request
from django_mcp.protocol.meta import ClientInfo
from tests.approvals import conftest as approving
from tests.approvals.asking import META, Calls, People, newest
from tests.behaviour.users import as_user
from tests.clients import MODERN, Client

people, server, _quickly, pay = approving.people, approving.server, approving._quickly, approving.pay

KEY = {"django-mcp/idempotencyKey": "8e03978e-40d5-43e8-bc93-6894a57f9324"}
schema: ContextVar[str] = ContextVar("schema", default="public")

Ways = dict[str, dict[str, str]]
AT_A: Ways = {
    "host": {"host": "testserver"},
    "header": {"x-tenant": "a"},
    "context manager": {"x-schema": "a"},
}
AT_B: Ways = {
    "host": {"host": "localhost"},
    "header": {"x-tenant": "b"},
    "context manager": {"x-schema": "b"},
}


def by_header(request: HttpRequest) -> str:
    return request.headers.get("X-Tenant", "")


def by_header_alone(request: HttpRequest) -> str:
    return request.headers["X-Tenant"]


@contextmanager
def within_schema(request: HttpRequest) -> Iterator[None]:
    token = schema.set(request.headers["X-Schema"])
    try:
        yield
    finally:
        schema.reset(token)


def by_schema(request: HttpRequest) -> str:
    return schema.get()


SETTINGS: dict[str, dict[str, Any]] = {
    "host": {},
    "header": {"TENANT": f"{__name__}.by_header"},
    "context manager": {"TENANT": f"{__name__}.by_schema", "CALL_CONTEXT_MANAGERS": [within_schema]},
}


@pytest.fixture(params=SETTINGS)
def way(request: pytest.FixtureRequest, settings: Any, open_database: None) -> str:
    """What names the tenant."""
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, **SETTINGS[request.param]}
    return str(request.param)


@pytest.fixture
def client(server: MCPServer) -> Client:
    return Client(server, MODERN, "asgi")


Call = Callable[..., dict[str, Any]]


@pytest.fixture
def call(client: Client, people: People) -> Call:
    def call(headers: dict[str, str], name: str, meta: dict[str, Any] | None = None, **params: Any) -> dict[str, Any]:
        sent = {"name": name, "arguments": {}, "_meta": meta or {}, **params}
        return client.request("tools/call", sent, headers={**as_user(people["ann"]), **headers}).json

    return call


def waits(answer: dict[str, Any]) -> bool:
    return META in answer["result"].get("_meta", {})


def test_an_approval(way: str, call: Call, people: People, pay: Calls) -> None:
    arguments = {"arguments": {"amount": 5}}
    assert waits(call(AT_A[way], "pay", **arguments))
    assert approve(newest(), people["cleo"])
    assert waits(call(AT_B[way], "pay", **arguments)), "nobody approved it there"
    assert not waits(call(AT_A[way], "pay", **arguments))
    assert len(pay) == 1


def test_an_auto_approval_rule(way: str, call: Call, people: People, pay: Calls) -> None:
    assert waits(call(AT_A[way], "pay", arguments={"amount": 5}))
    asked: Approval = newest()
    assert approve(asked, people["cleo"])
    auto_approvals.create_rule(asked, people["cleo"], ["to"], None, 60)
    assert waits(call(AT_B[way], "pay", arguments={"amount": 6})), "the rule is not of this tenant"
    assert not waits(call(AT_A[way], "pay", arguments={"amount": 7}))
    assert [paid["amount"] for paid in pay] == [7]


def test_an_idempotency_key(way: str, call: Call, server: MCPServer) -> None:
    runs: list[str] = []

    @tool(server=server)
    def order(ctx: Context) -> str:
        runs.append(way)
        return f"order {len(runs)}"

    def number(headers: dict[str, str]) -> str:
        return str(call(headers, "order", KEY)["result"]["content"][0]["text"])

    assert [number(AT_A[way]), number(AT_B[way]), number(AT_A[way])] == ["order 1", "order 2", "order 1"]


def test_an_answer_to_a_question(way: str, call: Call, server: MCPServer) -> None:
    @tool(server=server)
    def erase(ctx: Context) -> str:
        return "erased" if ctx.confirm("Really?") else "kept"

    meta = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}}
    asked = call(AT_A[way], "erase", meta)["result"]
    answers = {key: {"action": "accept", "content": {"confirm": True}} for key in asked["inputRequests"]}
    given = {"inputResponses": answers, "requestState": asked["requestState"]}
    assert "belongs to another call" in call(AT_B[way], "erase", meta, **given)["error"]["message"]
    assert call(AT_A[way], "erase", meta, **given)["result"]["content"][0]["text"] == "erased"


def test_a_function_that_names_no_tenant_fails_the_call_and_says_so_to_staff(
    call: Call, pay: Calls, settings: Any, caplog: pytest.LogCaptureFixture, open_database: None
) -> None:
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "TENANT": f"{__name__}.by_header_alone"}
    answer = call({}, "pay", arguments={"amount": 5})
    assert answer["error"]["code"] == -32603, answer
    assert "KeyError" in caplog.text
    assert not pay


def test_a_path_with_and_without_a_slash_is_one_and_that_of_another_tenant_is_not(
    server: MCPServer, people: People
) -> None:
    def at(path: str) -> list[str]:
        sent = RequestFactory().post(path)
        caller = Principal("test", "ann", people["ann"])
        info = ClientInfo("tests", "1")
        return Context(
            CallSource(server, caller, INLINE, lambda: sent), Request(1, "ping", {}), Channel(), info
        ).addressed_to

    assert at("/acme/mcp") == at("/acme/mcp/")
    assert at("/acme/mcp") != at("/other/mcp")
