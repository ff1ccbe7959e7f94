"""The page that sets a user's password, as a tool: blocked at first, never decided by who asks, and hidden."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User

from django_mcp import MCPServer, admin_tools
from django_mcp.approvals.decisions import approve
from django_mcp.models import Approval, RequestLog, ToolPolicy
from django_mcp.test import MCPClient

pytestmark = pytest.mark.django_db

Make = Callable[..., Any]
NEW = "correct-horse-battery"


@pytest.fixture
def office(make_server: Make, policies: None) -> MCPServer:
    server: MCPServer = make_server("office", search_tools=0, log_requests=True)
    admin_tools(server=server)
    return server


@pytest.fixture
def boss() -> User:
    return User.objects.create_superuser("boss")


@pytest.fixture
def ben() -> User:
    return User.objects.create_user("ben", password="old")


def test_a_password_is_set_by_nobody_until_somebody_decides_so(office: MCPServer, boss: User, ben: User) -> None:
    client = MCPClient(boss, server=office)
    assert "set_user_password" not in client.names()
    client.call("set_user_password", pk=ben.pk, password=NEW).assert_hidden()
    assert "set_group_password" not in office.tools
    assert "set_hotel_password" not in office.tools


def test_another_person_approves_a_password_without_reading_it(office: MCPServer, boss: User, ben: User) -> None:
    ToolPolicy.objects.create(server="office", tool="set_user_password", decision="ask")
    client = MCPClient(boss, server=office)
    asked = client.call("set_user_password", pk=ben.pk, password=NEW).assert_needs_approval()
    approval = Approval.objects.get()
    assert NEW not in str([approval.arguments, approval.preview, [row.arguments for row in RequestLog.objects.all()]])
    assert "ben" in approval.preview["object"]
    assert not approve(approval, boss, unseen=True, in_admin=True)
    assert User.objects.get(pk=ben.pk).check_password("old")
    client.approve(asked, User.objects.create_superuser("cleo")).assert_text("Password changed successfully.")
    assert User.objects.get(pk=ben.pk).check_password(NEW)


def test_what_the_page_refuses_is_said_and_nothing_is_set(
    office: MCPServer, boss: User, ben: User, settings: Any
) -> None:
    validator = "django.contrib.auth.password_validation.MinimumLengthValidator"
    settings.AUTH_PASSWORD_VALIDATORS = [{"NAME": validator}]
    ToolPolicy.objects.create(server="office", tool="set_user_password", decision="allow")
    client = MCPClient(boss, server=office)
    client.call("set_user_password", pk=ben.pk, password="12").assert_error_mentions("'password'", "too short")
    client.call("set_user_password", pk=ben.pk).assert_error_mentions("Missing argument 'password'")
    client.call("set_user_password", pk=ben.pk, password=5).assert_error_mentions("'password'")
    client.call("set_user_password", pk=987654, password=NEW).assert_error_mentions("There is no user 987654")
    assert User.objects.get(pk=ben.pk).check_password("old")


def test_who_may_not_change_users_has_no_such_tool(office: MCPServer, ben: User) -> None:
    ToolPolicy.objects.create(server="office", tool="set_user_password", decision="allow")
    ann = User.objects.create_user("ann", is_staff=True)
    ann.user_permissions.add(Permission.objects.get(codename="view_user", content_type__app_label="auth"))
    viewer = MCPClient(User.objects.get(pk=ann.pk), server=office)
    assert "get_user" in viewer.names()
    viewer.call("set_user_password", pk=ben.pk, password=NEW).assert_hidden()
