"""Whatever fails once in a call of any kind: the call ends, nothing is left of it, and the next call works.

Each test sweeps over all places of a kind that a call passes: "its third statement fails", "it is cancelled at its
seventh await". ``tests/together/injection.py`` says what fails how, and ``tests/leftovers.py`` what must not be left.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.test import override_settings

from django_mcp import APIKeyAuthentication, Context, MCPServer, resource, tool
from django_mcp.approvals.decisions import approve
from django_mcp.auth.api_keys import create_key
from django_mcp.models import Approval, Call, RequestLog, Task
from tests import leftovers
from tests.clients import LEGACY, MODERN
from tests.conftest import end_tasks
from tests.conversation import Conversation
from tests.exchange import Exchange, Room, eventually
from tests.person import accept
from tests.tasks.clients import knows_tasks
from tests.together.injection import COLD, POINTS, Fault

pytestmark = [
    pytest.mark.postgresql,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

ENDS_WITHIN = 8.0
"""Seconds in which a call is over, whatever failed."""
MAX_PLACES = 400
YES = accept(confirm=True)
NEWS = "news://today"
Message = dict[str, Any]


ESCAPES = {"send", "send, unknown error", "create_task", "cancelled"}
"""Where it is right that the server learns of the error."""
CUT_OFF = {(kind, point) for kind in ("ask_legacy", "listen") for point in ("submit", "statement, out of memory")}
"""Likewise: a stream that has begun can only be cut off, and its client comes back."""


class Hung(AssertionError):
    """A call that does not end."""


def ended(exchange: Exchange) -> list[Message]:
    """The messages of an answer, once it is over."""
    with exchange.changed:
        if not exchange.changed.wait_for(lambda: exchange.ended, ENDS_WITHIN):
            raise Hung(f"not ended: {exchange.status} {exchange.body!r}")
    return messages(exchange)


def messages(exchange: Exchange) -> list[Message]:
    if exchange.is_stream:
        *blocks, _ = exchange.body.replace(b"\r\n", b"\n").split(b"\n\n")
        lines = [line for block in blocks for line in block.split(b"\n") if line.startswith(b"data: ")]
        return [json.loads(line[6:]) for line in lines if line[6:].strip()]
    try:
        return [json.loads(exchange.body)] if exchange.body else []
    except ValueError:  # broken off
        return []


def comes(exchange: Exchange, wanted: Callable[[Message], bool]) -> Message | None:
    """The first message that is wanted, or None once the answer is over without it."""
    with exchange.changed:
        if not exchange.changed.wait_for(lambda: exchange.ended or any(map(wanted, messages(exchange))), ENDS_WITHIN):
            raise Hung(f"nothing came: {exchange.status} {exchange.body!r}")
    return next(filter(wanted, messages(exchange)), None)


def is_response(message: Message) -> bool:
    return "method" not in message


def text(message: Message | None) -> str | None:
    """What a tool says; None for an error."""
    result = (message or {}).get("result", {})
    if result.get("isError") or not result:
        return None
    return "".join(block.get("text", "") for block in result.get("content", result.get("contents", [])))


class Caller:
    """A person with a key, in either era."""

    def __init__(self, room: Room, user: User, capabilities: Mapping[str, Any] | None = None) -> None:
        self.room, self.user = room, user
        _, key = create_key(user, "test", endpoints=[room.server.name])
        headers = {"authorization": f"Bearer {key}"}
        given = {} if capabilities is None else {"capabilities": capabilities}
        self.modern = Conversation(room, MODERN, headers=headers, **given)
        self.plain = Conversation(room, MODERN, headers=headers, capabilities={})  # it can only wait
        self.legacy = Conversation(room, LEGACY, headers=headers).open()

    def send(self, talk: Conversation, method: str, params: Message) -> Exchange:
        return talk.begin(method, params).exchange

    def one(self, talk: Conversation, name: str, **params: Any) -> Message | None:
        """The response to a call, taken up again where its stream was cut off."""
        exchange = self.send(talk, "tools/call", {"name": name, "arguments": {}, **params})
        found = comes(exchange, is_response)
        ids = [line[4:] for line in exchange.body.decode().splitlines() if line.startswith("id: ")]
        if found is None and ids and not talk.is_modern:
            found = comes(talk.get(ids[-1]), is_response)
        return found


class Site:
    """Tools of each kind, and how each is called. A function of the second half returns what the tool said, or None."""

    def __init__(self, server: MCPServer, room: Room, rows: Any, users: list[User]) -> None:
        self.server, self.rows = server, rows
        self._tools()
        self.ann, self.ben = Caller(room, users[0], knows_tasks()), Caller(room, users[1])

    def _tools(self) -> None:  # noqa: C901 - each is as simple as its kind
        server, rows = self.server, self.rows

        @tool(server=server)
        def write() -> str:
            rows("written")
            return "done"

        @tool(server=server, concurrency_limit=1, timeout=30, destructive=False)
        def limited() -> str:
            rows("written")
            return "done"

        @tool(server=server, concurrency_limit=1, timeout=30, destructive=False)
        async def alimited() -> str:
            await asyncio.sleep(0)
            await User.objects.acount()
            return "done"

        @tool(server=server, read_only=True, concurrency_limit=1)
        async def progress(ctx: Context) -> str:
            ctx.report_progress(1)
            await asyncio.sleep(0)
            ctx.report_progress(2)
            return "done"

        @tool(server=server, concurrency_limit=1)
        def progress_sync(ctx: Context) -> str:
            ctx.report_progress(1)
            rows("written")
            ctx.report_progress(2)
            return "done"

        @tool(server=server, concurrency_limit=1)
        def ask(ctx: Context) -> str:
            if not ctx.confirm("Sure?"):
                return "no"
            ctx.once("pay", lambda: rows("written"))
            return "done"

        @tool(server=server, task="optional", concurrency_limit=1)
        def work(ctx: Context) -> str:
            ctx.report_progress(1)
            rows("written")
            return "done"

        @tool(server=server, policy="ask", concurrency_limit=1)
        def pay() -> str:
            rows("written")
            return "done"

        @resource(NEWS, server=server)
        def news() -> str:
            return f"done {User.objects.count()}"

    # Kinds of calls

    def write(self) -> str | None:
        return text(self.ann.one(self.ann.modern, "write"))

    def limited(self) -> str | None:
        key = f"key {RequestLog.objects.count()} {len(self.ann.modern.heard)} {id(object())}"
        return text(self.ann.one(self.ann.modern, "limited", _meta={"io.github.django-mcp/idempotencyKey": key}))

    def alimited(self) -> str | None:
        return text(self.ann.one(self.ann.modern, "alimited"))

    def progress(self) -> str | None:
        return text(self.ann.one(self.ann.legacy, "progress", _meta={"progressToken": 1}))

    def progress_sync(self) -> str | None:
        return text(self.ann.one(self.ann.legacy, "progress_sync", _meta={"progressToken": 1}))

    def progress_modern(self) -> str | None:
        return text(self.ann.one(self.ann.modern, "progress", _meta={"progressToken": 1}))

    def ask(self) -> str | None:
        found = self.ann.one(self.ann.modern, "ask")
        result = (found or {}).get("result", {})
        if result.get("resultType") != "input_required":
            return text(found)
        return text(self.ann.one(self.ann.modern, "ask", **Conversation.input(result, lambda _: YES)))

    def ask_legacy(self) -> str | None:
        talk = self.ann.legacy
        exchange = self.ann.send(talk, "tools/call", {"name": "ask", "arguments": {}})
        question = comes(exchange, lambda message: "id" in message)
        if question is None or is_response(question):
            return text(question)
        answer = {"jsonrpc": "2.0", "id": question["id"], "result": YES}
        for _ in range(2):  # a client that got an error, or nothing, sends its answer again
            reply = talk.post(answer)
            ended(reply)
            if reply.status == 202:
                break
        found = comes(exchange, is_response)
        ids = [line[4:] for line in exchange.body.decode().splitlines() if line.startswith("id: ")]
        if found is None and ids and Call.objects.filter(status=Call.Status.RUNNING).exists():
            found = comes(talk.get(ids[-1]), is_response)
        return text(found)

    def work(self) -> str | None:
        params = {"name": "work", "arguments": {}}
        found = comes(self.ann.send(self.ann.modern, "tools/call", params), is_response)
        task_id = (found or {}).get("result", {}).get("taskId")
        if task_id is None:
            eventually(lambda: all(task.is_over for task in Task.objects.all()), "a task that nobody knows of goes on")
            return text(found)
        eventually(lambda: self._is_over(task_id), "the task does not end")
        return text({"result": Task.objects.get(task_id=task_id).result or {}})

    def _is_over(self, task_id: str) -> bool:
        """Ask for the task, as its client does, and see whether it is over."""
        ended(self.ann.send(self.ann.modern, "tasks/get", {"taskId": task_id}))
        return Task.objects.get(task_id=task_id).is_over

    def pay(self) -> str | None:
        exchange = self.ann.send(self.ann.plain, "tools/call", {"name": "pay", "arguments": {}})
        pending = Approval.objects.filter(state="pending", tool="pay")
        eventually(lambda: exchange.ended or pending.exists(), "the call neither waits nor ends")
        for approval in pending:
            approve(approval, self.ben.user)
        return text(comes(exchange, is_response))

    def listen(self) -> str | None:
        wanted = {"notifications": {"resourceSubscriptions": [NEWS]}}
        exchange = self.ann.send(self.ann.modern, "subscriptions/listen", wanted)
        if comes(exchange, lambda message: "acknowledged" in message.get("method", "")) is None:
            return None
        self.server.notify_resource_updated(NEWS)
        found = comes(exchange, lambda message: message.get("method", "").endswith("/updated"))
        exchange.leave()
        ended(exchange)
        return None if found is None else "done"

    def read(self) -> str | None:
        found = comes(self.ann.send(self.ann.modern, "resources/read", {"uri": NEWS}), is_response)
        return None if text(found) is None and "error" in (found or {"error": 1}) else "done"


KINDS = (
    *("write", "limited", "alimited", "progress", "progress_sync", "progress_modern", "ask", "ask_legacy"),
    *("work", "pay", "listen", "read"),
)
WRITES = {"write", "limited", "progress_sync", "ask", "ask_legacy", "work", "pay"}
UNWITHDRAWN = {"write", "limited", "alimited", "progress_modern", "ask", "work", "pay", "listen", "read"}
"""Calls that no session can cancel."""


@pytest.fixture
def site(make_server: Any, call_log: Any, policies: None, rows: Any, settings: Any) -> Iterator[Site]:
    """With the log, two callers who have keys, and limits of rates."""
    given = {"POLL_INTERVAL": 0.02, "RATE_LIMIT": "100000/m", "APPROVAL_WAIT_TIMEOUT": 20.0, "KEEP_ALIVE_INTERVAL": 1.0}
    server = make_server("swept", authentication=[APIKeyAuthentication()], scopes=[], log_requests=True)
    users = [User.objects.create_superuser(name) for name in ("ann-of-faults", "ben-of-faults")]
    with override_settings(DJANGO_MCP={**settings.DJANGO_MCP, **given}), Room(server, "asgi") as room:
        yield Site(server, room, rows, users)
    for user in users:
        user.delete()
    cache.clear()


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Hundreds of failures are logged, with their tracebacks, whose frames keep what they used."""
    logging.getLogger("django_mcp").propagate = False
    yield
    logging.getLogger("django_mcp").propagate = True


def sweep(site: Site, kind: str, point: str) -> int:
    """Make each place fail in turn; return how many there were."""
    call, before = getattr(site, kind), {*leftovers.taken()}  # by a test that failed for it
    assert call() == "done", "without a fault it works"
    for number in range(1, MAX_PLACES):
        _forget(site)
        if point in COLD:
            for pool in leftovers.pools():
                pool.close()
        fault = Fault(number, point)
        said = None
        try:
            with fault:
                said = call()
            escaped = _escaped(site.ann.room)
            if not fault.happened:
                assert said == "done"
                return number - 1
            assert not any(map(_is_wrong_use, escaped)), f"sent to a server that has done: {escaped}"
            assert not escaped or point in ESCAPES or (kind, point) in CUT_OFF, f"left the application: {escaped}"
            check(site, kind, said, before)
        except AssertionError as error:
            where = f"{kind}, {point} {number} at {fault.where}, said {said!r}"
            raise AssertionError(f"{where}: {error} {_escaped(site.ann.room)}") from error
    raise AssertionError(f"a call of more than {MAX_PLACES} places")


def _escaped(room: Room) -> list[BaseException]:
    """What came out of the ASGI application."""
    found = [exchange.failure for exchange in room._exchanges if exchange.failure is not None]
    for exchange in room._exchanges:
        exchange.failure = None
    return found


def _is_wrong_use(error: BaseException) -> bool:
    return isinstance(error, AssertionError)


def _forget(site: Site) -> None:
    site.rows.forget()
    RequestLog.objects.all().delete()
    Approval.objects.all().delete()


def check(site: Site, kind: str, said: str | None, before: AbstractSet[str]) -> None:
    """Nothing is left, nothing happened or was logged twice, and the next calls work, for both callers."""
    end_tasks()
    eventually(lambda: not {*leftovers.taken()} - before, lambda: f"left: {sorted({*leftovers.taken()} - before)}")
    rows = leftovers.rows()
    assert not rows, f"left: {rows}"
    written = site.rows.written()
    assert len(written) <= 1, f"{len(written)} effects"
    if said == "done" and kind in WRITES:
        assert len(written) == 1, "answered, without its effect"
    logged = list(RequestLog.objects.values_list("method", "name", "outcome"))
    assert logged.count(("tools/call", kind, "ok")) <= 1, f"logged more than once: {logged}"
    if said == "done" and kind not in {"listen", "read"}:
        assert any(outcome == "ok" for _, _, outcome in logged), f"answered, not logged: {logged}"
    for caller in (site.ann, site.ben):
        assert text(caller.one(caller.modern, "write")) == "done", "the next call fails"
    assert text(site.ann.one(site.ann.legacy, "write")) == "done", "the next call of the session fails"
    if kind != "listen":
        assert getattr(site, kind)() == "done", "the next call of its kind fails"


AT_NIGHT = (pytest.mark.slow, pytest.mark.nightly)
"""The other sweeps take minutes: ``make test-all`` runs them, and the nightly workflow; see decision 31."""
FAST = {
    *(("limited", point) for point in ("statement", "commit", "start", "submit", "create_task", "cancelled", "cache")),
    *(("progress", point) for point in ("create_task", "send", "left", "withdrawn")),
    *(("ask_legacy", "create_task"), ("ask", "cancelled"), ("alimited", "submit"), ("listen", "cancelled")),
    *((kind, "acquire") for kind in ("ask_legacy", "work", "pay", "listen")),
}
"""Those that ``make test`` runs, in about ten seconds."""
SWEEPS = [
    pytest.param(kind, point, id=f"{kind}-{point}", marks=() if (kind, point) in FAST else AT_NIGHT)
    for kind in KINDS
    for point in POINTS
    if not (point == "withdrawn" and kind in UNWITHDRAWN)
]


@pytest.mark.parametrize(("kind", "point"), SWEEPS)
def test_the_next_call_works_wherever_one_failed(site: Site, kind: str, point: str) -> None:
    sweep(site, kind, point)
