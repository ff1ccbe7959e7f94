"""A tool that is blocked does not exist: not in lists, not under its name, not behind other tools, not in words."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings
from django.test import override_settings

from django_mcp import MCPServer, ModelResource, register, tool
from django_mcp.approvals.tool_policies import set_policy
from django_mcp.core.policies import policy_cache
from django_mcp.models import Task, ToolPolicy
from django_mcp.tasks import store
from tests.approvals.policies.conftest import tool_of
from tests.behaviour.test_visibility import As
from tests.behaviour.users import group
from tests.clients import LEGACY, MODERN, Answer, Client
from tests.model_resources.library.models import Tag

Make = Callable[..., Any]
CLIENT = "https://client.example.com/app.json"


@pytest.fixture
def offer(server: MCPServer) -> MCPServer:
    """An endpoint with two tools."""
    tool(server=server, name="refund_invoice")(lambda: "refunded")
    tool(server=server, name="look_around", read_only=True)(lambda: "looked")
    return server


@pytest.fixture
def ada(client: Client, make_user: Make) -> As:
    return As(client, make_user())


def block(server: MCPServer, name: str = "refund_invoice", **whom: Any) -> None:
    set_policy(server, tool_of(server, name), "block", **whom)


def test_a_blocked_tool_is_in_no_list_and_an_allowed_one_is_again(offer: MCPServer, ada: As) -> None:
    assert ada.listed("tools/list") == ["refund_invoice", "look_around"]
    block(offer)
    assert ada.listed("tools/list") == ["look_around"]
    set_policy(offer, tool_of(offer, "refund_invoice"), None)
    assert ada.listed("tools/list") == ["refund_invoice", "look_around"]


def test_a_page_that_was_kept_for_everybody_is_shown_no_more(make_server: Make, policies: None) -> None:
    server = make_server("everybody")
    tool(server=server, name="refund_invoice")(lambda: "refunded")
    tool(server=server, name="look_around")(lambda: "looked")
    client = Client(server, MODERN, "asgi")
    for _ in range(2):
        assert len(client.list("tools/list")) == 2
    assert server.pages
    block(server)
    for _ in range(2):
        assert [each["name"] for each in client.list("tools/list")] == ["look_around"]
    assert client.request("tools/list").result.get("cacheScope", "private") == "private"


def test_a_blocked_tool_is_refused_in_the_words_for_one_that_there_is_not(offer: MCPServer, ada: As) -> None:
    block(offer)
    refused, missing = (ada.call(name).json for name in ("refund_invoice", "refund_in_voice"))
    assert ada.call("look_around").text == "looked"
    for each in (refused, missing):
        each.pop("id")
    assert refused["error"]["code"] == missing["error"]["code"]
    assert str(refused).replace("refund_invoice", "X") == str(missing).replace("refund_in_voice", "X")


def test_a_blocked_tool_is_suggested_to_nobody(offer: MCPServer, ada: As) -> None:
    assert "refund_invoice" in str(ada.call("refund_invoices").json["error"])
    block(offer)
    assert "refund_invoice'" not in str(ada.call("refund_invoices").json["error"])


def test_a_blocked_tool_asks_for_no_scopes(offer: MCPServer, make_user: Make, version: str) -> None:
    """A client is told which scopes it lacks before anything is looked up: of what does not exist it must not be."""
    tool(server=offer, name="pay", scopes=["travel:write"])(lambda: "paid")
    ada = As(Client(offer, version, "asgi"), make_user(), **{"x-scopes": "travel:read"})

    def raw(name: str) -> Answer:
        body, headers = ada.client.compose("tools/call", {"name": name, "arguments": {}})
        return ada.client.post(json.dumps(body).encode(), {**headers, **ada.headers})

    assert raw("pay").status == 403
    set_policy(offer, tool_of(offer, "pay"), "block")
    blocked, missing = raw("pay"), raw("payment")
    assert (blocked.status, blocked.code) == (missing.status, missing.code)
    assert "travel:write" not in blocked.body.decode()


@pytest.fixture
def searched(make_server: Make, policies: None) -> MCPServer:
    server = make_server("searched", search_tools=1)
    tool(server=server, name="refund_invoice", tags=["money"])(lambda: "refunded")
    tool(server=server, name="look_around")(lambda: "looked")
    tool(server=server, name="look_behind")(lambda: "looked")
    return server


def test_a_blocked_tool_is_neither_found_nor_called_where_tools_are_searched(
    searched: MCPServer, version: str, edge: str
) -> None:
    client = Client(searched, version, edge)
    assert "refund_invoice" in client.call("search_tools", query="refund money").text
    assert client.call("call_destructive_tool", name="refund_invoice").text == "refunded"
    assert "money (1)" in json.dumps(client.list("tools/list"))
    block(searched)
    assert "refund_invoice" not in client.call("search_tools", query="refund money").text
    assert "money" not in json.dumps(client.list("tools/list"))
    blocked, missing = (
        client.call("call_destructive_tool", name=name) for name in ("refund_invoice", "refund_in_voice")
    )
    assert blocked.result["isError"]
    assert blocked.text.replace("refund_invoice", "X") == missing.text.replace("refund_in_voice", "X")


def task_of(server: MCPServer, user: Any) -> Task:
    return store.create(
        server=server.name,
        tool="year_report",
        principal_kind="test",
        principal_id=user.username,
        user=user,
        client={},
        request={"method": "tools/call", "params": {"name": "year_report", "arguments": {}}},
        message="",
        backend="process",
    )


def test_the_tasks_of_a_blocked_tool_are_gone_too(
    offer: MCPServer, client: Client, make_user: Make, version: str
) -> None:
    tool(server=offer, name="year_report", task="optional", read_only=True)(lambda: "report")
    user = make_user()
    ada = As(client, user)
    ended = task_of(offer, user)
    Task.objects.filter(pk=ended.pk).update(
        status=Task.Status.COMPLETED, lease=None, result={"content": [{"type": "text", "text": "report"}]}
    )
    ask = {"task_id": ended.task_id}
    assert ada.call("get_task_result", **ask).text == "report"
    set_policy(offer, tool_of(offer, "year_report"), "block")
    blocked = ada.call("get_task_result", **ask)
    missing = ada.call("get_task_result", task_id="no-such")
    assert blocked.result["isError"]
    assert blocked.text.replace(ended.task_id, "X") == missing.text.replace("no-such", "X")
    if version == LEGACY:
        assert "was not found" in ada.request("tasks/get", {"taskId": ended.task_id}).error["message"]
        assert ada.request("tasks/list").result["tasks"] == []


# For whom


def test_a_tool_is_blocked_for_the_users_of_a_group_alone(offer: MCPServer, client: Client, make_user: Make) -> None:
    inside, outside = As(client, make_user(groups=("Desk",))), As(client, make_user(groups=("Office",)))
    block(offer, group=group("Desk"))
    assert inside.listed("tools/list") == ["look_around"]
    assert "error" in inside.call("refund_invoice").json
    assert outside.listed("tools/list") == ["refund_invoice", "look_around"]
    assert outside.call("refund_invoice").text == "refunded"


def test_a_tool_is_blocked_for_one_client_alone(offer: MCPServer, client: Client, make_user: Make) -> None:
    user = make_user()
    through, beside = As(client, user, **{"x-client": CLIENT}), As(client, user, **{"x-client": "another"})
    block(offer, client_id=CLIENT)
    assert through.listed("tools/list") == ["look_around"]
    assert "error" in through.call("refund_invoice").json
    assert beside.call("refund_invoice").text == "refunded"
    assert As(client, user).call("refund_invoice").text == "refunded"


def test_what_is_for_a_group_with_a_client_is_for_both_together_alone(
    offer: MCPServer, client: Client, make_user: Make
) -> None:
    desk = make_user(groups=("Desk",))
    block(offer, group=group("Desk"), client_id=CLIENT)
    assert "error" in As(client, desk, **{"x-client": CLIENT}).call("refund_invoice").json
    assert As(client, desk).call("refund_invoice").text == "refunded"
    assert As(client, make_user(), **{"x-client": CLIENT}).call("refund_invoice").text == "refunded"


@pytest.mark.postgresql
def test_of_several_that_fit_the_strictest_counts(offer: MCPServer, client: Client, make_user: Make) -> None:
    both = make_user(groups=("Desk", "Office"))
    it = tool_of(offer, "refund_invoice")
    set_policy(offer, it, "allow", group=group("Desk"))
    set_policy(offer, it, "block", group=group("Office"))
    assert "error" in As(client, both).call("refund_invoice").json
    set_policy(offer, it, "allow", group=group("Office"))
    assert As(client, both).call("refund_invoice").text == "refunded"
    set_policy(offer, it, "block", client_id=CLIENT)
    assert "error" in As(client, both, **{"x-client": CLIENT}).call("refund_invoice").json


def test_an_override_stands_in_place_of_what_is_for_everybody(
    offer: MCPServer, client: Client, make_user: Make
) -> None:
    block(offer)
    set_policy(offer, tool_of(offer, "refund_invoice"), "allow", group=group("Desk"))
    assert As(client, make_user(groups=("Desk",))).call("refund_invoice").text == "refunded"
    assert "error" in As(client, make_user()).call("refund_invoice").json


def test_whoever_joins_a_group_meets_its_decisions_at_once(offer: MCPServer, client: Client, make_user: Make) -> None:
    user = make_user()
    block(offer, group=group("Desk"))
    assert As(client, user).call("refund_invoice").text == "refunded"
    user.groups.add(group("Desk"))
    assert "error" in As(client, user).call("refund_invoice").json


def test_a_tools_own_option_counts_until_somebody_decides(server: MCPServer, ada: As) -> None:
    tool(server=server, name="hidden", policy="block")(lambda: "found")
    assert ada.listed("tools/list") == []
    set_policy(server, tool_of(server, "hidden"), "allow")
    assert ada.call("hidden").text == "found"
    set_policy(server, tool_of(server, "hidden"), None)
    assert "error" in ada.call("hidden").json


@pytest.mark.parametrize(
    ("default", "asks"), [("destructive", {"destroy"}), ("writes", {"destroy", "write"}), (None, set())]
)
def test_the_hints_say_what_asks_by_default(server: MCPServer, ada: As, default: str, asks: set[str]) -> None:
    tool(server=server, name="destroy", destructive=True)(lambda: "done")
    tool(server=server, name="write")(lambda: "done")
    tool(server=server, name="read", read_only=True)(lambda: "done")
    with override_settings(
        DJANGO_MCP={**settings.DJANGO_MCP, "REQUIRE_APPROVAL_FOR": default, "APPROVAL_WAIT_TIMEOUT": 0.001}
    ):
        policy_cache.expire()
        asked = {name for name in ("destroy", "write", "read") if "django-mcp/approval" in str(ada.call(name).json)}
    assert asked == asks


@pytest.mark.postgresql
def test_deciding_twice_leaves_one_row_and_the_default_none(offer: MCPServer) -> None:
    it = tool_of(offer, "refund_invoice")
    for decision in ("block", "ask", "allow"):
        set_policy(offer, it, decision)
        set_policy(offer, it, decision, group=group("Desk"))
    assert ToolPolicy.objects.count() == 2
    set_policy(offer, it, None)
    assert ToolPolicy.objects.get().group_id is not None


def test_a_handshake_tells_of_tasks_where_people_decided_that_a_tool_asks(make_server: Make, policies: None) -> None:
    """Before any other request of the process."""
    server = make_server("asks")
    tool(server=server, name="look_around", read_only=True)(lambda: "looked")
    ToolPolicy.objects.create(server=server.name, tool="look_around", decision="ask")
    params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}}
    greeting = Client(server, LEGACY, "asgi").request("initialize", params)
    assert "tasks" in greeting.result["capabilities"]


def test_discovery_tells_of_tasks_likewise(make_server: Make, policies: None) -> None:
    server = make_server("asks")
    tool(server=server, name="look_around", read_only=True)(lambda: "looked")
    ToolPolicy.objects.create(server=server.name, tool="look_around", decision="ask")
    discovered = Client(server, MODERN, "asgi").request("server/discover")
    assert "io.modelcontextprotocol/tasks" in discovered.result["capabilities"]["extensions"]


def test_a_blocked_search_is_not_named_by_the_tools_that_take_what_it_finds(server: MCPServer, ada: As) -> None:
    class Tags(ModelResource):
        fields = ("word",)
        search_fields = ("word",)
        view_permission = add_permission = change_permission = delete_permission = None
        actions = ("create", "update", "delete")
        writable_fields = ("word",)

    register(Tag, Tags, server=server)
    assert "search_tags" in ada.listed("tools/list")
    block(server, "search_tags")
    listed = ada.request("tools/list")
    assert "update_tag" in json.dumps(listed.result)
    assert "search_tags" not in json.dumps(listed.result)
