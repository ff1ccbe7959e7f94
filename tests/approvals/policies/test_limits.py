"""A client that is limited to some tools: the others do not exist for it, and the policies of those still apply."""

from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings
from django.test import override_settings

from django_mcp import MCPServer, ModelResource, register, tool
from django_mcp.approvals.tool_policies import get_limit, limit_client, set_policy
from django_mcp.models import Task, ToolPolicy
from tests.approvals.policies.conftest import Callers, tool_of
from tests.approvals.policies.test_blocking import task_of
from tests.behaviour.test_visibility import As
from tests.behaviour.users import group
from tests.clients import LEGACY, Client
from tests.model_resources.library.models import Tag

Make = Callable[..., Any]
CLIENT = "https://client.example.com/app.json"


@pytest.fixture
def offer(server: MCPServer) -> MCPServer:
    """An endpoint with three tools."""
    tool(server=server, name="look", read_only=True)(lambda: "looked")
    tool(server=server, name="book")(lambda: "booked")
    tool(server=server, name="pay")(lambda: "paid")
    return server


@pytest.fixture
def robot(client: Client, make_user: Make) -> As:
    """A user with the client."""
    return As(client, make_user(), **{"x-client": CLIENT})


def of_test(*names: str) -> set[tuple[str, str]]:
    """Tools of the endpoint."""
    return {("test", name) for name in names}


def asks(caller: As, name: str) -> bool:
    """Return True if a call requires approval."""
    with override_settings(DJANGO_MCP={**settings.DJANGO_MCP, "APPROVAL_WAIT_TIMEOUT": 0.001}):
        return "django-mcp/approval" in str(caller.call(name).json)


def test_other_tools_do_not_exist_for_the_client_and_for_others_they_do(
    offer: MCPServer, robot: As, client: Client, make_user: Make
) -> None:
    others = [As(client, make_user()), As(client, make_user(), **{"x-client": "another"})]
    limit_client(CLIENT, of_test("look", "pay"))
    for each in others:
        assert each.listed("tools/list") == ["look", "book", "pay"]
    assert robot.listed("tools/list") == ["look", "pay"]
    assert robot.call("pay").text == "paid"
    refused, missing = (str(robot.call(name).json["error"]) for name in ("book", "hook"))
    assert refused == missing.replace("hook", "book")
    for each in others:
        assert each.listed("tools/list") == ["look", "book", "pay"]
        assert each.call("book").text == "booked"


def test_tools_that_come_later_are_hidden_and_none_chosen_is_none(offer: MCPServer, robot: As) -> None:
    limit_client(CLIENT, of_test("look"))
    tool(server=offer, name="later")(lambda: "late")
    assert robot.listed("tools/list") == ["look"]
    limit_client(CLIENT, ())
    assert robot.listed("tools/list") == []
    assert get_limit(CLIENT) == set()
    limit_client(CLIENT, None)
    assert robot.listed("tools/list") == ["look", "book", "pay", "later"]
    assert get_limit(CLIENT) is None


def test_a_tool_is_chosen_for_one_endpoint(
    offer: MCPServer, make_server: Make, client: Client, make_user: Make
) -> None:
    other = make_server("other", authentication=[Callers()], scopes=[])
    tool(server=other, name="look")(lambda: "looked elsewhere")
    limit_client(CLIENT, of_test("look"))
    there = As(Client(other, client.version, client.edge), make_user(), **{"x-client": CLIENT})
    assert there.listed("tools/list") == []
    assert As(client, make_user(), **{"x-client": CLIENT}).listed("tools/list") == ["look"]


def test_a_chosen_tool_requires_the_approval_that_it_requires_of_others(
    offer: MCPServer, client: Client, make_user: Make
) -> None:
    limit_client(CLIENT, of_test("book", "pay"))
    set_policy(offer, tool_of(offer, "book"), "ask")
    set_policy(offer, tool_of(offer, "pay"), "ask", group=group("Trainees"))
    trainee = As(client, make_user(groups=("Trainees",)), **{"x-client": CLIENT})
    clerk = As(client, make_user(), **{"x-client": CLIENT})
    assert asks(trainee, "pay")
    assert clerk.call("pay").text == "paid"
    assert asks(clerk, "book")
    set_policy(offer, tool_of(offer, "book"), "block")
    assert clerk.listed("tools/list") == ["pay"]


def test_an_override_neither_widens_a_limit_nor_is_changed_by_one(
    offer: MCPServer, client: Client, make_user: Make
) -> None:
    overrides = {("look", "block"), ("book", "ask"), ("pay", "allow")}
    for name, decision in overrides:
        set_policy(offer, tool_of(offer, name), decision, client_id=CLIENT)
    set_policy(offer, tool_of(offer, "pay"), "allow", client_id=CLIENT, group=group("Desk"))
    robot = As(client, make_user(groups=("Desk",)), **{"x-client": CLIENT})
    assert robot.listed("tools/list") == ["book", "pay"]
    for limited, listed in ((of_test("look", "book"), ["book"]), (of_test("book"), ["book"]), (of_test("look"), [])):
        limit_client(CLIENT, limited)
        assert robot.listed("tools/list") == listed
        assert get_limit(CLIENT) == limited
    limit_client(CLIENT, None)
    assert robot.listed("tools/list") == ["book", "pay"]
    assert asks(robot, "book")
    assert set(ToolPolicy.objects.filter(group=None).values_list("tool", "decision")) == overrides


def test_the_tasks_of_a_tool_that_was_taken_away_are_not_found(
    offer: MCPServer, client: Client, make_user: Make, version: str
) -> None:
    tool(server=offer, name="year_report", task="optional", read_only=True)(lambda: "report")
    user = make_user()
    robot = As(client, user, **{"x-client": CLIENT})
    ended = task_of(offer, user)
    Task.objects.filter(pk=ended.pk).update(
        status=Task.Status.COMPLETED, lease=None, result={"content": [{"type": "text", "text": "report"}]}
    )
    assert robot.call("get_task_result", task_id=ended.task_id).text == "report"
    limit_client(CLIENT, of_test("look"))
    assert robot.listed("tools/list") == ["look", "get_task_result"]
    hidden, missing = (robot.call("get_task_result", task_id=each).text for each in (ended.task_id, "no-such"))
    assert hidden.replace(ended.task_id, "X") == missing.replace("no-such", "X")
    if version == LEGACY:
        assert robot.request("tasks/list").result["tasks"] == []


def test_a_search_that_the_caller_may_not_use_is_not_named_where_a_row_is_not_found(
    server: MCPServer, robot: As
) -> None:
    class Tags(ModelResource):
        fields = ("word",)
        search_fields = ("word",)
        view_permission = add_permission = change_permission = delete_permission = None

    register(Tag, Tags, server=server)

    @tool(server=server, read_only=True)
    def show_tag(tag: Tag) -> str:
        return str(tag)

    names = robot.listed("tools/list")

    def missing() -> str:
        return str(robot.call("show_tag", tag=987654321).text)

    assert "search_tags" in missing()
    limit_client(CLIENT, {("test", name) for name in names if name != "search_tags"})
    assert "found" in missing()
    assert "search_tags" not in missing()
    limit_client(CLIENT, None)
    set_policy(server, tool_of(server, "search_tags"), "block")
    assert "search_tags" not in missing()
