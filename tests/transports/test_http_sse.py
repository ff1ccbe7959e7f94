"""The HTTP+SSE transport of 2024-11-05: a stream in one worker, and POSTs that may come to another."""

import asyncio
import importlib
import itertools
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import pytest
from django.core.checks import run_checks
from django.core.handlers.asgi import ASGIHandler
from django.test import Client as DjangoClient
from django.test import override_settings
from django.urls import Resolver404, clear_url_caches, resolve

import django_mcp.urls
from django_mcp import BaseAuthentication, Context, MCPServer, Principal, RequestHead, conf, resource, tool
from django_mcp.models import Call, Event, Session
from django_mcp.pubsub.follower import end_streams
from django_mcp.revisions.legacy import http_sse, streams
from django_mcp.transports.asgi import MCPApplication
from tests import referee
from tests.clients import no_django
from tests.exchange import Exchange, Received, Room, eventually, scope_of
from tests.transports.local import urls as urlconf

pytestmark = pytest.mark.postgresql

OLDEST = "2024-11-05"
ON = {"AUTHENTICATION": ["django_mcp.AllowAny"], "HTTP_SSE": True, "POLL_INTERVAL": 0.02}
FORM = {"elicitation": {"form": {}}}
YES = {"action": "accept", "content": {"confirm": True}}

Message = dict[str, Any]


@contextmanager
def site(**settings: Any) -> Iterator[None]:
    """The URLconf of a site with these settings."""

    def load() -> None:
        importlib.reload(django_mcp.urls)
        importlib.reload(urlconf)
        clear_url_caches()

    try:
        with override_settings(DJANGO_MCP=settings, ROOT_URLCONF=urlconf.__name__):
            load()
            yield
    finally:
        load()


class Worker(Room):
    """One event loop that serves the site, as a process does."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def to(self, verb: str, url: str, headers: Mapping[str, str] | None = None, body: bytes = b"") -> Exchange:
        exchange = Exchange()
        application = MCPApplication(no_django) if self.edge == "asgi" else ASGIHandler()
        scope = scope_of(verb, url, {"host": "testserver", **(headers or {})}, body)
        self.call(lambda: self._begin(application, exchange, scope, body))
        return exchange


class Listener:
    """A client: its stream is at one worker, and it POSTs to all of them in turn."""

    def __init__(
        self,
        workers: list[Worker],
        version: str = OLDEST,
        headers: Mapping[str, str] | None = None,
        path: str = "/test/mcp/sse",
    ) -> None:
        self.workers = itertools.cycle(reversed(workers))
        self.version = version
        self.headers = dict(headers or {})
        self.ids = itertools.count(1)
        self.methods: dict[Any, str] = {}
        self.heard: list[Message] = []
        self.stream = workers[0].to("GET", path, {"accept": "text/event-stream", **self.headers}).begun()
        first = self.stream.next()
        assert first is not None, self.stream.body
        assert first.event == "endpoint"
        self.address = first.data or ""

    def post(self, message: Any, address: str | None = None) -> Exchange:
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        headers = {"content-type": "application/json", **self.headers}
        return next(self.workers).to("POST", address or self.address, headers, body).done()

    def send(self, message: Any) -> None:
        answer = self.post(message)
        assert (answer.status, answer.body) == (202, b""), answer.body

    def begin(self, method: str, params: Message | None = None) -> int:
        request_id = next(self.ids)
        self.methods[request_id] = method
        self.send({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params or {}})
        return request_id

    def notify(self, method: str, **params: Any) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def next(self, wanted: Callable[[Message], bool]) -> Message:
        """The next message that is wanted; the others are kept."""
        for message in self.heard:
            if wanted(message):
                self.heard.remove(message)
                return message
        while (event := self.stream.next()) is not None:
            if event == Received(data=event.data, event="message"):
                message = json.loads(event.data or "")
                for each in message if isinstance(message, list) else [message]:
                    referee.check_any(each, self.methods.get(each.get("id"), ""), self.version)
                if wanted(message):
                    return message
                self.heard.append(message)
            else:
                assert event.is_comment, event
        raise AssertionError(f"the stream ended; {self.heard}")

    def answer(self, request_id: int) -> Message:
        return self.next(lambda each: "method" not in each and each.get("id") == request_id)

    def told(self, method: str) -> Message:
        return self.next(lambda each: each.get("method") == method)

    def request(self, method: str, params: Message | None = None) -> Message:
        return self.answer(self.begin(method, params))

    def call(self, name: str, /, **arguments: Any) -> str:
        return self.request("tools/call", {"name": name, "arguments": arguments})["result"]["content"][0]["text"]

    def initialize(self, capabilities: Mapping[str, Any] = FORM) -> Message:
        client = {"name": "tests", "version": "1"}
        params = {"protocolVersion": self.version, "capabilities": dict(capabilities), "clientInfo": client}
        result = self.request("initialize", params)["result"]
        self.notify("notifications/initialized")
        return result


@pytest.fixture(autouse=True)
def offered(server: MCPServer) -> None:
    @tool(server=server)
    def hurry() -> str:
        return "done"

    @tool(server=server)
    def count() -> int:
        return 3

    @tool(server=server)
    def who(ctx: Context) -> str:
        return f"{ctx.principal.id} {ctx.client.name}"

    @tool(server=server)
    async def report(ctx: Context) -> str:
        for done in (1, 2, 3):
            ctx.report_progress(done)
            ctx.log("error", f"step {done}")
        return "reported"

    @tool(server=server)
    async def wait(ctx: Context) -> str:
        ctx.log("error", "waiting")
        await asyncio.sleep(60)
        return "waited"

    @tool(server=server)
    def ask(ctx: Context) -> str:
        return f"{ctx.confirm('Sure?')} {ctx.confirm('Really?')}"

    @tool(server=server)
    async def let_go(ctx: Context) -> str:
        ctx.close_stream()
        ctx.log("error", "still here")
        return "here"

    @resource("test://watched", server=server)
    def watched() -> str:
        return "watched"


@pytest.fixture
def switched_on(server: MCPServer, open_database: None, offered: None) -> Iterator[None]:
    with site(**ON):
        yield


EDGES = [
    ("asgi", "view under asgi"),
    pytest.param(("asgi", "asgi"), marks=pytest.mark.slow),
    pytest.param(("view under asgi", "view under asgi"), marks=pytest.mark.slow),
]


@pytest.fixture(params=EDGES, ids=" and ".join)
def workers(request: pytest.FixtureRequest, server: MCPServer, switched_on: None) -> Iterator[list[Worker]]:
    """Two workers, of each kind of edge and of both."""
    with ExitStack() as stack:
        yield [stack.enter_context(Worker(server, edge)) for edge in request.param]


@pytest.fixture
def alone(server: MCPServer, switched_on: None) -> Iterator[Worker]:
    with Worker(server, "asgi") as worker:
        yield worker


# The handshake and calls


def test_the_first_event_says_where_to_post(workers: list[Worker]) -> None:
    addresses = [Listener(workers).address for _ in range(2)]
    for address in addresses:
        parts = urlsplit(address)
        assert (parts.scheme, parts.netloc, parts.path) == ("", "", "/test/mcp/messages")
        assert len(parse_qs(parts.query)["session_id"][0]) >= 32
    assert addresses[0] != addresses[1]


def test_a_final_slash_does_not_matter(alone: Worker) -> None:
    listener = Listener([alone], path="/test/mcp/sse/")
    listener.address = listener.address.replace("/messages?", "/messages/?")
    assert listener.call("hurry") == "done"


def test_answers_come_on_the_stream(workers: list[Worker]) -> None:
    listener = Listener(workers)
    result = listener.initialize()
    assert result["protocolVersion"] == OLDEST
    assert result["capabilities"]["tools"] == {"listChanged": True}
    assert {each["name"] for each in listener.request("tools/list")["result"]["tools"]} >= {"hurry", "ask"}
    assert [listener.call("hurry") for _ in range(3)] == ["done"] * 3
    assert listener.call("who") == "public tests"


@pytest.mark.parametrize("version", ["2025-11-25", "2025-06-18", "2025-03-26"])
def test_other_versions_may_be_spoken_over_it(alone: Worker, version: str) -> None:
    listener = Listener([alone], version)
    assert listener.initialize()["protocolVersion"] == version
    assert listener.call("report") == "reported"
    assert listener.call("let_go") == "here"
    (tool,) = [each for each in listener.request("tools/list")["result"]["tools"] if each["name"] == "count"]
    assert ("outputSchema" in tool) is (version >= "2025-06-18")


def test_a_handshake_without_a_version_is_refused_on_the_stream(alone: Worker) -> None:
    listener = Listener([alone])
    assert listener.request("initialize")["error"]["code"] == -32602
    assert listener.initialize()["protocolVersion"] == OLDEST


def test_a_batch_is_answered_in_the_one_version_that_has_them(alone: Worker) -> None:
    listener = Listener([alone], "2025-03-26")
    listener.initialize()
    listener.methods |= dict.fromkeys(("a", "b"), "ping")
    listener.send([{"jsonrpc": "2.0", "id": each, "method": "ping"} for each in ("a", "b")])
    batch = listener.next(lambda each: isinstance(each, list))
    assert [each["id"] for each in batch] == ["a", "b"]  # type: ignore[index]


def test_what_is_no_request_is_not_answered(alone: Worker) -> None:
    listener = Listener([alone])
    listener.initialize()
    listener.send({"jsonrpc": "2.0", "id": "never asked", "result": {}})
    listener.notify("notifications/nonsense")
    assert listener.call("hurry") == "done"
    assert listener.heard == []


# While a call runs


def test_what_a_call_says_comes_before_its_answer(workers: list[Worker]) -> None:
    listener = Listener(workers)
    listener.initialize()
    request_id = listener.begin("tools/call", {"name": "report", "_meta": {"progressToken": "p"}})
    assert "result" in listener.answer(request_id)
    kinds = [(each["method"], each["params"].get("progress", each["params"].get("data"))) for each in listener.heard]
    told = [(("notifications/progress", done), ("notifications/message", f"step {done}")) for done in (1, 2, 3)]
    assert kinds == [each for pair in told for each in pair]


def test_questions_come_one_after_the_other_and_any_worker_takes_the_answers(workers: list[Worker]) -> None:
    listener = Listener(workers, "2025-06-18")
    listener.initialize()
    request_id = listener.begin("tools/call", {"name": "ask"})
    asked = []
    for _ in range(2):
        question = listener.told("elicitation/create")
        asked.append(question["params"]["message"])
        listener.send({"jsonrpc": "2.0", "id": question["id"], "result": YES})
    assert asked == ["Sure?", "Really?"]
    assert listener.answer(request_id)["result"]["content"][0]["text"] == "True True"


def test_calls_run_beside_each_other(workers: list[Worker]) -> None:
    listener = Listener(workers)
    listener.initialize()
    slow = listener.begin("tools/call", {"name": "wait"})
    assert listener.call("hurry") == "done"
    assert not any(each.get("id") == slow for each in listener.heard)
    listener.notify("notifications/cancelled", requestId=slow)


def test_a_cancelled_call_is_never_answered(workers: list[Worker]) -> None:
    listener = Listener(workers)
    listener.initialize()
    slow = listener.begin("tools/call", {"name": "wait"})
    listener.told("notifications/message")
    listener.notify("notifications/cancelled", requestId=slow)
    eventually(lambda: Call.objects.filter(status=Call.Status.ENDED).exists(), "it goes on")
    assert listener.call("hurry") == "done"
    assert listener.heard == []


# Changes


def test_it_hears_of_changes_on_the_same_stream(workers: list[Worker], server: MCPServer) -> None:
    listener = Listener(workers)
    listener.initialize()

    def changed() -> bool:
        """It listens from soon after the handshake on, so the first change may come too early."""
        server.notify_list_changed("tools")
        listener.call("hurry")
        return any(each.get("method") == "notifications/tools/list_changed" for each in listener.heard)

    eventually(changed, "no change was heard")
    assert listener.request("resources/subscribe", {"uri": "test://watched"})["result"] == {}
    server.notify_resource_updated("test://other")
    server.notify_resource_updated("test://watched")
    assert listener.told("notifications/resources/updated")["params"]["uri"] == "test://watched"


def test_a_subscription_made_before_the_end_of_the_handshake_counts(alone: Worker, server: MCPServer) -> None:
    listener = Listener([alone])
    assert listener.request("resources/subscribe", {"uri": "test://watched"})["result"] == {}
    listener.notify("notifications/initialized")

    def updated() -> bool:
        server.notify_resource_updated("test://watched")
        listener.call("hurry")
        return any(each.get("method") == "notifications/resources/updated" for each in listener.heard)

    eventually(updated, "no change was heard")


def test_the_end_of_the_handshake_is_stored_once(workers: list[Worker]) -> None:
    listener = Listener(workers)
    listener.initialize()
    for _ in range(5):
        listener.notify("notifications/initialized")
    assert listener.call("hurry") == "done"
    assert Event.objects.filter(topic__startswith="sse:", data="initialized").count() == 1


# Sessions


def test_the_session_ends_with_the_stream(workers: list[Worker]) -> None:
    listener = Listener(workers)
    listener.initialize()
    assert Session.objects.count() == 1
    listener.stream.leave()
    eventually(lambda: not Session.objects.exists(), "the session is still there")
    assert not Event.objects.filter(data__contains="serverInfo").exists(), "what was said is still there"
    assert listener.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}).status == 404


def test_a_call_is_stopped_when_its_client_has_gone(workers: list[Worker]) -> None:
    listener = Listener(workers)
    listener.initialize()
    listener.begin("tools/call", {"name": "wait"})
    listener.told("notifications/message")
    listener.stream.leave()
    eventually(lambda: sum(worker.tasks for worker in workers) == 0, "something still runs")


def test_the_stream_ends_when_the_server_goes_down(alone: Worker) -> None:
    listener = Listener([alone])
    listener.initialize()
    alone.call(end_streams)
    listener.stream.done()
    eventually(lambda: not Session.objects.exists(), "the session is still there")


def test_the_stream_ends_when_its_session_is_gone(server: MCPServer, open_database: None) -> None:
    with site(**ON, KEEP_ALIVE_INTERVAL=0.05), Worker(server, "asgi") as worker:
        listener = Listener([worker])
        Session.objects.all().delete()
        listener.stream.done()


def test_a_caller_with_too_many_open_streams_is_refused_another(server: MCPServer, open_database: None) -> None:
    with site(**ON, MAX_STREAMS_PER_CALLER=1), Worker(server, "asgi") as worker:
        listener = Listener([worker])
        listener.initialize()  # which opens the stream of changes in this one: no further one
        refused = worker.to("GET", "/test/mcp/sse", {"accept": "text/event-stream"}).done()
        assert refused.status == 429
        assert Session.objects.count() == 1


def test_a_call_that_asks_beyond_the_limit_ends_with_an_error(server: MCPServer, open_database: None) -> None:
    with site(**ON, MAX_STREAMS_PER_CALLER=2), Worker(server, "asgi") as worker:
        listener = Listener([worker], "2025-06-18")
        listener.initialize()
        asked = [listener.begin("tools/call", {"name": "ask", "arguments": {}}) for _ in range(2)]
        questions = [listener.told("elicitation/create") for _ in asked]
        refused = listener.request("tools/call", {"name": "ask", "arguments": {}})
        assert refused["error"]["message"].startswith("You have 2 open streams, the maximum.")
        eventually(lambda: Call.objects.filter(status=Call.Status.ASKING).count() == 2, "the refused call still waits")
        for question in questions:
            listener.send({"jsonrpc": "2.0", "id": question["id"], "result": YES})
        assert listener.call("hurry") == "done"


def test_an_idle_stream_keeps_itself_and_its_session_alive(server: MCPServer, open_database: None) -> None:
    with site(**ON, KEEP_ALIVE_INTERVAL=0.05, SESSION_TTL=2), Worker(server, "asgi") as worker:
        listener = Listener([worker])
        seen = set()
        eventually(lambda: seen.update(Session.objects.values_list("expires")) or len(seen) > 2, "it expires")
        event = listener.stream.next()
        assert event is not None
        assert event.is_comment


def test_a_post_without_a_known_session_is_404(workers: list[Worker], subtests: pytest.Subtests) -> None:
    for query in ["", "?session_id=", "?session_id=unknown", "?sessionId=x"]:
        with subtests.test(query=query):
            listener = Listener(workers)
            answer = listener.post({"jsonrpc": "2.0", "id": 7, "method": "ping"}, "/test/mcp/messages" + query)
            assert answer.status == 404
            assert answer.json["error"]["code"] == -32600
            assert answer.json["id"] == 7


class ByName(BaseAuthentication):
    """Takes everybody's word for who they are."""

    blocking = True

    def authenticate(self, head: RequestHead, server: object) -> Principal | None:
        name = head.headers.get("x-name")
        return Principal("named", name, SimpleNamespace()) if name else None


def test_a_session_is_its_callers_alone(make_server: Callable[..., MCPServer], open_database: None) -> None:
    named = make_server("named", authentication=[ByName()])
    make_server("other", authentication=[ByName()])
    tool(server=named, name="hurry")(lambda: "done")
    with site(**ON), Worker(named, "asgi") as worker:
        ada = Listener([worker], headers={"x-name": "ada"}, path="/named/mcp/sse")
        eve = Listener([worker], headers={"x-name": "eve"}, path="/named/mcp/sse")
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        assert eve.post(ping, ada.address).status == 404
        assert ada.post(ping, ada.address.replace("/named/", "/other/")).status == 404
        assert ada.call("hurry") == "done"
        assert worker.to("GET", "/named/mcp/sse").done().status == 401
        assert worker.to("POST", ada.address, {"content-type": "application/json"}, b"{}").done().status == 401


# The gate


def test_foreign_hosts_and_origins_are_refused(workers: list[Worker], subtests: pytest.Subtests) -> None:
    for verb, url in [("GET", "/test/mcp/sse"), ("POST", "/test/mcp/messages?session_id=x")]:
        with subtests.test(verb=verb, url=url):
            for worker in workers:
                assert worker.to(verb, url, {"origin": "https://evil.example"}).done().status == 403
                assert worker.to(verb, url, {"host": "evil.example"}).done().status == 400


def test_each_url_has_one_verb(workers: list[Worker], subtests: pytest.Subtests) -> None:
    """Newer clients find out with a POST that this is the older transport."""
    for verb, url, allowed in [
        ("POST", "/test/mcp/sse", "GET, OPTIONS"),
        ("DELETE", "/test/mcp/sse", "GET, OPTIONS"),
        ("GET", "/test/mcp/messages", "POST, OPTIONS"),
    ]:
        with subtests.test(verb=verb, url=url, allowed=allowed):
            for worker in workers:
                answer = worker.to(verb, url, {"content-type": "application/json"}, b"{}").done()
                assert (answer.status, answer.headers["allow"]) == (405, allowed)
                assert f"use {allowed.partition(',')[0]} to" in answer.json["error"]["message"]


def test_what_is_no_message_is_refused_at_once(workers: list[Worker], subtests: pytest.Subtests) -> None:
    for body, status in [(b"nonsense", 400), (b'"text"', 400), (b"x" * 5_000_000, 413)]:
        with subtests.test(body=body, status=status):
            listener = Listener(workers)
            assert listener.post(body).status == status
            assert listener.call("hurry") == "done"


def test_under_wsgi_it_says_that_it_cannot_be_served(switched_on: None) -> None:
    for verb, url in (("GET", "/test/mcp/sse"), ("POST", "/test/mcp/messages?session_id=x")):
        answer = DjangoClient().generic(verb, url, b"{}", content_type="application/json")
        assert answer.status_code == 405
        assert "ASGI" in answer.json()["error"]["message"]
    assert Session.objects.count() == 0


def test_below_a_root_path_the_address_is_too(alone: Worker) -> None:
    exchange = Exchange()
    scope = {**scope_of("GET", "/app/test/mcp/sse", {"host": "testserver"}, b""), "root_path": "/app"}
    alone.call(lambda: alone._begin(MCPApplication(no_django), exchange, scope, b""))
    event = exchange.begun().next()
    assert event is not None
    assert (event.data or "").startswith("/app/test/mcp/messages?session_id=")


# Off, unless it is wanted


def test_without_the_setting_there_are_no_such_urls(server: MCPServer, subtests: pytest.Subtests) -> None:
    for path in ["/test/mcp/sse", "/test/mcp/messages"]:
        for settings in [{}, {"HTTP_SSE": False}]:
            with subtests.test(settings=settings, path=path), site(AUTHENTICATION=["django_mcp.AllowAny"], **settings):
                assert resolve("/test/mcp")
                with pytest.raises(Resolver404):
                    resolve(path)
                with Worker(server, "asgi") as worker:
                    assert worker.to("GET", path).done().body == b"this is Django"


def test_the_setting_is_true_or_false(subtests: pytest.Subtests) -> None:
    for value in [1, "yes", None]:
        own = {"AUTHENTICATION": ["django_mcp.AllowAny"], "HTTP_SSE": value}
        with subtests.test(value=value), override_settings(DJANGO_MCP=own):
            (finding,) = [each for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.E003"]
            assert finding.msg == f"DJANGO_MCP['HTTP_SSE'] must be True or False, not {value!r}."
            assert conf.settings.HTTP_SSE is False


# What should not happen


def test_what_nobody_expected_is_answered_and_logged(
    alone: Worker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    listener = Listener([alone])

    async def fail(_: Any) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(http_sse.REVISION, "serve", fail, raising=False)
    with caplog.at_level(logging.ERROR, "django_mcp"):
        listener.notify("notifications/nonsense")
        error = listener.request("tools/call", {"name": "hurry"})["error"]
        listener.request("tools/call", {"name": "hurry"})
    assert listener.heard == []
    assert "secret" not in error["message"]
    assert "RuntimeError: secret" in caplog.text
    reference = error["message"].rpartition(" ")[2].rstrip(".")
    assert reference in caplog.text


def test_a_stream_that_cannot_be_read_ends_all_of_it(
    alone: Worker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A client that misses messages must notice; it connects again."""

    async def broken(*_: object) -> Any:
        raise RuntimeError("no more")
        yield

    listener = Listener([alone])
    listener.initialize()
    monkeypatch.setattr(streams, "tail", broken)
    listener.begin("tools/call", {"name": "report"})
    listener.stream.done()
    assert "an HTTP+SSE stream failed" in caplog.text
