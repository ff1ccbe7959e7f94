"""Tools that take all threads of the site's code, together with calls, keys, sessions and streams that need none."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.db import connection
from django.utils import timezone

from django_mcp import AllowAny, Context, MCPServer, ToolError, prompt, resource, tool
from django_mcp.auth.api_keys import APIKeyAuthentication, create_key
from django_mcp.auth.base import RequestHead
from django_mcp.conf import settings
from django_mcp.core.concurrency import async_threads, checks_pool, free_pool, shared_pool
from django_mcp.core.principal import Principal
from django_mcp.primitives.output import Output
from tests.clients import LEGACY, MODERN
from tests.conversation import Conversation, accept
from tests.exchange import WITHIN, Room, eventually

KEY = "django-mcp/idempotencyKey"
YES = accept(confirm=True)

pytestmark = [pytest.mark.postgresql, pytest.mark.parametrize("edge", ["asgi"])]


@dataclass
class Leg:
    to: str
    then: Any = None


class ByThread(APIKeyAuthentication):
    """A site's own, which may be as slow as it likes."""

    threads: list[str]

    def authenticate(self, head: RequestHead, server: MCPServer) -> Principal | None:
        self.threads.append(threading.current_thread().name)
        return super().authenticate(head, server)


@pytest.fixture
def ada(open_database: None) -> Iterator[User]:
    user = User.objects.create(username="ada")
    yield user
    user.delete()


@pytest.fixture
def server(make_server: Callable[..., MCPServer]) -> MCPServer:
    server = make_server("guarded", authentication=[APIKeyAuthentication()])

    @tool(server=server)
    async def ask(ctx: Context) -> str:
        """Ask, then look."""
        return f"{ctx.confirm('Sure?')}, {await Group.objects.acount() >= 0}"

    @tool(server=server)
    async def look() -> str:
        """Look."""
        return str(await Group.objects.acount() >= 0)

    @tool(server=server)
    async def route(round_trip: bool = False) -> Any:
        """Return records."""
        leg = Leg("") if round_trip else Leg("Rome", Leg("Oslo"))
        leg.then = leg if round_trip else leg.then
        return leg

    return server


@pytest.fixture
def room(server: MCPServer, edge: str, open_database: None) -> Iterator[Room]:
    with Room(server, edge) as room:
        yield room


@pytest.fixture
def headers(ada: User) -> dict[str, str]:
    return {"x-api-key": create_key(ada, "job", endpoints=["guarded"])[1]}


@pytest.fixture
def all_threads_taken(open_database: None) -> Iterator[None]:
    """By tools that take long."""
    gate, together = threading.Event(), threading.Barrier(settings.WORKER_THREADS + 1)
    for _ in range(settings.WORKER_THREADS):
        shared_pool().post(lambda: (together.wait(WITHIN), gate.wait(4 * WITHIN)))
    together.wait(WITHIN)
    yield
    gate.set()


@pytest.mark.usefixtures("all_threads_taken")
@pytest.mark.parametrize("version", [MODERN, LEGACY])
def test_keys_sessions_and_async_tools_do_not_wait_for_them(room: Room, headers: dict[str, str], version: str) -> None:
    talk = Conversation(room, version, headers=headers)
    assert talk.call("look").text == "True"
    assert [talk.call("look", meta={KEY: "k"}).text for _ in range(2)] == ["True", "True"]
    assert talk.call("ask", answers=[YES]).text == "True, True"
    assert '"to":"Oslo"' in talk.call("route").text


@contextmanager
def of_site(request: Any) -> Iterator[None]:
    yield


def may_look(context: Any) -> bool:
    return Group.objects.count() >= 0


async def names(value: str) -> list[str]:
    return [f"{value}{await Group.objects.acount() >= 0}"]


@pytest.fixture
def site(make_server: Callable[..., MCPServer]) -> MCPServer:
    """An endpoint where the site's code says who calls, what there is for whom, and how often."""
    ByThread.threads = []
    server = make_server("guarded", authentication=[ByThread()], user_passes_test=lambda user: user.is_active)
    rights: Any = {"visible": may_look, "permission": "auth.view_group"}

    @tool(server=server, rate_limit="100/h", **rights)
    async def look(groups: list[int] = []) -> str:  # noqa: B006
        """Look."""
        return str(await Group.objects.acount() >= 0)

    @tool(server=server)
    async def look_at_much() -> list[str]:
        """Look at much."""
        return ["row"] * 100_000

    @tool(server=server)
    async def look_at_rows() -> Any:
        """Look at rows."""
        return Group.objects.values("pk")

    @tool(server=server)
    async def fail() -> str:
        """Fail."""
        raise LookupError("lost")

    @tool(server=server, task="required", **rights)
    def work() -> str:
        """Work."""
        return "worked"

    @prompt(server=server, completions={"topic": names}, **rights)
    async def ask(topic: str) -> str:
        """Ask."""
        return f"Tell me of {topic}."

    @resource("note://{name}", server=server, mime_type="text/plain", **rights)
    async def note(name: str) -> str:
        """A note."""
        return name * 100_000

    return server


TASKS = "io.modelcontextprotocol/tasks"


@pytest.mark.usefixtures("all_threads_taken")
@pytest.mark.parametrize("version", [MODERN, LEGACY])
@pytest.mark.parametrize("managers", [[], [of_site]], ids=["", "managers"])
def test_what_a_site_decides_does_not_wait_for_them(
    site: MCPServer, ada: User, edge: str, version: str, managers: list[Any], settings: Any
) -> None:
    more = {"CALL_CONTEXT_MANAGERS": managers, "EXCEPTION_HANDLER": f"{__name__}.tell", "MAX_OUTPUT_CHARS": 1000}
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, **more}
    ada.user_permissions.add(Permission.objects.get(codename="view_group"))
    key = create_key(ada, "job", endpoints=["guarded"])[1]
    with Room(site, edge) as room:
        talk = Conversation(room, version, headers={"x-api-key": key}, capabilities={"extensions": {TASKS: {}}})
        for method in ("tools/list", "prompts/list", "resources/templates/list"):
            assert talk.request(method).result
        assert talk.call("look", groups=[1] * 50_000).text == "True"
        assert "1,000" in talk.call("look_at_much").text
        assert talk.call("look_at_rows").result
        assert talk.call("fail").text == "told: lost"
        assert talk.request("prompts/get", {"name": "ask", "arguments": {"topic": "x"}}).result
        assert talk.request("resources/read", {"uri": "note://a"}).result
        asked = {"ref": {"type": "ref/prompt", "name": "ask"}, "argument": {"name": "topic", "value": "a"}}
        assert talk.request("completion/complete", asked).result["completion"]["values"] == ["aTrue"]
        assert read_task(talk, version) == "worked"


def tell(error: Exception, context: Any) -> ToolError:
    return ToolError(f"told: {error}")


def read_task(talk: Conversation, version: str) -> str:
    """Call the tool as a task, and return the text of its result."""
    if version == MODERN:
        task_id = talk.call("work").result["taskId"]
        found = eventually(lambda: talk.request("tasks/get", {"taskId": task_id}).result.get("result"))
    else:
        made = talk.request("tools/call", {"name": "work", "arguments": {}, "task": {}}).result["task"]
        assert talk.request("tasks/list").result["tasks"]
        assert talk.request("tasks/get", {"taskId": made["taskId"]}).result
        found = talk.request("tasks/result", {"taskId": made["taskId"]}).result
    return str(found["content"][0]["text"])


def test_records_without_an_end_are_an_error_and_hold_up_nobody(room: Room, headers: dict[str, str]) -> None:
    talk = Conversation(room, MODERN, headers=headers)
    assert talk.call("route", round_trip=True).result["isError"]
    assert talk.call("look").text == "True"


@pytest.mark.usefixtures("all_threads_taken")
def test_a_key_that_was_revoked_is_refused_at_once(room: Room, headers: dict[str, str], ada: User) -> None:
    talk = Conversation(room, MODERN, headers=headers)
    assert talk.call("look").text == "True"
    ada.mcp_api_keys.all().delete()
    assert talk.begin_call("look").exchange.done().status == 401


@pytest.mark.usefixtures("all_threads_taken")
def test_streams_hear_of_changes(room: Room, server: MCPServer, headers: dict[str, str]) -> None:
    talk = Conversation(room, MODERN, headers=headers)
    stream = talk.begin("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    assert "acknowledged" in stream.next()["method"]
    server.notify_list_changed("tools")
    assert stream.next()["method"] == "notifications/tools/list_changed"
    stream.exchange.leave()


@pytest.mark.usefixtures("all_threads_taken")
def test_a_stream_of_a_key_that_was_revoked_in_sql_ends(
    room: Room, headers: dict[str, str], ada: User, settings: Any
) -> None:
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "KEEP_ALIVE_INTERVAL": 0.1}
    stream = Conversation(room, MODERN, headers=headers).begin(
        "subscriptions/listen", {"notifications": {"toolsListChanged": True}}
    )
    assert "acknowledged" in stream.next()["method"]
    ada.mcp_api_keys.update(revoked=timezone.now())
    stream.exchange.done()


def test_a_site_s_own_class_runs_beside_its_tools(make_server: Callable[..., MCPServer], edge: str, ada: User) -> None:
    ByThread.threads = []
    server = make_server("own", authentication=[ByThread()])
    tested: list[str] = []
    guarded = make_server(
        "tested",
        authentication=[APIKeyAuthentication()],
        user_passes_test=lambda _: bool(tested.append(threading.current_thread().name)) or True,
    )
    _, key = create_key(ada, "job", endpoints=["own", "tested"])
    for each in (server, guarded):
        tool(server=each, name="look", read_only=True)(lambda: threading.current_thread().name)
        with Room(each, edge) as room:
            talk = Conversation(room, MODERN, headers={"x-api-key": key})
            assert talk.call("look").text.startswith("django-mcp-worker-")
    assert [name.rpartition("-")[0] for name in ByThread.threads + tested] == ["django-mcp-checks"] * 2


def connections_of() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        return int(cursor.fetchone()[0])


def test_a_mix_of_calls_has_as_many_threads_and_connections_as_the_page_on_scaling_says(
    make_server: Callable[..., MCPServer], edge: str, call_log: Any
) -> None:
    """Thirty async calls at once, thirty others, and what the package reads and writes for them."""
    server = make_server("mixed", authentication=[AllowAny()])

    @tool(server=server, read_only=True)
    async def look_async() -> int:
        """Look."""
        return await Group.objects.acount()

    @tool(server=server, read_only=True)
    def look() -> int:
        """Look."""
        return Group.objects.count()

    for pool in (shared_pool(), checks_pool(), free_pool(), async_threads()):
        pool.close()
    before = connections_of() if connection.vendor == "postgresql" else 0
    with Room(server, edge) as room:
        talk = Conversation(room, LEGACY).open()
        calls = [talk.begin_call(name) for _ in range(30) for name in ("look", "look_async")]
        for call in calls:
            assert "result" in call.next()
    names = [thread.name for thread in threading.enumerate() if thread.name.startswith("django-mcp-")]
    counts = Counter(name.split("-")[2] for name in names)
    assert counts["worker"] <= settings.WORKER_THREADS
    assert counts["own"] <= 2
    assert 1 <= counts["async"] <= settings.WORKER_THREADS
    assert counts["log"] == 1
    if connection.vendor == "postgresql":
        assert connections_of() - before <= 2 * settings.WORKER_THREADS + 3


def test_a_large_result_of_an_async_tool_is_encoded_beside_the_event_loop(
    make_server: Callable[..., MCPServer], edge: str, open_database: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is encoded before its size is known, and other calls must not wait for that."""
    server, threads, fields = make_server("large"), [], Output.fields

    def noted(*arguments: Any) -> dict[str, Any]:
        threads.append(threading.current_thread().name)
        return fields(*arguments)

    monkeypatch.setattr(Output, "fields", noted)

    @tool(server=server, read_only=True)
    async def rows() -> list[str]:
        return ["row"] * 100_000

    @tool(server=server, read_only=True)
    async def short() -> str:
        return "row"

    with Room(server, edge) as room:
        talk = Conversation(room, MODERN)
        assert "so it was not sent" in talk.call("rows").text
        assert talk.call("short").text == "row"
    of_rows, of_short = threads
    assert of_rows.startswith("django-mcp-checks-")
    assert not of_short.startswith("django-mcp-"), "a short text is not worth a thread"
