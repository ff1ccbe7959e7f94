"""Tools that are completed when they are first listed or called."""

import asyncio
import io
import json
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
from django.apps import apps
from django.conf import settings
from django.contrib.auth.models import Group
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured, SynchronousOnlyOperation
from django.core.management import call_command
from django.db import OperationalError, ProgrammingError, connection, transaction
from django.test import Client as Browser
from django.test import override_settings
from django.utils.asyncio import async_unsafe
from django.utils.functional import lazy
from django.utils.translation import gettext_lazy

from django_mcp import prompt, tool
from django_mcp.checks import described
from django_mcp.core.late_tools import LateTool
from django_mcp.core.policies import policy_cache
from django_mcp.core.server import MCPServer
from django_mcp.models import ToolSnapshot
from django_mcp.primitives.tool import Tool
from tests.clients import MODERN, Client


def nothing(ctx: Any) -> None:
    """Do nothing."""


@async_unsafe("You cannot do this from an async context.")
def ask_the_database() -> Any:
    return "Asked."


class Late(LateTool):
    """Says in its description what the database said."""

    reads_database = True
    errors: list[Exception]
    times = 0
    words: Callable[[], Any] = staticmethod(ask_the_database)

    def __init__(self, *errors: Exception, name: str = "late", **options: Any) -> None:
        self.errors = list(errors)
        super().__init__(nothing, name=name, **options)

    def made(self) -> Tool:
        if self.errors:
            raise self.errors.pop(0)
        self.times += 1
        return Tool(nothing, context_type=self._context_type, name="late", description=self.words())


NO_TABLE = "no such table: rooms"


def names(client: Client, member: str = "tools") -> list[str]:
    return [each["name"] for each in client.request(f"{member}/list", {}).result[member]]


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
    bad, late = Late(OperationalError(NO_TABLE)), Late()

    async def listed() -> Any:
        return late.definition["description"]

    assert asyncio.run(listed()) == "Asked."
    assert bad.find_failure() is None


@pytest.mark.parametrize(
    "failure", [OperationalError(NO_TABLE), ValueError("nobody thought of this"), ImproperlyConfigured("no view")]
)
def test_one_that_cannot_be_described_is_left_out_of_a_list_that_has_all_others(
    server: MCPServer, client: Client, caplog: pytest.LogCaptureFixture, failure: Exception
) -> None:
    tool(server=server, name="first")(nothing)
    server.add(Late(*[failure] * 9))
    tool(server=server, name="last")(nothing)
    for _ in range(2):
        listed = client.request("tools/list", {}).result
        assert [each["name"] for each in listed["tools"]] == ["first", "last"]
        assert (listed["ttlMs"], listed["cacheScope"]) == (0, "private")
    (record,) = [each for each in caplog.records if "is left out of lists" in each.getMessage()]
    assert "'late'" in record.getMessage()
    assert str(failure) in record.getMessage(), "the reason, and once"


@pytest.mark.parametrize("failure", [OperationalError(NO_TABLE), ValueError("nobody thought of this")])
def test_it_is_tried_again_at_the_next_listing(server: MCPServer, client: Client, failure: Exception) -> None:
    late = Late(failure)
    server.add(late)
    assert names(client) == []
    assert names(client) == ["late"]
    server.page_size = 50
    assert names(client) == ["late"]
    assert late.times == 1, "and then it is kept"


def test_it_is_found_by_nobody_and_called_by_nobody_while_it_cannot_be_described(
    server: MCPServer, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    late = Late(*[OperationalError(NO_TABLE)] * 99)
    for number in range(3):
        tool(server=server, name=f"nothing_{number}")(nothing)
    server.add(late)
    with override_settings(DJANGO_MCP={"TOOL_SEARCH_THRESHOLD": 2, "AUTHENTICATION": ["django_mcp.AllowAny"]}):
        found = client.call("search_tools", query="nothing late").result["structuredContent"]
        assert {each["name"] for each in found["tools"]} == {f"nothing_{number}" for number in range(3)}
        answer = client.call("late")
    assert answer.result["isError"] is True
    assert NO_TABLE not in answer.text
    assert NO_TABLE in caplog.text
    late.errors.clear()
    assert not client.call("late", ctx=1).result.get("isError")


def test_texts_that_fail_when_they_are_translated_leave_out_what_they_are_of(
    server: MCPServer, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    is_there = [True]

    def text() -> str:
        if not is_there:
            raise LookupError("no such text")
        return "Text."

    bad: Any = lazy(text, str)()
    for make in (tool, prompt):
        make(server=server, name="good", description=gettext_lazy("Yes"))(lambda: "")
        make(server=server, name="bad", description=bad)(lambda: "")
    assert names(client) == names(client, "prompts") == ["good", "bad"]
    is_there.clear()
    server.pages.clear()
    assert names(client) == names(client, "prompts") == ["good"]
    assert "no such text" in caplog.text


def test_checks_tell_of_a_tool_that_cannot_be_described_but_for_the_database(server: MCPServer) -> None:
    for name, failure in {
        "unmigrated": OperationalError(NO_TABLE),
        "misdeclared": ImproperlyConfigured("There is no such view."),
        "broken": ValueError("nobody thought of this"),
    }.items():
        server.add(Late(*[failure] * 99, name=name))
    found = {each.msg for each in run_checks() if each.id == "django_mcp.E029"}
    assert found == {
        "Tool 'misdeclared': There is no such view.",
        "Tool 'broken': its definition cannot be built: ValueError('nobody thought of this').",
    }
    assert list(described(server)) == []


@pytest.mark.postgresql
def test_a_table_that_is_missing_leaves_the_transaction_of_the_list_as_it_was(
    server: MCPServer, open_database: None
) -> None:
    class Unmigrated(Late):
        def made(self) -> Tool:
            with connection.cursor() as cursor:
                cursor.execute("SELECT * FROM rooms_that_nobody_migrated")
            raise AssertionError("there is no such table")

    late = Unmigrated()
    with transaction.atomic():
        assert isinstance(late.find_failure(), OperationalError | ProgrammingError)
        assert Group.objects.count() >= 0


def test_one_that_is_misdeclared_fails_when_it_is_called() -> None:
    late = Late(ImproperlyConfigured("There is no such view."))
    assert str(late.find_failure()) == "There is no such view."
    with pytest.raises(ImproperlyConfigured, match="no such view"):
        late.arguments.validate({})


def test_one_of_which_rows_may_be_the_fault_is_not_misdeclared_for_ever(open_database: None) -> None:
    class OfRows(Late):
        def made(self) -> Tool:
            if not Group.objects.filter(name="of-rows").exists():
                raise ImproperlyConfigured("There is no group.")
            return super().made()

    late = OfRows()
    assert str(late.find_failure()) == "There is no group."
    made = Group.objects.create(name="of-rows")
    try:
        assert late.find_failure() is None
    finally:
        made.delete()


def test_pages_commands_and_decisions_that_go_through_all_tools_do_without_it(
    make_server: Callable[..., MCPServer], policies: None, admin_client: Browser, caplog: pytest.LogCaptureFixture
) -> None:
    server = make_server("late")
    tool(server=server, name="good")(lambda: "Good.")
    server.add(Late(*[ValueError("nobody thought of this")] * 999))
    with override_settings(DJANGO_MCP={**settings.DJANGO_MCP, "BLOCK_CHANGED_TOOLS": True}):
        policy_cache.expire()
        assert Client(server, MODERN, "view").call("good").text == "Good."
        assert not ToolSnapshot.objects.filter(server="late", tool="late").exists(), "nobody accepts what is not known"
    tries = ("playground/?endpoint=late", "playground/call/?endpoint=late&kind=tool&key=late")
    for page in ("tools/", "tools/late.late/change/", *tries):
        assert admin_client.get(f"/admin/django_mcp/{page}").status_code == 200, page
    assert ">late.late</a>" in admin_client.get("/admin/django_mcp/tools/").content.decode(), "it has no row to list"
    out = io.StringIO()
    call_command("mcp_inspect", "--server", "late", "--json", stdout=out)
    (told,) = json.loads(out.getvalue())["endpoints"]
    problems = {each["name"]: each["problems"] for each in told["tools"]}
    assert problems == {"good": [], "late": ["its definition cannot be built: ValueError('nobody thought of this')."]}


def make_group() -> str:
    return Group.objects.get_or_create(name="by default")[0].name


def make_group_alone() -> str:
    return Group.objects.create(name="by default").name


@pytest.mark.parametrize("words", [make_group, make_group_alone])
@pytest.mark.parametrize("is_outermost", [True, False])
@pytest.mark.django_db(transaction=True)
def test_what_its_completion_writes_is_rolled_back(words: Callable[[], str], is_outermost: bool) -> None:
    late = Late()
    late.words = words
    with nullcontext() if is_outermost else transaction.atomic():
        assert late.definition["description"] == "by default"
        assert not Group.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_its_completion_may_have_a_transaction_of_its_own() -> None:
    late = Late()

    def count() -> str:
        with transaction.atomic():
            return f"{Group.objects.count()} groups"

    late.words = count
    assert late.definition["description"] == "0 groups"
    assert not connection.in_atomic_block


def test_no_database_is_needed_if_its_completion_asks_nothing() -> None:
    late = Late()
    late.words = lambda: "Said."
    assert late.definition["description"] == "Said."
