"""The way of a ``tools/call`` through the package is short: so many calls, so many files."""

import asyncio
import json
import math
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any

import pytest
from django.contrib.auth.models import User

from django_mcp import MCPServer, tool
from django_mcp.audit import otel
from django_mcp.audit.writer import log_pool
from django_mcp.auth.api_keys import APIKeyAuthentication, create_key
from django_mcp.core.concurrency import Pool
from django_mcp.models import RequestLog
from django_mcp.transports import asgi
from django_mcp.transports.asgi import MCPApplication
from tests.clients import LEGACY, MODERN, Client, exchange, no_django
from tests.design.sources import ROOT

MAX_CALLS = 49
# 10 is the aim: a layer is a file or two, the way back to the client is two more, who calls is one.
MAX_FILES = 17
# With the request log on, as it is by default: 80 and 14 are the aim.
MAX_LOGGED_CALLS = 97
MAX_LOGGED_FILES = 23
# With an API key as well, 100 and 20 are the aim. Decision 72 says what remains, and what it buys.
MAX_KEYED_CALLS = 120
MAX_KEYED_FILES = 25
# And in a session.
MAX_SESSION_CALLS = 139
MAX_SESSION_FILES = 26
WARM_UP = 3
SETTLING_SECONDS = 0.02
"""For what threads do after they have given their results."""


class Counter:
    """Counts calls of the package's functions in all threads started since it was made, while it is on.

    Attributes:
        calls: file and name of each function called.
        resumed: the same of each coroutine that went on after it had waited, which the interpreter reports alike.
    """

    def __init__(self) -> None:
        self.on = False
        self.calls: list[tuple[str, str]] = []
        self.resumed: list[tuple[str, str]] = []
        self._frames: set[FrameType] = set()

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> None:
        if self.on and event == "call":
            file = frame.f_code.co_filename
            if file.startswith(f"{ROOT}/"):
                events = self.resumed if frame in self._frames else self.calls
                events.append((file.removeprefix(f"{ROOT}/"), frame.f_code.co_qualname))
                self._frames.add(frame)


@pytest.fixture
def counter() -> Iterator[Counter]:
    counter = Counter()
    previous = sys.getprofile()
    threading.setprofile(counter)
    sys.setprofile(counter)
    yield counter
    sys.setprofile(previous)
    threading.setprofile(None)  # type: ignore[arg-type]


async def add_async(a: int, b: int = 1) -> int:
    """Add."""
    return a + b


def add_sync(a: int, b: int = 1) -> int:
    """Add."""
    return a + b


WarmCall = Callable[..., tuple[int, int]]
"""Calls a function as a tool; gives how many calls and files that took."""


@pytest.fixture
def warm_call(
    server: MCPServer,
    counter: Counter,
    open_database: None,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> WarmCall:
    pool = Pool(1)  # whose thread is started under the counter's eyes
    monkeypatch.setattr(asgi, "shared_pool", lambda: pool)
    log_pool().close()  # likewise, when a row is written
    otel.wanted.look()
    monkeypatch.setattr(otel.wanted, "due", math.inf)  # it is looked at once in a second, so not by most calls

    def call(
        function: Any,
        version: str,
        site: MCPServer = server,
        credential: Mapping[str, str] = {},
        *,
        in_session: bool = False,
    ) -> tuple[int, int]:
        tool(server=site)(function)
        client = Client(site, version, "asgi")
        application, path = MCPApplication(no_django), f"/{site.path}"

        own = dict(credential)

        def prepare(method: str = "tools/call", **params: Any) -> tuple[dict[str, str], bytes]:
            params = params or {"name": function.__name__, "arguments": {"a": 1}}
            message, headers = client.compose(method, params)
            kinds = {**own, "content-type": "application/json", "accept": "application/json, text/event-stream"}
            return {**kinds, **headers, "host": "testserver"}, json.dumps(message, separators=(",", ":")).encode()

        async def calls() -> Any:
            if in_session:
                info = {"name": "tests", "version": "1"}
                hello = {"protocolVersion": version, "capabilities": {}, "clientInfo": info}
                opened = await exchange(application, "POST", path, *prepare("initialize", **hello))
                own["mcp-session-id"] = opened.headers["mcp-session-id"]
            for _ in range(WARM_UP):
                await exchange(application, "POST", path, *prepare())
            headers, body = prepare()
            await asyncio.sleep(SETTLING_SECONDS)
            counter.on = True
            answer = await exchange(application, "POST", path, headers, body)
            await asyncio.sleep(SETTLING_SECONDS)
            counter.on = False
            return answer

        answer = asyncio.run(calls())
        pool.close()
        assert answer.result["structuredContent"] == client.as_sent(2)
        files = sorted({file for file, _ in counter.calls})
        record_property("calls", len(counter.calls))
        record_property("resumed", len(counter.resumed))
        record_property("files", len(files))
        figures = f"{len(counter.calls)} calls, {len(counter.resumed)} coroutines resumed, {len(files)} files"
        print(f"{function.__name__} {version}: {figures}")  # noqa: T201
        print("  " + "\n  ".join(f"{file}: {name}" for file, name in counter.calls))  # noqa: T201
        assert ("core/dispatch.py", "call_tool") in counter.calls, "the counter was on while the tool was called"
        return len(counter.calls), len(files)

    return call


@pytest.mark.parametrize("version", [MODERN, LEGACY])
@pytest.mark.parametrize("function", [add_async, add_sync])
def test_a_warm_call_of_a_tool_takes_few_calls_through_few_files(
    warm_call: WarmCall, function: Any, version: str
) -> None:
    calls, files = warm_call(function, version)
    assert calls <= MAX_CALLS
    assert files <= MAX_FILES


@pytest.mark.parametrize("version", [MODERN, LEGACY])
@pytest.mark.parametrize("function", [add_async, add_sync])
def test_and_not_many_more_with_the_request_log_on(
    call_log: Callable[[], list[RequestLog]], warm_call: WarmCall, function: Any, version: str
) -> None:
    calls, files = warm_call(function, version)
    assert len(call_log()) == WARM_UP + 1, "each call has its row"
    assert calls <= MAX_LOGGED_CALLS
    assert files <= MAX_LOGGED_FILES


@pytest.fixture
def keyed(make_server: Callable[..., MCPServer]) -> Iterator[tuple[MCPServer, Mapping[str, str]]]:
    """An endpoint with the header of an API key that opens it."""
    server = make_server("guarded", authentication=[APIKeyAuthentication()])
    user = User.objects.create(username="ada")
    yield server, {"x-api-key": create_key(user, "job", endpoints=["guarded"])[1]}
    user.delete()


@pytest.mark.parametrize("version", [MODERN, LEGACY])
@pytest.mark.parametrize("function", [add_async, add_sync])
def test_nor_with_an_api_key(
    call_log: Callable[[], list[RequestLog]],
    keyed: tuple[MCPServer, Mapping[str, str]],
    warm_call: WarmCall,
    function: Any,
    version: str,
) -> None:
    """As calls of a server in use are."""
    server, key = keyed
    calls, files = warm_call(function, version, server, key)
    assert len(call_log()) == WARM_UP + 1, "each call has its row"
    assert calls <= MAX_KEYED_CALLS
    assert files <= MAX_KEYED_FILES


@pytest.mark.parametrize("function", [add_async, add_sync])
def test_nor_in_a_session_of_its_caller(
    call_log: Callable[[], list[RequestLog]],
    keyed: tuple[MCPServer, Mapping[str, str]],
    warm_call: WarmCall,
    function: Any,
) -> None:
    """As calls of an older client are."""
    server, key = keyed
    calls, files = warm_call(function, LEGACY, server, key, in_session=True)
    assert len(call_log()) == WARM_UP + 1, "each call has its row"
    assert calls <= MAX_SESSION_CALLS
    assert files <= MAX_SESSION_FILES
