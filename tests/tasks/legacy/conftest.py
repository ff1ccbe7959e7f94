"""An endpoint whose tools have tasks, and clients of 2025-11-25 that use them."""

from collections.abc import Callable, Iterator

import pytest
from django.contrib.auth.models import AnonymousUser
from django.contrib.contenttypes.models import ContentType

from django_mcp import BaseAuthentication, Context, MCPServer, Principal, RequestHead, ToolError, tool
from django_mcp.models import OVER, Task
from django_mcp.protocol.errors import InvalidParams
from tests.clients import LEGACY
from tests.conversation import Conversation
from tests.exchange import Room
from tests.tasks.legacy.work import NAMES, Work


class Named(BaseAuthentication):
    """Everybody is who they say they are."""

    blocking = False

    def authenticate(self, head: RequestHead, server: object) -> Principal:
        return Principal("test", head.headers.get("x-caller", "somebody"), AnonymousUser())


@pytest.fixture
def work(open_database: None) -> Iterator[Work]:
    """What the tools wait for. At the end nothing runs any more, and nothing is left."""
    work = Work()
    yield work
    work.end()
    Task.objects.exclude(status__in=OVER).update(status=Task.Status.CANCELLED)
    work.wait_until_idle()
    Task.objects.all().delete()
    ContentType.objects.filter(app_label="made_by_a_task").delete()


@pytest.fixture
def server(make_server: Callable[..., MCPServer], work: Work) -> MCPServer:
    server = make_server(authentication=[Named()])
    add_tools(server, work)
    return server


def add_tools(server: MCPServer, work: Work) -> None:
    """Tools of each kind."""
    add_quick_tools(server)
    add_slow_tools(server, work)


def add_quick_tools(server: MCPServer) -> None:
    @tool(server=server, read_only=True)
    def hello() -> str:
        return "Hello."

    @tool(server=server, read_only=True, task="optional")
    def add(a: int, b: int) -> int:
        return a + b

    @tool(server=server, read_only=True, task="required")
    def dig(depth: int) -> str:
        return f"{depth} deep"

    @tool(server=server, read_only=True, task="optional")
    def fail(how: str) -> str:
        if how == "tool":
            raise ToolError("There is no such year.")
        raise InvalidParams("Not like this.", {"like": "that"})


def add_slow_tools(server: MCPServer, work: Work) -> None:
    @tool(server=server, read_only=True, task="optional")
    def wait(ctx: Context, steps: int = 1) -> str:
        """Tells how far it is, and ends when it may."""
        with work.running():
            for step in range(steps):
                work.until(work.may_go_on, ctx)
                work.may_go_on.clear()
                ctx.log("info", f"This is step {step + 1}.")
                ctx.report_progress(step + 1, steps, f"Step {step + 1}")
            work.until(work.may_end, ctx)
            return "waited"

    @tool(server=server, task="optional")
    def write(ctx: Context) -> str:
        """Writes, and ends when it may. Until then it may hold the one lock that there is."""
        with work.running():
            ContentType.objects.create(app_label="made_by_a_task", model="row")
            work.until(work.may_end, ctx)
            return "written"

    @tool(server=server, read_only=True, task="optional")
    def ask(ctx: Context, again: bool = False) -> str:
        """Asks, perhaps again, and ends when it may."""
        with work.running():
            first = ctx.elicit("Who are you?", NAMES, key="name")
            if not first.accepted:
                return f"{first.action}: nobody"
            names = [first.data["name"]]
            if again:
                names.append(ctx.elicit("And who else?", NAMES, key="other").data["name"])
            if work.holds_ask:
                work.until(work.may_end, ctx)
            return " and ".join(names)


@pytest.fixture
def room(server: MCPServer, edge: str) -> Iterator[Room]:
    with Room(server, edge) as room:
        yield room


@pytest.fixture
def talk(room: Room) -> Conversation:
    """Somebody's session."""
    return Conversation(room, LEGACY)


@pytest.fixture
def other(room: Room) -> Conversation:
    """Somebody else's."""
    return Conversation(room, LEGACY, headers={"x-caller": "somebody else"})


@pytest.fixture
def sessionless(room: Room) -> Conversation:
    """Requests of the same caller without a session."""
    return Conversation(room, LEGACY, opened=True)
