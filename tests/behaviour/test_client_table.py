"""What clients in the field send, row by row, and the answer each of them needs.

The rows are those of a table of client behaviour that the project keeps; the ones missing here are tested where the
subject is: the opening, versions on the wire, bad input, the gate, cancellation.
"""

import datetime
import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pytest
from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.utils import timezone

from django_mcp import BaseAuthentication, Context, MCPServer, RequestHead, prompt, resource, tool
from django_mcp.core.principal import Principal
from django_mcp.models import Session
from tests.clients import LEGACY, META, MODERN, Answer, Client
from tests.exchange import Room

OLDER = "2025-06-18"
HELLO = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "table", "version": "1"}}
ENVELOPE = {META + "protocolVersion": MODERN, META + "clientCapabilities": {}}
OWN, UNKNOWN, EXPIRED, FOREIGN, ELSEWHERE = "own", "unknown", "expired", "foreign", "elsewhere"
NOT_OURS = (UNKNOWN, EXPIRED, FOREIGN, ELSEWHERE)


class ByName(BaseAuthentication):
    """Believes whatever name it is told."""

    blocking = False

    def authenticate(self, head: RequestHead, server: object) -> Principal:
        return Principal("name", head.headers.get("x-caller", "ada"), AnonymousUser())


def furnish(server: MCPServer) -> MCPServer:
    @tool(server=server, title="Greet")
    def greet(name: str = "you") -> str:
        return f"Hello, {name}!"

    @tool(server=server)
    def think(ctx: Context) -> str:
        return ctx.sample("Think.").text

    resource("test://thing", server=server)(lambda: "a thing")
    prompt(server=server, name="plan")(lambda: "a plan")
    return server


@pytest.fixture
def server(make_server: Any) -> MCPServer:
    return furnish(make_server(authentication=[ByName()]))


@pytest.fixture
def sessions(legacy: Client, make_server: Any, edge: str) -> Iterator[dict[str, str]]:
    """A session id of each kind, by its name."""
    other = Client(furnish(make_server("other", authentication=[ByName()])), LEGACY, edge)

    def opened(client: Client, caller: str) -> str:
        return client.request("initialize", HELLO, headers={"x-caller": caller}).headers["mcp-session-id"]

    ids = {EXPIRED: opened(legacy, "ada")}
    Session.objects.update(expires=timezone.now() - datetime.timedelta(seconds=1))
    ids |= {OWN: opened(legacy, "ada"), FOREIGN: opened(legacy, "bob"), ELSEWHERE: opened(other, "ada")}
    yield {**ids, UNKNOWN: "x" * 43}
    Session.objects.all().delete()


class Shape(NamedTuple):
    """A message as a client sends it, with what it must get."""

    message: dict[str, Any]
    headers: dict[str, str]
    status: int
    code: int | None = None
    """Of the error, if there has to be one."""


def ask(method: str, /, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}


def tell(method: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method}


def modern(method: str, /, **params: Any) -> dict[str, Any]:
    return ask(method, **params, _meta=ENVELOPE)


def of(version: str, **more: str) -> dict[str, str]:
    return {"mcp-protocol-version": version, **{name.replace("_", "-"): value for name, value in more.items()}}


CALL = ask("tools/call", name="greet", arguments={})
ANSWER = {"jsonrpc": "2.0", "id": "nobody-asked", "result": {}}
READ = modern("resources/read", uri="test://thing")
GET = modern("prompts/get", name="plan")

TABLE = {
    "row 1: discovers first, without a version header": Shape(ask("server/discover"), {}, 200),
    "row 1: discovers under an older header": Shape(ask("server/discover"), of(OLDER), 200),
    "row 1: discovers within a session": Shape(ask("server/discover"), of(LEGACY, session=OWN), 200),
    "row 5: opens again within a session": Shape(ask("initialize", **HELLO), of(LEGACY, session=OWN), 200),
    "row 8: leaves out the session id it was given": Shape(CALL, of(LEGACY), 200),
    "row 9: sends a session id and no version": Shape(CALL, {"session": OWN}, 200),
    "row 10: calls under another version than it agreed to": Shape(CALL, of(OLDER, session=OWN), 200),
    "row 15: reads without naming the resource": Shape(READ, of(MODERN, mcp_method="resources/read"), 400, -32020),
    "row 15: reads and names another resource": Shape(
        READ, of(MODERN, mcp_method="resources/read", mcp_name="test://other"), 400, -32020
    ),
    "row 15: reads and names the resource in Base64": Shape(
        READ, of(MODERN, mcp_method="resources/read", mcp_name="=?base64?dGVzdDovL3RoaW5n?="), 200
    ),
    "row 15: gets a prompt without naming it": Shape(GET, of(MODERN, mcp_method="prompts/get"), 400, -32020),
    "row 15: gets a prompt and names another": Shape(
        GET, of(MODERN, mcp_method="prompts/get", mcp_name="Plan"), 400, -32020
    ),
    **{f"row 17: calls in a session that is {kind}": Shape(CALL, of(LEGACY, session=kind), 404) for kind in NOT_OURS},
    "row 17: tells something in a session that is gone": Shape(
        tell("notifications/initialized"), of(LEGACY, session=UNKNOWN), 404
    ),
    "row 18: names a session in a modern request": Shape(
        modern("tools/list"), of(MODERN, mcp_method="tools/list", session=UNKNOWN, last_event_id="x.1"), 200
    ),
    "row 20: asks for what there is not, in a session": Shape(ask("no/such"), of(LEGACY, session=OWN), 200, -32601),
    "row 21: says that it is ready, in its session": Shape(
        tell("notifications/initialized"), of(LEGACY, session=OWN), 202
    ),
    "row 21: says that it is ready, without its session": Shape(tell("notifications/initialized"), of(LEGACY), 202),
    "row 21: says something unknown, in its session": Shape(tell("no/such"), of(LEGACY, session=OWN), 202),
    "row 22: answers what it was not asked, in its session": Shape(ANSWER, of(LEGACY, session=OWN), 202),
    "row 22: answers in the session of another": Shape(ANSWER, of(LEGACY, session=FOREIGN), 404),
    "row 22: answers without a session": Shape(ANSWER, of(LEGACY), 400),
    "row 22: answers in a modern request": Shape(ANSWER, of(MODERN, session=OWN), 400),
    "row 24: pings in its session": Shape(ask("ping"), of(LEGACY, session=OWN), 200),
}


def post(client: Client, message: Any, headers: Mapping[str, str | None], sessions: Mapping[str, str]) -> Answer:
    """Send a message; ``session`` among *headers* is one of *sessions*."""
    own = dict(headers)
    if kind := own.pop("session", None):
        own["mcp-session-id"] = sessions[kind]
    return client.post(json.dumps(message).encode(), own)


def test_a_shape_that_clients_send_gets_its_answer(
    legacy: Client, sessions: dict[str, str], subtests: pytest.Subtests
) -> None:
    for case, shape in TABLE.items():
        with subtests.test(case=case):
            answer = post(legacy, shape.message, shape.headers, sessions)
            assert answer.status == shape.status, answer.body
            if shape.code is not None:
                assert answer.code == shape.code
                assert answer.json["id"] == 7
            elif shape.status == 200:
                assert "result" in answer.json
            elif shape.status == 202:
                assert answer.body == b""


def test_row_1_a_discovery_has_one_shape_whoever_asks(legacy: Client, sessions: dict[str, str]) -> None:
    for headers in ({}, of("2024-11-05"), of(LEGACY, session=OWN)):
        result = post(legacy, ask("server/discover"), headers, sessions).result
        assert result.keys() >= {"supportedVersions", "capabilities", "resultType", "ttlMs", "cacheScope"}
        assert "protocolVersion" not in result
        assert result["_meta"][META + "serverInfo"]["name"] == "test"


def test_row_5_opening_again_gives_another_session(legacy: Client, sessions: dict[str, str]) -> None:
    answer = post(legacy, ask("initialize", **HELLO), of(LEGACY, session=OWN), sessions)
    assert answer.result["protocolVersion"] == LEGACY
    assert answer.headers["mcp-session-id"] not in sessions.values()


def test_row_10_the_answer_is_of_the_version_in_the_header(legacy: Client, sessions: dict[str, str]) -> None:
    for version, titled in ((LEGACY, True), ("2025-03-26", False)):
        listed = post(legacy, ask("tools/list"), of(version, session=OWN), sessions).result["tools"]
        assert ("title" in listed[0]) is titled


def test_row_17_nobody_learns_whether_a_session_exists(legacy: Client, sessions: dict[str, str]) -> None:
    answers = [post(legacy, CALL, of(LEGACY, session=kind), sessions) for kind in NOT_OURS]
    assert len({answer.body for answer in answers}) == 1
    assert "initialize" in answers[0].error["message"]


def test_row_17_a_session_is_of_the_caller_who_opened_it(legacy: Client, sessions: dict[str, str]) -> None:
    bob = {**of(LEGACY, session=FOREIGN), "x-caller": "bob"}
    assert post(legacy, CALL, bob, sessions).status == 200


def test_row_18_a_modern_answer_names_no_session(legacy: Client, sessions: dict[str, str]) -> None:
    headers = of(MODERN, mcp_method="tools/list", session=OWN)
    assert "mcp-session-id" not in post(legacy, modern("tools/list"), headers, sessions).headers


def test_row_25_who_has_no_model_is_told_that_one_is_needed(client: Client) -> None:
    """Modern clients are told in a form a program understands; older ones as a model does."""
    answer = client.call("think")
    if client.is_modern:
        assert (answer.status, answer.code) == (400, -32021)
        assert answer.error["data"] == {"requiredCapabilities": {"sampling": {}}}
    else:
        assert answer.status == 200
        assert answer.result["isError"] is True
        assert "sampling" in answer.text


def test_row_32_whatever_it_is_the_content_type_is_plain_json(legacy: Client, subtests: pytest.Subtests) -> None:
    cases = [
        (json.dumps(CALL).encode(), {}, 200),
        (json.dumps(ask("no/such")).encode(), {}, 200),
        (b"{", {}, 400),
        (json.dumps(CALL).encode(), of("1900-01-01"), 400),
        (json.dumps(CALL).encode(), {"mcp-session-id": "nobody's"}, 404),
        (json.dumps(CALL).encode(), {"accept": "text/html"}, 406),
        (b" " * (4 * 2**20 + 1), {}, 413),
        (json.dumps(CALL).encode(), {"content-type": "text/plain"}, 415),
    ]
    for body, headers, status in cases:
        with subtests.test(body=body, headers=headers, status=status):
            answer = legacy.post(body, headers)
            assert answer.status == status
            assert answer.headers["content-type"] == "application/json"


def delete(client: Client, sessions: Mapping[str, str], session: str | None, version: str | None = LEGACY) -> Answer:
    return client.send("DELETE", {"mcp-protocol-version": version, "mcp-session-id": sessions.get(session or "")})


def test_row_34_a_client_ends_its_own_session_once(legacy: Client, sessions: dict[str, str]) -> None:
    ended = delete(legacy, sessions, OWN)
    assert (ended.status, ended.body) == (204, b"")
    assert delete(legacy, sessions, OWN).status == 404
    assert post(legacy, CALL, of(LEGACY, session=OWN), sessions).status == 404


def test_row_34_nobody_ends_the_session_of_another(
    legacy: Client, sessions: dict[str, str], subtests: pytest.Subtests
) -> None:
    for kind in NOT_OURS:
        with subtests.test(kind=kind):
            before = Session.objects.count()
            assert delete(legacy, sessions, kind).status == 404
            assert Session.objects.count() == before


def test_row_34_ending_needs_a_session(legacy: Client, sessions: dict[str, str]) -> None:
    assert delete(legacy, sessions, None).status == 400
    modern = delete(legacy, sessions, OWN, MODERN)
    assert modern.status == 405
    assert "POST" in modern.headers["allow"]


@pytest.mark.parametrize(
    ("session", "version", "status"),
    [
        (None, None, 405),
        (None, LEGACY, 405),
        (None, MODERN, 405),
        (OWN, MODERN, 405),
        *((kind, LEGACY, 404) for kind in NOT_OURS),
        (OWN, LEGACY, 200),
        (OWN, None, 200),
    ],
)
def test_row_33_a_get_is_a_stream_in_ones_own_session_only(
    sessions: dict[str, str],
    room: Room,
    session: str | None,
    version: str | None,
    status: int,
    subtests: pytest.Subtests,
) -> None:
    for accept in [{"accept": "text/event-stream"}, {}]:
        with subtests.test(accept=accept):
            given = {"mcp-protocol-version": version, "mcp-session-id": sessions.get(session or ""), **accept}
            answer = room.send("GET", {name: value for name, value in given.items() if value is not None}).begun()
            if room.edge == "view" and status == 200:
                status = 405  # under WSGI a stream would keep a worker
            assert answer.status == status
            assert answer.headers["content-type"] == ("text/event-stream" if status == 200 else "application/json")


def test_row_35_a_page_may_keep_a_session_and_come_back_to_a_stream(legacy: Client, sessions: dict[str, str]) -> None:
    """What a browser does not find in the answer to its preflight it neither sends nor shows to the page."""
    page = {"origin": settings.DJANGO_MCP["BASE_URL"]}
    preflight = legacy.send("OPTIONS", {**page, "access-control-request-method": "DELETE"})
    assert preflight.status == 204
    methods = preflight.headers["access-control-allow-methods"]
    assert {each.strip() for each in methods.split(",")} >= {"GET", "POST", "DELETE"}
    headers = preflight.headers["access-control-allow-headers"].lower()
    assert {"mcp-session-id", "last-event-id", "mcp-protocol-version"} <= {each.strip() for each in headers.split(",")}
    answer = post(legacy, ask("initialize", **HELLO), page, sessions)
    assert "mcp-session-id" in answer.headers["access-control-expose-headers"].lower()
