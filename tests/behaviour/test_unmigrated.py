"""A site whose database was not migrated, or not since an upgrade: an answer at once that says what to do."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext

import pytest
from django.apps import apps
from django.contrib.auth.models import Group, Permission, User
from django.contrib.auth.signals import user_logged_out
from django.contrib.contenttypes.models import ContentType
from django.db import connection, transaction

from django_mcp import APIKeyAuthentication, Context, MCPServer, tool
from django_mcp.auth.api_keys import make_key
from tests.clients import LEGACY, MODERN, Client

pytestmark = [pytest.mark.postgresql, pytest.mark.every_way_in, pytest.mark.mariadb]


@pytest.fixture
def soon() -> Iterator[None]:
    """Nobody waits for a database that is there."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < 10


@contextmanager
def without(table: str, elsewhere: str = "elsewhere") -> Iterator[None]:
    _execute(f"ALTER TABLE {table} RENAME TO {elsewhere}")
    try:
        yield
    finally:
        _execute(f"ALTER TABLE {elsewhere} RENAME TO {table}")


def _execute(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def test_a_session_cannot_begin(server: MCPServer, edge: str, open_database: None, soon: None) -> None:
    @tool(server=server)
    def ask(ctx: Context) -> str:
        """Ask."""
        return str(ctx.confirm("Really?"))

    hello = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}}
    with without("django_mcp_session"):
        answer = Client(server, LEGACY, edge).request("initialize", hello)
    assert answer.status == 503
    assert "manage.py migrate" in answer.error["message"]


def test_nobody_is_recognised(
    make_server: Callable[..., MCPServer], edge: str, open_database: None, soon: None
) -> None:
    server = make_server(authentication=[APIKeyAuthentication()])
    client = Client(server, MODERN, edge)
    with without("django_mcp_apikey"):
        body, headers = client.compose("tools/list", {})
        answer = client.post(json.dumps(body).encode(), {**headers, "x-api-key": make_key()})
    assert answer.status == 503
    assert b"manage.py migrate" in answer.body


def test_what_was_decided_about_tools_is_unknown(
    server: MCPServer, edge: str, version: str, policies: None, soon: None
) -> None:
    @tool(server=server)
    def look() -> str:
        """Look."""
        return "looked"

    with without("django_mcp_toolpolicy"):
        answer = Client(server, version, edge).call("look")
    assert "manage.py migrate" in answer.error["message"]


def test_calls_cannot_be_recorded(server: MCPServer, edge: str, version: str, call_log: object, soon: None) -> None:
    @tool(server=server)
    def look() -> str:
        """Look."""
        return "looked"

    client = Client(server, version, edge)
    with without("django_mcp_requestlog"):
        messages = [client.call("look").error["message"] for _ in range(2)]
    assert all("manage.py migrate" in each for each in messages), messages
    assert "looked" in client.call("look").text


def test_acts_cannot_be_noted(server: MCPServer, edge: str, open_database: None, soon: None) -> None:
    @tool(server=server)
    def act(ctx: Context) -> str:
        """Act."""
        return ctx.once("act", lambda: "done")

    with without("django_mcp_step"):
        assert "Internal server error" in Client(server, MODERN, edge).call("act").text


def make_people(name: str) -> tuple[User, Group, Permission]:
    user, group = User.objects.create(username=name), Group.objects.create(name=name)
    permission = Permission.objects.create(
        codename=name, content_type=ContentType.objects.get_for_model(User), name=f"Can {name}"
    )
    return user, group, permission


CHANGES: Mapping[str, Callable[[User, Group, Permission], object]] = {
    "a permission of a group": lambda user, group, permission: group.permissions.add(permission),
    "a group of a user": lambda user, group, permission: user.groups.add(group),
    "a group from its side": lambda user, group, permission: group.user_set.clear(),
    "a permission from its side": lambda user, group, permission: permission.group_set.set([group]),
    "a group's name": lambda user, group, permission: group.save(),
    "rights of a user": lambda user, group, permission: User(pk=user.pk, username="a", is_superuser=True).save(),
    "an inactive user": lambda user, group, permission: User(pk=user.pk, username="a", is_active=False).save(),
    "a logout": lambda user, group, permission: user_logged_out.send(User, user=user, request=None),
    "a permission that is deleted": lambda user, group, permission: permission.delete(),
}
TABLES = [model._meta.db_table for model in apps.get_app_config("django_mcp").get_models() if not model._meta.proxy]


@pytest.mark.parametrize("is_in_transaction", [True, False])
@pytest.mark.parametrize("change", CHANGES)
def test_the_site_goes_on_with_its_own_changes(
    server: MCPServer,
    open_database: None,
    caplog: pytest.LogCaptureFixture,
    change: str,
    is_in_transaction: bool,
) -> None:
    """Such as those of other apps during ``migrate``."""
    tool(server=server, name="look", permission="auth.view_user")(lambda: "looked")
    people = user, group, permission = make_people("somebody")
    user.groups.add(group)
    group.permissions.add(permission)
    try:
        with ExitStack() as stack:
            for table in TABLES:
                stack.enter_context(without(table, f"elsewhere_{table}"))
            with transaction.atomic() if is_in_transaction else nullcontext():
                CHANGES[change](*people)
                assert User.objects.filter(pk=user.pk).exists()
    finally:
        for row in (permission, group, user):
            type(row).objects.filter(pk=row.pk).delete()
    assert not caplog.records
