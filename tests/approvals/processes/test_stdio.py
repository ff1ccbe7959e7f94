"""Calls that have to be approved, of a client that starts the site itself: real processes, over pipes."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.approvals.asking import kind_of
from tests.approvals.processes.deciding import REASON, approved, prepare, refused
from tests.clients import LEGACY, MODERN
from tests.conformance.databases import postgresql, sqlite
from tests.conformance.legs import migrate
from tests.faults.reading import read
from tests.transports.pipes import Message, Pipe, until

Environment = Mapping[str, str]
Start = Callable[..., Pipe]
ON_POSTGRESQL = pytest.param("postgresql", marks=pytest.mark.needs("DATABASE_URL"))
EACH_DATABASE = pytest.mark.parametrize("environment", ["sqlite", ON_POSTGRESQL], indirect=True, scope="module")
ONE_DATABASE = pytest.mark.parametrize("environment", ["sqlite"], indirect=True, scope="module")
AT_ONCE = {"APPROVAL_WAIT": "0.1"}


@pytest.fixture(scope="module")
def environment(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environment]:
    """Of a site with its people."""
    folder = tmp_path_factory.mktemp(f"approvals-{request.param}")
    with sqlite(folder) if request.param == "sqlite" else postgresql() as database:
        made = {
            "DJANGO_SETTINGS_MODULE": "tests.approvals.processes.site.settings",
            "CONFORMANCE_REDIS_URL": "",
            "FAULTS_JOURNAL": str(folder / "journal"),
            **database,
        }
        migrate(made)
        prepare(made)
        yield made


@pytest.fixture
def start(environment: Environment, tmp_path: Path) -> Iterator[Start]:
    """Starts processes for a client of a version, in the name of Ann; of which none is left."""
    pipes: list[Pipe] = []

    def begin(version: str, **variables: str) -> Pipe:
        file, errors = Path(environment.get("CONFORMANCE_DATABASE", "")), tmp_path / f"errors-{len(pipes)}"
        given = {**environment, **variables}
        pipes.append(Pipe(file, errors, version, ("--user", "ann"), variables=given))
        if version != MODERN:
            pipes[-1].initialize()
        return pipes[-1]

    yield begin
    for pipe in pipes:
        pipe.release()
        assert "Traceback" not in pipe.noise, pipe.noise


def paid(environment: Environment, label: str) -> int:
    """How often a tool ran."""
    journal = Path(environment["FAULTS_JOURNAL"])
    return journal.read_text().splitlines().count(f"paid {label}") if journal.exists() else 0


def tickets(environment: Environment, label: str) -> list[dict[str, Any]]:
    """The tickets of calls with that argument."""
    return read(environment, f"SELECT * FROM django_mcp_approval WHERE arguments LIKE '%{label}%' ORDER BY id")


def waiting(environment: Environment, pipe: Pipe, tool: str, label: str) -> int:
    """Make a call that waits; its id."""
    request_id = pipe.request("tools/call", {"name": tool, "arguments": {"label": label}})
    until(lambda: [each["state"] for each in tickets(environment, label)] == ["pending"], "it waits")
    assert pipe.text("plain", word=label) == label, "others are served meanwhile"
    assert not any(each.get("id") == request_id for each in pipe.unread)
    assert paid(environment, label) == 0
    return request_id


def result(pipe: Pipe, request_id: int) -> Message:
    answer = pipe.answer(request_id)
    assert "result" in answer, answer
    return dict(answer["result"])


def said(result: Message) -> str:
    return str(result["content"][0]["text"])


@EACH_DATABASE
@pytest.mark.parametrize(("version", "tool"), [(MODERN, "pay"), (LEGACY, "refund")])
def test_a_client_that_waits_has_the_result_once_it_is_approved(
    environment: Environment, start: Start, label: str, version: str, tool: str
) -> None:
    """Whether the tool says so itself, or people decided it."""
    pipe = start(version)
    request_id = waiting(environment, pipe, tool, label)
    approved(environment, label)
    got = result(pipe, request_id)
    assert not got.get("isError"), got
    assert said(got) == f"Paid {label}."
    assert paid(environment, label) == 1
    assert [(each["state"], each["outcome"]) for each in tickets(environment, label)] == [("consumed", "ok")]


@ONE_DATABASE
def test_a_client_that_waits_hears_why_it_is_refused(environment: Environment, start: Start, label: str) -> None:
    pipe = start(LEGACY)
    request_id = waiting(environment, pipe, "pay", label)
    refused(environment, label)
    got = result(pipe, request_id)
    assert kind_of(got) == "denied"
    assert REASON in said(got)
    assert kind_of(pipe.call("pay", label=label)) == "denied", "nor is the same call asked about again"
    assert paid(environment, label) == 0
    assert [each["state"] for each in tickets(environment, label)] == ["denied"]


@EACH_DATABASE
def test_an_approval_is_for_one_call_although_the_client_started_the_site_anew(
    environment: Environment, start: Start, label: str
) -> None:
    """Such a client ends its process with itself, and the decision may take longer."""
    first = start(LEGACY, **AT_ONCE)
    got = first.call("pay", label=label)
    assert kind_of(got) == "approval_required"
    first.process.kill()
    first.process.wait()
    approved(environment, label)
    assert paid(environment, label) == 0, "approving runs nothing"

    again = start(LEGACY, **AT_ONCE)
    assert kind_of(again.call("pay", label=f"{label}-other")) == "approval_required", "another call is another matter"
    assert again.text("pay", label=label) == f"Paid {label}."
    assert kind_of(again.call("pay", label=label)) == "approval_required"
    assert paid(environment, label) == 1
    assert paid(environment, f"{label}-other") == 0

    # The work of a tool with tasks is a row of its own, also where the client knows none.
    calls = f"SELECT * FROM django_mcp_requestlog WHERE arguments LIKE '%{label}\"%' AND protocol <> '' ORDER BY id"
    used, unused = [each["public_id"] for each in tickets(environment, f'{label}"')]
    log = [(each["outcome"], each["approval"]) for each in read(environment, calls)]
    assert log == [("waiting", used), ("ok", used), ("waiting", unused)]


@ONE_DATABASE
def test_a_call_that_waits_runs_nothing_when_its_process_is_killed(
    environment: Environment, start: Start, label: str
) -> None:
    pipe = start(MODERN)
    waiting(environment, pipe, "pay", label)
    pipe.process.kill()
    pipe.process.wait()
    approved(environment, label)
    assert paid(environment, label) == 0
    assert start(MODERN).text("pay", label=label) == f"Paid {label}."
    assert paid(environment, label) == 1
