"""What a call would change, as a function of the site's tells it to whoever is to approve it."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Annotated, Any

import pytest
from django.contrib.auth.models import Group
from django.core.exceptions import ImproperlyConfigured, ObjectDoesNotExist, PermissionDenied, ValidationError
from django.db import transaction
from django.http import Http404
from django.utils.functional import lazystr

from django_mcp import Cancelled, Context, MCPServer, Principal, Secret, ToolError, tool
from django_mcp.approvals.previews import MOST, preview_of
from django_mcp.core import database
from django_mcp.core.channel import Channel
from django_mcp.core.concurrency import INLINE, Pool, Runner, run_inline
from django_mcp.core.database import rolled_back
from django_mcp.core.elicitation import Dialogue
from django_mcp.core.request import CallSource
from django_mcp.primitives.schema import ArgumentError
from django_mcp.protocol.jsonrpc import Request

EDGES = ("inline", pytest.param("pool", marks=pytest.mark.slow))
"""In a pool as at the inline edge: that it runs in a thread there is said by a test of its own."""
Preview = Callable[..., Any]


def context_of(server: MCPServer, runner: Runner, arguments: dict[str, Any], **of: Any) -> Context:
    principal = Principal(kind="test", id="ann", user=None, scopes=None)
    params = {"name": "work", "arguments": arguments}
    channel = of.pop("channel", Channel())
    return Context(
        CallSource(server, principal, runner, lambda: None), Request(1, "tools/call", params), channel, capabilities=of
    )


def look(server: MCPServer, context: Context | None = None, /, **arguments: Any) -> Any:
    """The preview of a call of ``work``, at an edge without an event loop."""
    made = context or context_of(server, INLINE, arguments)
    work = server.tools["work"]
    return run_inline(preview_of(made, work, work.arguments.validate(arguments))).value


def offer(server: MCPServer, preview: Any, **options: Any) -> None:
    @tool(server=server, preview=preview, **options)
    def work(number: int = 1, word: str = "none") -> str:
        raise AssertionError("a preview does not run the tool")


@pytest.fixture(params=EDGES)
def at_edge(request: pytest.FixtureRequest, server: MCPServer, transactional_db: None) -> Iterator[Preview]:
    """``look`` in the calling thread, and on an event loop with a pool of threads."""
    if request.param == "inline":
        yield lambda **arguments: look(server, **arguments)
        return
    pool = Pool(1)

    def run(**arguments: Any) -> Any:
        work = server.tools["work"]
        context = context_of(server, pool, arguments)
        return asyncio.run(preview_of(context, work, work.arguments.validate(arguments))).value

    yield run
    pool.close()


class TestRunning:
    def test_a_tool_without_one_has_none(self, server: MCPServer, db: None) -> None:
        offer(server, None)
        assert look(server) is None

    def test_it_gets_the_checked_arguments_it_takes_and_the_context(self, server: MCPServer, at_edge: Preview) -> None:
        def preview(ctx: Context, number: Decimal, other: int = 7) -> Any:
            return {"number": number, "other": other, "who": ctx.principal.id, "method": ctx.method}

        offer(server, preview)
        assert at_edge(number=3) == {"number": 3, "other": 7, "who": "ann", "method": "tools/call"}

    def test_it_may_be_a_coroutine_function(self, server: MCPServer, at_edge: Preview) -> None:
        async def preview(word: str) -> Any:
            await asyncio.sleep(0)
            return Group.objects.filter(name=word)

        Group.objects.create(name="sea")
        offer(server, preview)
        assert at_edge(word="sea") == ["sea"]

    @pytest.mark.postgresql
    def test_what_it_writes_is_gone_afterwards(self, server: MCPServer, at_edge: Preview) -> None:
        committed: list[str] = []

        def preview(word: str) -> Any:
            Group.objects.create(name=word)
            transaction.on_commit(lambda: committed.append(word))
            return {"groups": Group.objects.values_list("name", flat=True)}

        offer(server, preview)
        assert at_edge(word="sea") == {"groups": ["sea"]}
        assert not Group.objects.exists()
        assert committed == []

    @pytest.mark.postgresql
    def test_it_is_gone_where_the_preview_fails_or_a_transaction_is_open_already(
        self, server: MCPServer, db: None
    ) -> None:
        def preview(number: int) -> str:
            Group.objects.create(name=f"group {number}")
            raise ToolError("No.")

        offer(server, preview)
        with transaction.atomic():
            Group.objects.create(name="before")
            with pytest.raises(ToolError):
                look(server)
        assert list(Group.objects.values_list("name", flat=True)) == ["before"]

    def test_it_runs_in_a_thread_where_the_edge_has_threads(self, server: MCPServer, transactional_db: None) -> None:
        threads: list[str] = []
        offer(server, lambda: threads.append(threading.current_thread().name))
        pool = Pool(1)
        work = server.tools["work"]
        assert asyncio.run(preview_of(context_of(server, pool, {}), work, {})).value is None
        pool.close()
        assert threads == ["django-mcp-worker-1"]

    def test_a_site_without_a_database_has_previews(
        self, server: MCPServer, db: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(database, "exists", lambda _: False)
        monkeypatch.setattr(transaction, "atomic", None)
        assert rolled_back(lambda: 3) == 3


class TestFailing:
    def test_what_the_call_would_end_with_ends_it(self, server: MCPServer, at_edge: Preview) -> None:
        errors: list[BaseException] = [
            ToolError("No."),
            ValidationError("No."),
            ArgumentError(["No."]),
            PermissionDenied(),
            Http404(),
            ObjectDoesNotExist(),
            Group.DoesNotExist(),
            Cancelled(),
        ]

        def preview() -> None:
            raise errors[0]

        offer(server, preview)
        while errors:
            with pytest.raises(type(errors[0])):
                at_edge()
            del errors[0]

    def test_other_errors_are_logged_and_told_without_details(
        self, server: MCPServer, at_edge: Preview, caplog: pytest.LogCaptureFixture
    ) -> None:
        offer(server, lambda: 1 // 0)
        assert at_edge() == {"error": "The preview failed."}
        assert "The preview of tool 'work'" in caplog.text
        assert "ZeroDivisionError" in caplog.text

    def test_what_cannot_be_json_is_such_an_error(
        self, server: MCPServer, db: None, caplog: pytest.LogCaptureFixture
    ) -> None:
        round_and_round: list[Any] = []
        round_and_round.append(round_and_round)
        offer(server, lambda: round_and_round)
        assert look(server) == {"error": "The preview failed."}
        assert "The preview of tool 'work'" in caplog.text

    @pytest.mark.parametrize("capabilities", [{}, {"elicitation": {}}], ids=["able", "unable"])
    def test_it_cannot_ask_the_client_whatever_that_said_already(
        self, server: MCPServer, db: None, caplog: pytest.LogCaptureFixture, capabilities: dict[str, Any]
    ) -> None:
        def preview(ctx: Context) -> str:
            try:
                return str(ctx.elicit("Sure?", {"type": "object", "properties": {}}, key="sure"))
            except Exception as error:
                raise AssertionError from error

        offer(server, preview)
        channel = Channel()
        channel.dialogue = Dialogue(answers={"sure": {"action": "accept", "content": {}}})
        context = context_of(server, INLINE, {}, channel=channel, **capabilities)
        assert look(server, context) is None
        assert "no preview, because it requests input from the client" in caplog.text
        assert channel.dialogue.asked == {}

    def test_tasks_in_a_group_cannot_ask_either(
        self, server: MCPServer, db: None, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def preview(ctx: Context) -> None:
            async def ask() -> None:
                ctx.confirm("Sure?")

            async with asyncio.TaskGroup() as group:
                group.create_task(ask())

        offer(server, preview)
        assert look(server) is None
        assert "requests input from the client" in caplog.text

    def test_it_does_nothing_once(self, server: MCPServer, db: None, caplog: pytest.LogCaptureFixture) -> None:
        done: list[int] = []
        offer(server, None)

        def preview(ctx: Context) -> Any:
            return ctx.once("charge", lambda: done.append(1))

        async def apreview(ctx: Context) -> Any:
            return await ctx.aonce("charge", ran)

        async def ran() -> None:
            done.append(1)

        for number, each in enumerate((preview, apreview)):
            tool(server=server, name=f"work-{number}", preview=each)(lambda: "done")
            made = server.tools[f"work-{number}"]
            assert run_inline(preview_of(context_of(server, INLINE, {}), made, {})).value == {
                "error": "The preview failed."
            }
        assert done == []
        assert "is not allowed in a preview" in caplog.text

    def test_it_tells_the_client_nothing_and_hears_that_it_went_away(self, server: MCPServer, db: None) -> None:
        class Loud(Channel):
            log_level = "debug"

            def notify(self, method: str, params: Any) -> None:
                raise AssertionError("the client would hear of it")

        def preview(ctx: Context) -> Any:
            ctx.log("error", "looking")
            ctx.report_progress(1)
            return {"gone": ctx.cancelled}

        offer(server, preview)
        channel = Loud()
        context = context_of(server, INLINE, {}, channel=channel)
        context.params["_meta"] = {"progressToken": 1}
        assert look(server, context) == {"gone": False}
        channel.cancelled = True
        with pytest.raises(Cancelled):
            look(server, context)


class TestJSON:
    def test_it_is_plain_and_hides_nothing_that_was_not_declared(self, server: MCPServer, db: None) -> None:
        told = {"to": "ann", "password": "hunter2", "note": "Bearer abcdefghijklmnopqrstuvwxyz"}
        shown: list[tuple[Any, Any]] = [
            (None, None),
            ("Three seats.", {"text": "Three seats."}),
            ("", {"text": ""}),
            (lazystr("Later"), {"text": "Later"}),
            (7, {"text": "7"}),
            (True, {"text": "true"}),
            ([], []),
            ({"a": [1, None, {"b": Decimal("1.50")}]}, {"a": [1, None, {"b": "1.50"}]}),
            (["x", float("nan")], ["x", None]),
            (iter([1, 2]), [1, 2]),
            ({"file": b"\xff"}, {"file": "_w=="}),
            ({"what": Group(name="sea")}, {"what": "sea"}),
            (told, told),
        ]
        values = iter([value for value, _ in shown])
        offer(server, lambda: next(values))
        assert [look(server) for _ in shown] == [expected for _, expected in shown]

    def test_a_declared_secret_is_hidden_in_an_object_and_in_each_object_of_a_list(
        self, server: MCPServer, db: None
    ) -> None:
        told: list[Any] = [{"pin": "1234", "to": "ann"}, [{"pin": "1234"}], "pin"]
        values = iter([told[0], told])

        @tool(server=server, preview=lambda pin: next(values))
        def work(pin: Annotated[str, Secret()]) -> str:
            """Work."""
            return pin

        hidden = {"pin": "***", "to": "ann"}
        assert look(server, pin="1234") == hidden
        assert look(server, pin="1234") == [hidden, [{"pin": "***"}], "pin"]

    def test_rows_of_a_queryset_are_listed_up_to_a_limit(self, server: MCPServer, db: None) -> None:
        Group.objects.bulk_create(Group(name=f"group {number}") for number in range(102))
        offer(server, lambda: {"groups": Group.objects.order_by("pk").values("name"), "rows": Group.objects.all()[:1]})
        shown = look(server)
        assert shown["groups"][0] == {"name": "group 0"}
        assert shown["groups"][99:] == [{"name": "group 99"}, "… (there are more)"]
        assert len(shown["rows"]) == 1

    def test_a_long_text_is_cut_and_says_so(self, server: MCPServer, db: None) -> None:
        offer(server, lambda: "x" * (MOST + 5))
        assert look(server) == {"text": "x" * MOST + "… (5 more characters)"}

    def test_long_texts_and_lists_inside_are_cut_and_say_so(self, server: MCPServer, db: None) -> None:
        offer(server, lambda: {"verb": "send", "body": "y" * 60_000, "to": [f"person {at}" for at in range(300)]})
        shown = look(server)
        assert shown["verb"] == "send"
        assert shown["body"] == "y" * 2000 + "… (58000 more characters)"
        assert shown["to"][199:] == ["person 199", "… (100 more)"]

    def test_what_is_still_too_long_is_the_beginning_of_its_text(self, server: MCPServer, db: None) -> None:
        offer(server, lambda: {f"key {number}": number for number in range(5000)})
        shown = look(server)
        assert shown["text"].startswith('{"key 0": 0, "key 1": 1')
        assert shown["text"].endswith(" more characters)")
        assert len(shown["text"]) < MOST + 40


class TestDeclaring:
    def test_a_parameter_the_tool_does_not_have_is_refused_at_registration(self, server: MCPServer) -> None:
        def preview(numbr: int, number: int, other: int = 1) -> None:
            """Has a mistake."""

        with pytest.raises(ImproperlyConfigured, match="preview takes numbr, which the tool does not"):
            offer(server, preview)
        assert "work" not in server.tools

    def test_a_coroutine_function_and_its_context_are_checked_alike(self, server: MCPServer) -> None:
        async def preview(ctx: Context, worde: str) -> None:
            """Has a mistake."""

        with pytest.raises(ImproperlyConfigured, match="preview takes worde, which"):
            offer(server, preview)
