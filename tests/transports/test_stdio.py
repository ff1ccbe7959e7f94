"""The edge over standard input and output, with real processes."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.clients import LEGACY, META, MODERN
from tests.conformance.prepared import prepare
from tests.real_clients.sites import DEMO, load_agency, manage
from tests.transports.pipes import LOCAL, Message, Pipe, until

Start = Callable[..., Pipe]

FORM = {"elicitation": {"form": {}}}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def local_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("local") / "local.sqlite3"
    manage(path, "migrate", "--verbosity", "0", project=LOCAL)
    create = "from django.contrib.auth.models import User; "
    create += "User.objects.create_user('ada'); User.objects.create_user('bob', is_active=False)"
    manage(path, "shell", "--verbosity", "0", "-c", create, project=LOCAL)
    return path


@pytest.fixture
def start(local_database: Path, tmp_path: Path) -> Iterator[Start]:
    """Starts sites; each is gone after the test, and never ended with a traceback."""
    pipes: list[Pipe] = []

    def begin(version: str = MODERN, *arguments: str, **options: Any) -> Pipe:
        pipes.append(Pipe(local_database, tmp_path / f"errors-{len(pipes)}", version, arguments, **options))
        return pipes[-1]

    yield begin
    for pipe in pipes:
        pipe.release()
        assert "Traceback" not in pipe.noise, pipe.noise


@pytest.fixture
def own(start: Start, version: str) -> Pipe:
    """A client of each era, connected, which can fill in forms, and whose process may end."""
    pipe = start(version, capabilities=FORM)
    if not pipe.is_modern:
        pipe.initialize()
    return pipe


@pytest.fixture(scope="module")
def kept(local_database: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Pipe]]:
    """Gives such a client of a version, the same each time."""
    folder = tmp_path_factory.mktemp("kept")
    pipes: dict[str, Pipe] = {}

    def get(version: str) -> Pipe:
        if version not in pipes:
            pipes[version] = Pipe(local_database, folder / version, version, capabilities=FORM)
            pipes[version].reading.name += " (kept by tests)"
            if version != MODERN:
                pipes[version].initialize()
        return pipes[version]

    yield get
    for pipe in pipes.values():
        pipe.release()
        assert "Traceback" not in pipe.noise, pipe.noise


@pytest.fixture
def pipe(kept: Callable[[str], Pipe], version: str) -> Iterator[Pipe]:
    """A client of each era whose process does not end."""
    pipe = kept(version)
    pipe.unread.clear()
    yield pipe
    assert pipe.process.poll() is None, pipe.noise


def rows(database: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute(query).fetchall()


def changed(database: Path, statement: str) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(statement)


# Both eras


def test_a_client_with_a_handshake_learns_what_it_needs(start: Start) -> None:
    pipe = start(LEGACY)
    result = pipe.initialize()
    assert result["protocolVersion"] == LEGACY
    assert result["serverInfo"]["name"] == "local"
    assert result["capabilities"]["tools"] == {"listChanged": True}


@pytest.mark.parametrize("older", ["2025-06-18", "2025-03-26", "2024-11-05"])
def test_older_versions_get_what_they_know(start: Start, older: str) -> None:
    pipe = start(older)
    assert pipe.initialize()["protocolVersion"] == older
    (tool,) = [each for each in pipe.answer(pipe.request("tools/list"))["result"]["tools"] if each["name"] == "count"]
    assert ("outputSchema" in tool) is (older == "2025-06-18")


def test_a_client_without_a_handshake_discovers_and_calls(start: Start) -> None:
    pipe = start()
    assert MODERN in pipe.answer(pipe.request("server/discover"))["result"]["supportedVersions"]
    assert pipe.text("hurry") == "done"


def test_one_process_serves_both_eras_at_once(start: Start) -> None:
    pipe = start(LEGACY)
    pipe.initialize()
    modern = pipe.answer(pipe.request("tools/call", {"name": "hurry"}, version=MODERN))["result"]
    legacy = pipe.call("hurry")
    assert modern["resultType"] == "complete"
    assert "resultType" not in legacy


def test_a_request_before_any_handshake_is_served_too(start: Start) -> None:
    assert start(LEGACY).text("hurry") == "done"


def test_what_a_header_would_mirror_needs_no_header(pipe: Pipe) -> None:
    assert pipe.text("test_x_mcp_header", region="eu") == "Region: eu"


def test_the_demo_is_served_in_the_name_of_one_of_its_users(tmp_path: Path) -> None:
    database = tmp_path / "demo.sqlite3"
    prepare(database, "agency", load_agency)
    pipe = Pipe(database, tmp_path / "errors", arguments=("--user", "anna"), project=DEMO)
    try:
        assert "Paris" in json.dumps(pipe.answer(pipe.request("resources/read", {"uri": "travel://cities"})))
        assert pipe.finish()[0] == 0
    finally:
        pipe.release()


# Who calls, and what


def test_the_caller_is_the_user_that_was_named(start: Start, local_database: Path) -> None:
    ((pk,),) = rows(local_database, "SELECT id FROM auth_user WHERE username = 'ada'")
    assert start(MODERN, "--user", "ada").text("who_am_i") == f"user {pk} ada http://agency.example/page"


def test_the_user_has_the_rights_that_they_have_now(start: Start, local_database: Path) -> None:
    """A connection may outlive many changes of them."""
    pipe = start(MODERN, "--user", "ada")
    assert pipe.text("who_am_i")
    try:
        changed(local_database, "UPDATE auth_user SET is_active = 0 WHERE username = 'ada'")
        assert "no longer sign in" in pipe.answer(pipe.request("tools/list"))["error"]["message"]
    finally:
        changed(local_database, "UPDATE auth_user SET is_active = 1 WHERE username = 'ada'")
    assert pipe.text("who_am_i")


def test_an_open_endpoint_needs_no_user(start: Start) -> None:
    assert start().text("who_am_i").startswith("public public AnonymousUser ")


def test_another_endpoint_is_served_by_its_name(start: Start) -> None:
    pipe = start(MODERN, "--server", "back-office")
    assert pipe.text("file_a_form") == "in the back office"
    assert pipe.answer(pipe.request("tools/call", {"name": "hurry"}))["error"]["code"] == -32602


def test_an_unknown_user_is_named_on_stderr_and_nothing_is_said_on_stdout(start: Start) -> None:
    pipe = start(MODERN, "--user", "nobody")
    assert pipe.finish() == (1, [])
    assert "There is no user 'nobody'" in pipe.noise


def test_a_user_who_may_not_sign_in_is_refused(start: Start) -> None:
    pipe = start(MODERN, "--user", "bob")
    assert pipe.finish() == (1, [])
    assert "'bob' is not active" in pipe.noise


# Only protocol on stdout


def test_what_a_tool_prints_goes_to_stderr_and_breaks_nothing(own: Pipe) -> None:
    assert own.text("shout") == "all was said"
    assert own.text("hurry") == "done"
    status, rest = own.finish()
    assert (status, rest) == (0, [])
    for words in ("printed", "written", "from a C library", "from a subprocess", "printed while the site starts"):
        assert words in own.noise


def test_a_tool_that_reads_stdin_takes_nothing_of_the_protocol(pipe: Pipe) -> None:
    assert pipe.text("listen") == "heard '' and b''"
    assert pipe.text("hurry") == "done"


# While a call runs


def test_calls_run_beside_each_other(pipe: Pipe) -> None:
    slow = [pipe.request("tools/call", {"name": name}) for name in ("wait", "work")]
    assert pipe.text("hurry") == "done"
    assert not any(each.get("id") in slow for each in pipe.unread)


def test_progress_is_reported_while_a_tool_runs(pipe: Pipe) -> None:
    request_id = pipe.request("tools/call", {"name": "test_tool_with_progress", "_meta": {"progressToken": "p"}})
    assert "result" in pipe.answer(request_id)
    reports = [each["params"] for each in pipe.unread if each.get("method") == "notifications/progress"]
    assert [(each["progressToken"], each["progress"]) for each in reports] == [("p", 0), ("p", 50), ("p", 100)]


def test_log_messages_come_where_they_are_wanted(pipe: Pipe) -> None:
    params: Message = {"name": "test_tool_with_logging"}
    if pipe.is_modern:
        params["_meta"] = {META + "logLevel": "info"}
    assert "result" in pipe.answer(pipe.request("tools/call", params))
    told = [each["params"]["data"] for each in pipe.unread if each.get("method") == "notifications/message"]
    assert told == ["Tool execution started", "Tool processing data", "Tool execution completed"]


def test_a_user_is_asked_and_the_answer_is_used(pipe: Pipe) -> None:
    params = {"name": "test_elicitation", "arguments": {"message": "Who are you?"}}
    request_id = pipe.request("tools/call", params)
    answer = {"action": "accept", "content": {"username": "ada", "email": "ada@example.com"}}
    if pipe.is_modern:
        asked = pipe.answer(request_id)["result"]
        ((key, question),) = asked["inputRequests"].items()
        more = {"inputResponses": {key: answer}, "requestState": asked["requestState"]}
        request_id = pipe.request("tools/call", {**params, **more})
    else:
        question = pipe.told("elicitation/create")
        pipe.send({"jsonrpc": "2.0", "id": question["id"], "result": answer})
    assert question["params"]["message"] == "Who are you?"
    assert "ada@example.com" in pipe.answer(request_id)["result"]["content"][0]["text"]


def test_an_answer_that_is_sent_again_leaves_a_tool_free_that_runs_one_call_at_a_time(start: Start) -> None:
    pipe = start(MODERN, capabilities=FORM)
    params: Message = {"name": "pay", "arguments": {"to": "ada"}}

    def answered() -> Message:
        asked = pipe.answer(pipe.request("tools/call", params))["result"]
        (key,) = asked["inputRequests"]
        yes = {"action": "accept", "content": {"confirm": True}}
        return {**params, "inputResponses": {key: yes}, "requestState": asked["requestState"]}

    again = answered()
    assert pipe.answer(pipe.request("tools/call", again))["result"]["content"][0]["text"] == "paid ada"
    for _ in range(3):
        assert "already used" in pipe.answer(pipe.request("tools/call", again))["error"]["message"]
    assert pipe.answer(pipe.request("tools/call", answered()))["result"]["content"][0]["text"] == "paid ada"


def test_one_question_after_the_other_reaches_a_client_with_a_handshake(start: Start) -> None:
    pipe = start(LEGACY, capabilities=FORM)
    pipe.initialize()
    request_id = pipe.request("tools/call", {"name": "test_input_required_result_multi_round"})
    for content in ({"name": "Ada"}, {"color": "green"}):
        question = pipe.told("elicitation/create")
        pipe.send({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": content}})
    assert pipe.answer(request_id)["result"]["content"][0]["text"] == "Ada likes green."


def test_an_answer_comes_although_the_tool_let_go_of_the_connection(pipe: Pipe) -> None:
    assert pipe.text("test_reconnection").startswith("This is the answer")


# Cancellation


@pytest.mark.parametrize(("tool", "sign"), [("wait", "waiting"), ("work", "working")])
def test_a_cancelled_call_stops_and_is_never_answered(own: Pipe, tool: str, sign: str) -> None:
    request_id = own.request("tools/call", {"name": tool, "_meta": {"progressToken": 1}})
    until(lambda: sign in own.noise, "it runs")
    own.notify("notifications/cancelled", requestId=request_id, reason="bored")
    until(lambda: f"stopped {sign}" in own.noise, "it stopped")
    assert own.text("hurry") == "done"
    status, rest = own.finish()
    assert status == 0
    assert [each for each in rest if "method" not in each] == []


def test_a_cancelled_call_that_cannot_be_stopped_is_not_answered_either(own: Pipe) -> None:
    request_id = own.request("tools/call", {"name": "dawdle"})
    until(lambda: "dawdling" in own.noise, "it runs")
    own.notify("notifications/cancelled", requestId=request_id)
    until(lambda: "dawdled" in own.noise, "it is done")
    assert own.text("hurry") == "done"
    assert own.finish() == (0, [])


def test_a_call_that_waits_for_an_answer_can_be_cancelled(start: Start, local_database: Path) -> None:
    pipe = start(LEGACY, capabilities=FORM)
    pipe.initialize()
    request_id = pipe.request("tools/call", {"name": "test_elicitation", "arguments": {"message": "?"}})
    question = pipe.told("elicitation/create")
    pipe.notify("notifications/cancelled", requestId=request_id)
    pending = f"SELECT 1 FROM django_mcp_pendingrequest WHERE request_id = '{question['id']}'"
    until(lambda: not rows(local_database, pending), "the question is withdrawn")
    pipe.send({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}})
    assert pipe.text("hurry") == "done"
    assert pipe.finish() == (0, [])


@pytest.mark.parametrize("request_id", [999, "1", None, [1], True])
def test_cancelling_what_does_not_run_does_nothing(pipe: Pipe, request_id: Any) -> None:
    slow = pipe.request("tools/call", {"name": "wait", "arguments": {"seconds": 0.2}})
    pipe.notify("notifications/cancelled", requestId=request_id)
    assert pipe.answer(slow)["result"]["content"][0]["text"] == "waited"


# Changes


def listen(pipe: Pipe, **wanted: Any) -> int:
    request_id = pipe.request("subscriptions/listen", {"notifications": wanted})
    told = pipe.told("notifications/subscriptions/acknowledged")["params"]
    assert told["_meta"] == {META + "subscriptionId": request_id}
    assert told["notifications"] == wanted
    return request_id


def test_a_subscription_is_told_of_changes_and_ends_with_words(start: Start) -> None:
    pipe = start()
    request_id = listen(pipe, toolsListChanged=True)
    pipe.call("change", what="tools")
    told = pipe.told("notifications/tools/list_changed")
    assert told["params"]["_meta"] == {META + "subscriptionId": request_id}
    status, rest = pipe.finish()
    assert status == 0
    (last,) = rest
    assert last["id"] == request_id
    assert last["result"]["_meta"][META + "subscriptionId"] == request_id


def test_a_cancelled_subscription_is_told_nothing_more(start: Start) -> None:
    pipe = start()
    first = listen(pipe, toolsListChanged=True)
    pipe.notify("notifications/cancelled", requestId=first)
    second = listen(pipe, toolsListChanged=True)
    pipe.call("change", what="tools")
    told = pipe.told("notifications/tools/list_changed")
    assert told["params"]["_meta"] == {META + "subscriptionId": second}
    status, rest = pipe.finish()
    assert status == 0
    assert [each.get("id") for each in rest] == [second]


def hears_changes(pipe: Pipe) -> None:
    """The stream of changes begins beside the first calls, so that a change may come too early for it."""

    def changed() -> bool:
        pipe.call("change", what="tools")
        return any(each.get("method") == "notifications/tools/list_changed" for each in pipe.unread)

    until(changed, "the change of the list is heard")


def test_a_client_with_a_handshake_hears_of_changes_without_asking(start: Start) -> None:
    pipe = start(LEGACY)
    pipe.initialize()
    hears_changes(pipe)


def test_a_client_with_a_handshake_hears_of_what_it_subscribed_to_alone(start: Start) -> None:
    pipe = start(LEGACY)
    pipe.initialize()
    hears_changes(pipe)
    assert pipe.answer(pipe.request("resources/subscribe", {"uri": "test://watched-resource"}))["result"] == {}
    pipe.call("change", what="test://static-text")
    pipe.call("change", what="test://watched-resource")
    assert pipe.told("notifications/resources/updated")["params"]["uri"] == "test://watched-resource"


# What is no message


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"nonsense", -32700),
        (b"\xff\xfe", -32700),
        (b'{"jsonrpc":"2.0","id":1,', -32700),
        (b"[]", -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
        (b'"text"', -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
        (b" " * 100_000 + b"{}", -32600),
    ],
)
def test_a_line_that_is_no_message_is_answered_without_an_id_and_ends_nothing(
    pipe: Pipe, line: bytes, code: int
) -> None:
    pipe.write(line + b"\n")
    assert pipe.error()["code"] == code
    assert pipe.text("hurry") == "done"


def test_a_line_that_is_too_long_is_told_how_long_it_may_be(pipe: Pipe) -> None:
    pipe.write(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"' + b"x" * 3_000_000 + b'"}}\n')
    assert "100000 bytes" in pipe.error()["message"]
    assert pipe.text("hurry") == "done"


def test_a_batch_is_answered_in_the_one_version_that_has_them(start: Start) -> None:
    pipe = start("2025-03-26")
    pipe.initialize()
    pipe.asked |= dict.fromkeys(("a", "b"), ("ping", pipe.version))
    pipe.send([{"jsonrpc": "2.0", "id": each, "method": "ping"} for each in ("a", "b")])
    batch = pipe.next(lambda each: isinstance(each, list), "the batch's answer")
    assert [each["id"] for each in batch] == ["a", "b"]  # type: ignore[index]


def test_a_version_nobody_knows_is_refused_with_those_there_are(pipe: Pipe) -> None:
    meta = {META + "protocolVersion": "1900-01-01", META + "clientCapabilities": {}}
    pipe.send({"jsonrpc": "2.0", "id": "x", "method": "tools/list", "params": {"_meta": meta}})
    error = pipe.next(lambda each: each.get("id") == "x", "the refusal")["error"]
    assert error["code"] == -32022
    assert MODERN in error["data"]["supported"]


@pytest.mark.parametrize("meta", [{META + "protocolVersion": MODERN}, {META + "clientCapabilities": {}}])
def test_a_message_that_says_only_half_of_what_it_must_is_told_the_rest(start: Start, meta: Message) -> None:
    pipe = start()
    pipe.send({"jsonrpc": "2.0", "id": "x", "method": "tools/list", "params": {"_meta": meta}})
    error = pipe.next(lambda each: each.get("id") == "x", "the refusal")["error"]
    assert error["code"] == -32602
    assert ("protocolVersion" if META + "protocolVersion" not in meta else "clientCapabilities") in error["message"]


@pytest.mark.parametrize(
    "message",
    [
        {"method": "notifications/nonsense"},
        {"method": "notifications/x", "params": {"_meta": {META + "protocolVersion": "1900-01-01"}}},
        {"id": 77, "result": {}},
        {"id": "q", "error": {"code": -1, "message": "no"}},
    ],
)
def test_what_is_no_request_is_never_answered(own: Pipe, message: Message) -> None:
    own.send({"jsonrpc": "2.0", **message})
    assert own.text("hurry") == "done"
    assert own.finish() == (0, [])


def test_empty_lines_mean_nothing(own: Pipe) -> None:
    own.write(b"\n  \r\n\n")
    assert own.text("hurry") == "done"
    assert own.finish() == (0, [])


# The end


@pytest.mark.parametrize("end", [Pipe.finish, Pipe.terminate])
def test_at_the_end_it_finishes_what_is_nearly_done(own: Pipe, end: Callable[[Pipe], tuple[int, Any]]) -> None:
    request_id = own.request("tools/call", {"name": "wait", "arguments": {"seconds": 0.3}})
    until(lambda: "waiting" in own.noise, "it runs")
    status, rest = end(own)
    assert status == 0
    assert [each["id"] for each in rest if "result" in each] == [request_id]


@pytest.mark.parametrize("end", [Pipe.finish, Pipe.terminate])
@pytest.mark.parametrize(("tool", "sign"), [("wait", "waiting"), ("work", "working")])
def test_at_the_end_it_does_not_wait_for_long_calls(
    own: Pipe, end: Callable[[Pipe], tuple[int, Any]], tool: str, sign: str
) -> None:
    own.request("tools/call", {"name": tool})
    until(lambda: sign in own.noise, "it runs")
    status, rest = end(own)
    assert status == 0
    assert [each for each in rest if "method" not in each] == []


def test_a_last_line_without_an_end_is_served(own: Pipe) -> None:
    method = "tools/list" if own.is_modern else "ping"
    own.request(method, end=b"")
    status, rest = own.finish()
    assert status == 0
    assert len(rest) == 1
    assert "result" in rest[0]


def test_all_lines_of_a_file_are_answered(start: Start) -> None:
    pipe = start(LEGACY)
    client = {"name": "tests", "version": "1"}
    params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": client}
    pipe.request("initialize", params)
    pipe.notify("notifications/initialized")
    pipe.request("tools/call", {"name": "who_am_i"})
    status, rest = pipe.finish()
    assert status == 0
    assert [each["id"] for each in rest] == [1, 2]


def test_a_client_that_stops_reading_ends_it(start: Start) -> None:
    pipe = start(reads=False)
    assert pipe.process.stdout is not None
    pipe.process.stdout.close()

    def gone() -> bool:
        with suppress(BrokenPipeError):
            pipe.request("tools/call", {"name": "hurry"})
        return pipe.process.poll() is not None

    until(gone, "the process ended")
    assert pipe.process.returncode == 0


# Sessions


def test_the_session_ends_with_the_process(start: Start, local_database: Path) -> None:
    pipe = start(LEGACY)
    pipe.initialize()
    ((newest,),) = rows(local_database, "SELECT max(id) FROM django_mcp_session")
    assert pipe.finish() == (0, [])
    assert rows(local_database, f"SELECT 1 FROM django_mcp_session WHERE id = {newest}") == []


def test_the_session_of_a_silent_client_does_not_expire(start: Start, local_database: Path) -> None:
    pipe = start(LEGACY, variables={"LOCAL_SESSION_SECONDS": "3"})
    pipe.initialize()
    seen: set[Any] = set()

    def renewed() -> bool:
        seen.update(rows(local_database, "SELECT max(id), expires FROM django_mcp_session"))
        return len(seen) > 3

    until(renewed, "it was renewed")
    assert pipe.text("who_am_i")
