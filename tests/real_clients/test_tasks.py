"""The official Python client and long tools: with the Tasks extension, which it leaves to applications, and without."""

import asyncio
import csv
import itertools
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import httpx2
import pytest
from mcp import types
from mcp.client import Client
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.streamable_http import streamable_http_client
from pydantic import ConfigDict
from pydantic.alias_generators import to_camel

from tests.real_clients.sites import Site

T = TypeVar("T")

HEADER = "number,airline,origin,destination,departs,arrives,cabin,price,seats_left"
PATIENCE = 60.0
NUMBERS = itertools.count(100)
"""Of flights: the database is the same for all tests."""


class Params(types.RequestParams):
    """Of all methods of the extension."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    task_id: str
    input_responses: dict[str, Any] | None = None


class TaskRequest(types.Request[Params, str]):
    """``tasks/get``, ``tasks/update`` or ``tasks/cancel``."""

    name_param = "taskId"

    method: str
    params: Params


class Made(types.Result):
    """``CreateTaskResult``."""

    result_type: Literal["task"] = "task"
    task_id: str


class Got(types.Result):
    """What ``tasks/get`` gives."""

    status: str
    status_message: str | None = None
    result: dict[str, Any] | None = None
    input_requests: dict[str, Any] | None = None


class Tasks(ClientExtension):
    """The extension, as the library lets an application add it."""

    identifier = "io.modelcontextprotocol/tasks"

    def __init__(self, person: "Person", on_got: Callable[[Any, Got], Awaitable[None]] | None = None) -> None:
        self.person = person
        self.on_got = on_got
        self.got: list[Got] = []

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return (ResultClaim(result_type="task", model=Made, resolve=self.resolve),)

    async def resolve(self, made: Made, context: ClaimContext) -> types.CallToolResult:
        async def send(method: str, result: type[T], **params: Any) -> T:
            request = TaskRequest(method=method, params=Params(task_id=made.task_id, **params))
            return await context.session.send_request(request, result)

        while True:
            got = await send("tasks/get", Got)
            self.got.append(got)
            if got.status == "input_required":
                answers = {key: self.person.answer(each["params"]) for key, each in (got.input_requests or {}).items()}
                await send("tasks/update", types.Result, input_responses=answers)
            elif got.status != "working":
                return types.CallToolResult.model_validate(got.result or {"content": [], "isError": True})
            if self.on_got is not None:
                await self.on_got(send, got)
            await asyncio.sleep(0.05)


class Person:
    """Who sits at the client and says what to do with flights that are there already."""

    def __init__(self, choice: str) -> None:
        self.choice = choice
        self.asked: list[str] = []

    def answer(self, params: Mapping[str, Any]) -> dict[str, Any]:
        self.asked.append(params["message"])
        return {"action": "accept", "content": {"existing": self.choice}}

    async def elicit(self, context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        return types.ElicitResult.model_validate(self.answer({"message": params.message}))


class Desk:
    """Where anna works with a client of a mode.

    Args:
        site: the agency.
        key: hers.
        mode: of the client.
        tasks: has the extension.
    """

    def __init__(self, site: Site, key: str, mode: str, *, tasks: bool) -> None:
        self.url = site.url.replace("/mcp", "/staff/mcp")
        self.key = key
        self.mode = mode
        self.person = Person("replace")
        self.tasks = Tasks(self.person) if tasks else None

    def use(self, work: Callable[[Client], Awaitable[T]]) -> T:
        async def main() -> T:
            headers = {"authorization": f"Bearer {self.key}"}
            extensions = [self.tasks] if self.tasks else None
            async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http:
                transport = streamable_http_client(self.url, http_client=http)
                elicit = self.person.elicit
                async with Client(
                    transport, mode=self.mode, extensions=extensions, elicitation_callback=elicit
                ) as client:
                    return await asyncio.wait_for(work(client), PATIENCE)

        return asyncio.run(main())

    def call(self, name: str, /, **arguments: Any) -> Any:
        return self.use(lambda client: client.call_tool(name, arguments))


WAYS = {"extension": ("auto", True), "newest, without": ("auto", False), "older": ("legacy", False)}


@pytest.fixture(params=WAYS)
def desk(request: pytest.FixtureRequest, agency_with_tasks: Site, annas_key: str) -> Desk:
    mode, tasks = WAYS[request.param]
    return Desk(agency_with_tasks, annas_key, mode, tasks=tasks)


def flight(number: str, price: int) -> str:
    return f"{number},Albatross Air,BCN,LHR,2031-05-01T10:00+02:00,2031-05-01T11:20+01:00,economy,{price},40"


def test_the_report_of_a_year_and_the_table_that_belongs_to_it(desk: Desk) -> None:
    async def work(client: Client) -> tuple[Any, Any]:
        report = await client.call_tool("year_report", {"year": 2026})
        while later := re.search(
            '{"task_id": "[^"]+"}', report.content[0].text if report.is_error else ""
        ):  # a busy machine
            report = await client.call_tool("get_task_result", json.loads(later[0]))
        return report, await client.read_resource(report.structured_content["table"])

    report, table = desk.use(work)

    assert not report.is_error
    links = [block.uri for block in report.content if block.type == "resource_link"]
    assert [str(each) for each in links] == [report.structured_content["table"]]
    lines = list(csv.DictReader(table.contents[0].text.splitlines()))
    assert len(lines) == report.structured_content["bookings"] > 0
    if desk.tasks:
        assert desk.tasks.got[-1].status == "completed"


def test_an_import_asks_in_the_middle_and_does_as_it_is_told(desk: Desk) -> None:
    number = f"ZZ{next(NUMBERS)}"
    first = desk.call("import_flights", table=f"{HEADER}\n{flight(number, 90)}")
    second = desk.call("import_flights", table=f"{HEADER}\n{flight(number, 80)}")

    assert first.structured_content == {"added": 1, "replaced": 0, "left": 0}
    assert second.structured_content == {"added": 0, "replaced": 1, "left": 0}
    assert desk.person.asked == ["Already in the timetable: 1 of 1 flight. Replace or leave them?"]
    if desk.tasks:
        assert "input_required" in [each.status for each in desk.tasks.got]


def test_a_wrong_table_is_refused_at_once(desk: Desk) -> None:
    refused = desk.call("import_flights", table=f"{HEADER}\nnonsense")

    assert refused.is_error
    assert "Line 2" in refused.content[0].text
    assert not desk.tasks or desk.tasks.got == []


def test_who_knows_no_tasks_is_told_how_to_come_back(agency_with_tasks: Site, annas_key: str, tmp_path: Path) -> None:
    file = tmp_path / "answer.txt"
    desk = Desk(agency_with_tasks, annas_key, "auto", tasks=False)

    async def work(client: Client) -> tuple[Any, Any, Any]:
        first = await client.call_tool("read_when_there", {"path": str(file)})
        task_id = first.content[0].text.partition('"task_id": "')[2].partition('"')[0]
        again = await client.call_tool("get_task_result", {"task_id": task_id})
        file.write_text("It is there.\n")
        while True:
            last = await client.call_tool("get_task_result", {"task_id": task_id})
            if task_id not in last.content[0].text:
                return first, again, last

    first, again, last = desk.use(work)

    assert "still running, as task" in first.content[0].text
    assert "Progress: Waiting" in again.content[0].text
    assert last.content[0].text == "It is there."


def test_who_knows_tasks_cancels_one(agency_with_tasks: Site, annas_key: str, tmp_path: Path) -> None:
    desk = Desk(agency_with_tasks, annas_key, "auto", tasks=True)

    async def cancel(send: Callable[..., Awaitable[Any]], got: Got) -> None:
        if got.status == "working" and "Waiting" in (got.status_message or ""):
            await send("tasks/cancel", types.Result)

    assert desk.tasks is not None
    desk.tasks.on_got = cancel
    desk.call("read_when_there", path=str(tmp_path / "never"))

    assert desk.tasks.got[-1].status == "cancelled"
