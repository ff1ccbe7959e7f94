"""The official Python client over HTTP+SSE, with a server in one process and in two."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import pytest
from mcp import types
from mcp.client import Client
from mcp.client.sse import sse_client

from tests.conformance.prepared import prepare
from tests.lanes import at_night
from tests.real_clients.sites import Site, manage
from tests.transports.pipes import LOCAL, until

T = TypeVar("T")

# The library warns that this transport is of yesterday, which is why it is tried here.
pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")


class Elsewhere(httpx2.AsyncHTTPTransport):
    """Sends POSTs to another port, as a load balancer may."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self.port = port

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method == "POST":
            request.url = request.url.copy_with(port=self.port)
        return await super().handle_async_request(request)


@dataclass
class Person:
    """Who sits at the client. The stream is at one process, the POSTs go to another, or to the same."""

    holder: Site
    other: Site
    asked: list[str] = field(default_factory=list)
    told: list[Any] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def use(self, work: Callable[[Client], Awaitable[T]], **options: Any) -> T:
        def http(headers: Any = None, timeout: Any = None, auth: Any = None) -> httpx2.AsyncClient:
            transport = Elsewhere(self.other.port)
            return httpx2.AsyncClient(headers=headers, timeout=timeout, auth=auth, transport=transport)

        async def main() -> T:
            transport = sse_client(f"{self.holder.url}/sse", httpx_client_factory=http)
            async with Client(transport, mode="legacy", read_timeout_seconds=30, **options) as client:
                return await asyncio.wait_for(work(client), 60)

        return asyncio.run(main())

    async def elicit(self, context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        self.asked.append(params.message)
        return types.ElicitResult(action="accept", content={"name": "Ada", "color": "green"})

    async def hear(self, message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self.changed.set()

    async def read(self, params: types.LoggingMessageNotificationParams) -> None:
        self.told.append(params.data)


@pytest.fixture(scope="module")
def local_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("local") / "local.sqlite3"
    prepare(path, "tables of LOCAL", lambda file: manage(file, "migrate", "--verbosity", "0", project=LOCAL))
    return path


@pytest.fixture(scope="module")
def processes(local_database: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Site]]:
    logs = tmp_path_factory.mktemp("logs")
    sites = {name: Site(name, local_database, logs / name, LOCAL) for name in ("uvicorn", "daphne")}
    started: list[Site] = []
    try:
        for site in sites.values():
            site.start()
            started.append(site)
        yield sites
    finally:
        for site in started:
            site.stop()
    for site in started:
        assert "Traceback" not in site.output(), site.output()


@pytest.fixture(
    params=[("daphne", "daphne"), at_night(("uvicorn", "uvicorn")), at_night(("uvicorn", "daphne"))], ids=" and ".join
)
def person(request: pytest.FixtureRequest, processes: dict[str, Site]) -> Person:
    holder, other = request.param
    return Person(processes[holder], processes[other])


def test_it_lists_and_calls(person: Person) -> None:
    async def look(client: Client) -> tuple[set[str], str]:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        return tools, (await client.call_tool("hurry", {})).content[0].text

    tools, text = person.use(look)
    assert {"hurry", "test_elicitation"} <= tools
    assert text == "done"


def test_a_user_is_asked_twice(person: Person) -> None:
    async def call(client: Client) -> Any:
        return await client.call_tool("test_input_required_result_multi_round", {})

    result = person.use(call, elicitation_callback=person.elicit)
    assert [message[:6] for message in person.asked] == ["Step 1", "Step 2"]
    assert result.content[0].text == "Ada likes green."


def test_progress_and_log_come_while_the_tool_runs(person: Person) -> None:
    reports: list[float] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        reports.append(progress)

    async def call(client: Client) -> None:
        await client.call_tool("test_tool_with_progress", {}, progress_callback=note)
        await client.call_tool("test_tool_with_logging", {})

    person.use(call, logging_callback=person.read)
    assert reports == [0, 50, 100]
    assert person.told == ["Tool execution started", "Tool processing data", "Tool execution completed"]


def test_it_hears_that_the_list_of_tools_has_changed(person: Person) -> None:
    async def wait(client: Client) -> None:
        """The server begins to tell of changes beside the first calls, so one may come too early."""
        while not person.changed.is_set():
            await client.call_tool("test_trigger_tool_change", {})
            with suppress(TimeoutError):
                await asyncio.wait_for(person.changed.wait(), 1)

    person.use(wait, message_handler=person.hear)


def test_its_session_is_gone_with_it(person: Person, local_database: Path) -> None:
    def sessions() -> int:
        with closing(sqlite3.connect(local_database)) as connection:
            return connection.execute("SELECT count(*) FROM django_mcp_session").fetchone()[0]

    async def look(client: Client) -> int:
        await client.list_tools()
        return sessions()

    assert person.use(look) > 0
    until(lambda: sessions() == 0, "the session is gone")
