"""The log of calls where the client starts the site itself: real processes, over pipes."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks.process import run_to_end
from tests.clients import LEGACY, META, MODERN
from tests.conformance.databases import postgresql, sqlite
from tests.conformance.legs import migrate
from tests.faults.reading import read
from tests.transports.pipes import Message, Pipe

ADA = "from django.contrib.auth.models import User; print(User.objects.create_user('ada').pk)"
pytestmark = pytest.mark.slow
Environment = Mapping[str, str]
Start = Callable[..., Pipe]


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.needs("DATABASE_URL"))])
def environment(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environment]:
    """Names the database of a site that has one user."""
    folder = tmp_path_factory.mktemp(f"stdio-{request.param}")
    with sqlite(folder) if request.param == "sqlite" else postgresql() as database:
        made = {"DJANGO_SETTINGS_MODULE": "tests.transports.local.settings", "CONFORMANCE_REDIS_URL": "", **database}
        migrate(made)
        run_to_end("manage.py", "shell", "-v", "0", "-c", ADA, environment=made)
        yield made


@pytest.fixture
def start(environment: Environment, tmp_path: Path) -> Iterator[Start]:
    """Starts processes, of which none is left."""
    pipes: list[Pipe] = []

    def begin(version: str, *arguments: str) -> Pipe:
        file = Path(environment.get("CONFORMANCE_DATABASE", ""))
        errors = tmp_path / f"errors-{len(pipes)}"
        pipes.append(Pipe(file, errors, version, arguments, variables=environment))
        if version != MODERN:
            pipes[-1].initialize()
        return pipes[-1]

    yield begin
    for pipe in pipes:
        pipe.release()
        assert "Traceback" not in pipe.noise, pipe.noise


@pytest.fixture
def rows(environment: Environment) -> Callable[[], list[dict[str, Any]]]:
    """Gives the rows that came since the test began, but for those of handshakes."""
    (before,) = read(environment, "SELECT coalesce(max(id), 0) AS newest FROM django_mcp_requestlog")
    query = f"SELECT * FROM django_mcp_requestlog WHERE id > {before['newest']} ORDER BY id"
    return lambda: [row for row in read(environment, query) if row["method"] != "initialize"]


def params(version: str, **own: Any) -> Message:
    """Of a request; in the newest version each says which client it is."""
    return {**own, "_meta": {META + "clientInfo": {"name": "tests", "version": "1"}}} if version == MODERN else own


CALLS: tuple[tuple[str, Message], ...] = (
    ("tools/list", {}),
    ("tools/call", {"name": "nonsense", "arguments": {}}),
    ("tools/call", {"name": "hurry", "arguments": {}}),
    ("tools/call", {"name": "wait", "arguments": {"seconds": 0}}),
    ("tools/call", {"name": "test_error_handling", "arguments": {}}),
    ("resources/read", {"uri": "test://static-text"}),
)
"""A tool that there is not, one in a thread, one on the event loop, one that fails."""
OUTCOMES = [
    ("tools/list", "", "ok"),
    ("tools/call", "nonsense", "rejected"),
    ("tools/call", "hurry", "ok"),
    ("tools/call", "wait", "ok"),
    ("tools/call", "test_error_handling", "error"),
    ("resources/read", "test://static-text", "ok"),
]


@pytest.mark.parametrize("version", [MODERN, LEGACY])
def test_every_answered_request_has_a_row_that_says_who_asked(
    environment: Environment, start: Start, rows: Callable[[], list[dict[str, Any]]], version: str
) -> None:
    pipe = start(version, "--user", "ada")
    for number, (method, own) in enumerate(CALLS, 1):
        pipe.answer(pipe.request(method, params(version, **own)))
        assert len(rows()) == number, "the row is there before the answer"
    found = rows()
    assert [(row["method"], row["name"], row["outcome"]) for row in found] == OUTCOMES

    ((pk,),) = [row.values() for row in read(environment, "SELECT id FROM auth_user WHERE username = 'ada'")]
    who = {(row["principal_kind"], row["principal_id"], row["user_id"], row["caller"]) for row in found}
    assert who == {("user", str(pk), pk, "ada")}
    with_what = {(row["client_name"], row["client_version"], row["protocol"], row["server"]) for row in found}
    assert with_what == {("tests", "1", version, "default")}
    assert {(row["address"], row["credential"], row["client_id"]) for row in found} == {(None, "", "")}
    by_name = {row["name"]: row for row in found}
    assert json.loads(by_name["wait"]["arguments"]) == {"seconds": 0}
    assert "intentionally returns an error" in by_name["test_error_handling"]["error"]
    assert "nonsense" in by_name["nonsense"]["error"]


@pytest.mark.parametrize("version", [MODERN, LEGACY])
def test_the_rows_of_calls_at_once_are_there_when_the_process_is_killed_after_the_last_answer(
    start: Start, rows: Callable[[], list[dict[str, Any]]], version: str
) -> None:
    pipe = start(version, "--user", "ada")
    asked = [pipe.request(method, params(version, **own)) for method, own in CALLS * 5]
    for request_id in asked:
        pipe.answer(request_id)
    pipe.process.kill()
    pipe.process.wait()
    assert sorted((row["method"], row["name"], row["outcome"]) for row in rows()) == sorted(OUTCOMES * 5)


def test_where_everybody_may_call_the_row_has_no_user(start: Start, rows: Callable[[], list[dict[str, Any]]]) -> None:
    pipe = start(MODERN, "--server", "back-office")
    assert pipe.text("file_a_form") == "in the back office"
    (row,) = rows()
    assert (row["server"], row["principal_kind"], row["user_id"], row["caller"]) == ("back-office", "public", None, "")
    assert (row["client_name"], row["client_version"]) == ("", ""), "it did not say"
