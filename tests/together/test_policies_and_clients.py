"""A policy names a client that exists, by its id or name; one that matches nobody says so."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client as Browser

from django_mcp import AllowAny, MCPServer, tool
from django_mcp.approvals.tool_policies import set_policy
from django_mcp.auth.toolkit import get_application_model
from django_mcp.core import server as core_server
from django_mcp.doctor.diagnose import policies
from django_mcp.doctor.messages import CheckFailed
from django_mcp.models import ClientPolicy, RequestLog, ToolPolicy
from tests.admin.tools_page import PAY, TOOLS, told, words
from tests.behaviour.users import ByName

pytestmark = pytest.mark.django_db

POLICIES = "/admin/django_mcp/clientpolicy/"


@pytest.fixture
def desk(make_server: Callable[..., MCPServer], monkeypatch: pytest.MonkeyPatch) -> MCPServer:
    monkeypatch.setattr(core_server, "_servers", {})
    desk = make_server("desk", authentication=[AllowAny()], scopes=[])
    tool(server=desk, name="pay", destructive=True)(lambda: "paid")
    for client_id, name in (("8f3a", "MCP Inspector"), ("one", "Twin"), ("two", "Twin")):
        get_application_model().objects.create(client_id=client_id, name=name, client_type="public")
    return desk


@pytest.fixture
def browser(desk: MCPServer) -> Browser:
    browser = Browser()
    browser.force_login(User.objects.create_superuser("ann"))
    return browser


def override(browser: Browser, client_id: str) -> str:
    return told(browser, PAY, override="1", client_id=client_id, decision="block")


def add(browser: Browser, client_id: str) -> str:
    return words(
        browser.post(f"{POLICIES}add/", {"client_id": client_id, "blocked": "on"}, follow=True).content.decode()
    )


@pytest.mark.parametrize(("save", "model"), [(override, ToolPolicy), (add, ClientPolicy)])
def test_a_client_is_given_by_id_or_by_a_name_that_only_one_has(browser: Browser, save: Any, model: Any) -> None:
    for given, says in (
        ("MCP Inspektor", "No OAuth client has the id or name “MCP Inspektor”. Choose one of the list."),
        ("https://claude.ai/app.json", "No OAuth client has the id or name"),
        ("Twin", "Several clients are named “Twin”. Enter the id of one: one, two."),
    ):
        assert says in save(browser, given)
        assert not model.objects.exists()
    for given in ("MCP Inspector", " 8f3a "):
        save(browser, given)
        assert model.objects.get().client_id == "8f3a"
        model.objects.all().delete()


def test_a_client_that_registers_by_a_document_can_be_blocked_before(browser: Browser, settings: Any) -> None:
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "CLIENT_DOCUMENTS": True}
    add(browser, "https://claude.ai/app.json")
    assert ClientPolicy.objects.get().blocked
    assert "matches nobody: no client has this id" in words(browser.get(POLICIES).content.decode())


def test_a_client_of_another_issuer_is_taken_as_it_is(browser: Browser, make_server: Callable[..., MCPServer]) -> None:
    make_server("elsewhere", authentication=[ByName()], scopes=[])
    override(browser, "their-robot")
    assert "their-robot matches nobody: no client has this id" in words(browser.get(PAY).content.decode())
    RequestLog.objects.create(server="elsewhere", client_id="their-robot", started_at="2026-01-01T00:00Z", duration=1)
    assert "matches nobody" not in words(browser.get(PAY).content.decode())


def test_a_client_that_was_deleted_is_none_although_it_is_in_the_log(browser: Browser, desk: MCPServer) -> None:
    set_policy(desk, desk.tools["pay"], "block", client_id="8f3a")
    RequestLog.objects.create(server="desk", client_id="8f3a", started_at="2026-01-01T00:00Z", duration=1)
    get_application_model().objects.get(client_id="8f3a").delete()
    assert "8f3a matches nobody: no client has this id" in words(browser.get(PAY).content.decode())
    assert "No OAuth client has the id or name “8f3a”." in override(browser, "8f3a")


def test_a_client_stays_blocked_when_the_user_is_deleted_that_it_acts_as(desk: MCPServer) -> None:
    robot = User.objects.create_user("robot")
    ClientPolicy.objects.create(client_id="8f3a", blocked=True, tools=[], service_account=robot)
    robot.delete()
    row = ClientPolicy.objects.get()
    assert (row.blocked, row.tools, row.service_account) == (True, [], None)


def test_pages_name_clients_and_say_what_matches_nobody(browser: Browser, desk: MCPServer) -> None:
    pay = desk.tools["pay"]
    for whom in ({"client_id": "8f3a"}, {"client_id": "MCP CLI"}, {"group": Group.objects.create(name="Empty")}):
        set_policy(desk, pay, "block", **whom)
    ToolPolicy.objects.create(server="desk", tool="sell", decision="block")
    ClientPolicy.objects.create(client_id="MCP CLI", blocked=True)
    ClientPolicy.objects.create(client_id="8f3a", blocked=True)
    page = words(browser.get(PAY).content.decode())
    assert "MCP Inspector 8f3a block" in page
    assert "MCP CLI matches nobody: no client has this id" in page
    assert "Empty – matches nobody: the group has no members" in page
    assert "3 policies match nobody" in words(browser.get(TOOLS).content.decode())
    listed = words(browser.get(POLICIES).content.decode())
    assert "8f3a MCP Inspector blocked" in listed
    assert "MCP CLI matches nobody: no client has this id blocked" in listed
    with pytest.raises(CheckFailed) as found:
        policies(SimpleNamespace(server=desk))  # type: ignore[arg-type]
    for each in (
        "block of sell: no such tool",
        "group Empty matches nobody",
        "block of pay for MCP CLI",
        "client MCP CLI",
    ):
        assert each in str(vars(found.value))
    User.objects.order_by("-pk")[0].groups.set(Group.objects.all())
    ToolPolicy.objects.exclude(group=None, client_id="8f3a").delete()
    ClientPolicy.objects.exclude(client_id="8f3a").delete()
    assert "exist" in policies(SimpleNamespace(server=desk))  # type: ignore[arg-type]
