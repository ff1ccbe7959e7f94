"""What a caller may use: user, scopes, the client's own list, and the permission, for lists and for calls alike."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from demo_project.travel.models import City
from django_mcp import APIKeyAuthentication, Context, MCPServer, OAuth2Authentication, Principal, prompt, resource, tool
from django_mcp.approvals.tool_policies import limit_client
from django_mcp.core.permissions import Right, covers, expanded, in_order, right_of_credential
from tests.auth.conftest import BASE, SCOPES
from tests.clients import LEGACY, MODERN, Client
from tests.conversation import Conversation
from tests.exchange import Room

pytestmark = pytest.mark.postgresql

Make = Callable[..., Any]


@pytest.fixture
def server(server: MCPServer) -> MCPServer:
    resource("test://open", server=server)(lambda: "open")
    resource("test://closed", server=server, scopes=["travel:write"])(lambda: "closed")
    resource("test://closed/{name}", server=server, scopes=["travel:write"])(lambda name: name)
    resource("test://guarded", server=server, scopes=["travel:write"], permission="travel.change_city")(lambda: "x")
    prompt(server=server, name="plan", scopes=["travel:write", "travel:admin"])(lambda: "plan")
    tool(server=server, name="guarded_book", scopes=["travel:write"], permission="travel.change_city")(lambda: "x")
    return server


def permit(user: Any) -> None:
    kind = ContentType.objects.get_for_model(City)
    permission, _ = Permission.objects.get_or_create(
        content_type=kind, codename="change_city", defaults={"name": "Can change city"}
    )
    user.user_permissions.add(permission)


def names(client: Client) -> list[str]:
    return [each["name"] for each in client.list("tools/list")]


def test_what_only_lacks_scopes_is_shown_to_a_client_that_can_ask_for_more(
    signed_in: Make, make_token: Make, user: Any
) -> None:
    client = signed_in(make_token(scope="travel:read"))
    assert names(client) == ["look", "book"]
    permit(user)
    assert names(client) == ["look", "book", "guarded", "guarded_book"]


def test_a_call_that_needs_more_scopes_is_answered_with_what_to_ask_for(
    signed_in: Make, make_token: Make, subtests: pytest.Subtests
) -> None:
    """SEP-2350; ``tests/conformance/test_scope_challenges.py`` has the fixtures of the conformance suite."""
    for method, params in [
        ("tools/call", {"name": "book", "arguments": {}}),
        ("resources/read", {"uri": "test://closed"}),
        ("resources/read", {"uri": "test://closed/1"}),
    ]:
        with subtests.test(method=method, params=params):
            client = signed_in(make_token(scope="travel:read"))
            body, headers = client.compose(method, params)
            answer = client.post(str(body).replace("'", '"').encode(), headers)
            assert answer.status == 403
            assert answer.headers["content-type"] == "application/json"
            assert answer.headers["cache-control"] == "no-store"
            assert answer.headers["www-authenticate"] == (
                'Bearer error="insufficient_scope", '
                'error_description="The access token does not allow this operation.", '
                'scope="travel:read travel:write", '
                'resource_metadata="https://travel.example.com/.well-known/oauth-protected-resource/test/mcp"'
            )
            assert answer.json["error"] == "insufficient_scope"


def test_a_tool_that_is_called_by_name_is_answered_with_what_to_ask_for_too(
    make_server: Make, server: MCPServer, make_token: Make, version: str, edge: str, open_database: None
) -> None:
    searched = make_server("searched", authentication=[OAuth2Authentication()], source=server, search_tools=True)
    token = make_token(scope="travel:read", resource=[f"{BASE}/searched/mcp"])
    client = Client(searched, version, edge)
    for name, status in (("book", 403), ("look", 200), ("guarded_book", 200)):
        body, headers = client.compose("tools/call", {"name": "call_destructive_tool", "arguments": {"name": name}})
        answer = client.post(json.dumps(body).encode(), {**headers, "authorization": f"Bearer {token}"})
        assert answer.status == status
        if status == 403:
            assert 'scope="travel:read travel:write"' in answer.headers["www-authenticate"]


def test_a_prompt_asks_for_all_its_scopes_at_once(signed_in: Make, make_token: Make) -> None:
    client = signed_in(make_token(scope="travel:read"))
    body, headers = client.compose("prompts/get", {"name": "plan"})
    answer = client.post(str(body).replace("'", '"').encode(), headers)
    assert answer.status == 403
    assert 'scope="travel:read travel:write travel:admin"' in answer.headers["www-authenticate"]


def test_a_batch_is_answered_with_what_all_of_it_needs(
    server: MCPServer, make_token: Make, open_database: None, edge: str
) -> None:
    client = Client(server, "2025-03-26", edge)
    ask = '[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"look"}},'
    ask += '{"jsonrpc":"2.0","id":2,"method":"prompts/get","params":{"name":"plan"}}]'
    headers = {"authorization": f"Bearer {make_token()}", "mcp-protocol-version": "2025-03-26"}
    answer = client.post(ask.encode(), headers)
    assert answer.status == 403
    assert "travel:admin" in answer.headers["www-authenticate"]


def test_a_broader_scope_is_enough(signed_in: Make, make_token: Make) -> None:
    client = signed_in(make_token(scope="travel:admin"))
    assert client.call("look").text == "seen"
    assert client.call("book").text == "booked"


def test_a_token_without_the_endpoints_own_scopes_may_do_nothing(signed_in: Make, make_token: Make) -> None:
    client = signed_in(make_token(scope="else"))
    for method in ("tools/list", "ping", "initialize"):
        body, headers = client.compose(method, {})
        answer = client.post(str(body).replace("'", '"').encode(), headers)
        assert answer.status == 403
        assert 'error="insufficient_scope"' in answer.headers["www-authenticate"]


def test_what_the_user_may_not_is_unknown_whatever_the_scopes(
    signed_in: Make, make_token: Make, user: Any, subtests: pytest.Subtests
) -> None:
    for name in ["guarded", "guarded_book"]:
        with subtests.test(name=name):
            client = signed_in(make_token(scope="travel:read"))
            assert client.call(name).error["message"] == client.call("no_such_tool").error["message"].replace(
                "no_such_tool", name
            )
            assert client.request("resources/read", {"uri": "test://guarded"}).error["message"] == "Resource not found"


def test_with_the_permission_the_scope_is_what_is_missing(signed_in: Make, make_token: Make, user: Any) -> None:
    permit(user)
    client = signed_in(make_token(scope="travel:read"))
    body, headers = client.compose("tools/call", {"name": "guarded_book", "arguments": {}})
    assert client.post(str(body).replace("'", '"').encode(), headers).status == 403


def test_a_clients_own_list_is_all_it_has(policies: None, signed_in: Make, make_token: Make, application: Any) -> None:
    limit_client(application.client_id, {("test", "book"), ("test", "look")})
    client = signed_in(make_token(scope="travel:write"))
    assert names(client) == ["look", "book"]
    limit_client(application.client_id, {("test", "look")})
    assert names(client) == ["look"]
    assert "book" in client.call("book").error["message"]
    assert client.call("look").text == "seen"


def test_one_clients_list_is_not_shown_to_another(
    policies: None,
    signed_in: Make,
    make_token: Make,
    make_application: Make,
    server: MCPServer,
    version: str,
    edge: str,
) -> None:
    open_server_list = ["look", "book"]
    narrow = make_application()
    limit_client(narrow.client_id, {("test", "look")})
    first, second = make_token(), make_token(application=narrow)
    client = Client(server, version, edge)

    def listed(token: str) -> list[str]:
        answer = client.request("tools/list", headers={"authorization": f"Bearer {token}"})
        return [each["name"] for each in answer.result["tools"]]

    assert listed(first) == open_server_list
    assert listed(second) == ["look"]
    assert listed(first) == open_server_list


def test_a_client_cut_to_some_scopes_does_not_see_what_it_can_never_get() -> None:
    server_tool = tool_with(scopes=["travel:write"])
    fixed = Principal("api_key", "1", None, scopes=frozenset({"travel:read"}))
    asking = Principal("oauth", "1", None, scopes=frozenset({"travel:read"}), steps_up=True)
    assert right_of_credential(fixed, server_tool) is Right.NONE
    assert right_of_credential(asking, server_tool) is Right.KNOW


def tool_with(**options: Any) -> Any:
    from django_mcp.primitives.tool import Tool

    return Tool(lambda: "x", context_type=Context, name="x", **options)


@pytest.mark.parametrize(("version", "queries"), [(MODERN, 1), ("2025-03-26", 1)])
def test_all_the_queries_of_a_call_that_reads_nothing_are_one(
    server: MCPServer, make_token: Make, version: str, queries: int
) -> None:
    tool(server=server, name="add", read_only=True)(lambda: "3")
    client, token = Client(server, version, "view"), make_token()
    params = {"name": "add", "arguments": {}}
    with CaptureQueriesContext(connection) as found:
        client.request("tools/call", params, headers={"authorization": f"Bearer {token}"})
    assert len(found) == queries, [each["sql"] for each in found]


def test_the_rights_are_found_with_the_queries_of_the_user_alone(
    server: MCPServer, make_token: Make, user: Any, application: Any
) -> None:
    """One for the token; two for a permission, of the user and of their groups; none for scopes and lists."""
    client = Client(server, MODERN, "view")
    token = make_token(scope="travel:read travel:write")

    def queries(name: str) -> int:
        params = {"name": name, "arguments": {}}
        with CaptureQueriesContext(connection) as found:
            client.request("tools/call", params, headers={"authorization": f"Bearer {token}"})
        return len([each for each in found if each["sql"].startswith("SELECT")])

    assert queries("look") == 1
    assert queries("book") == 1
    permit(user)
    assert queries("guarded") == 3


# Scopes


@pytest.mark.usefixtures("site")
def test_scopes_include_each_other_however_deep() -> None:
    assert expanded(frozenset({"travel:admin"})) == {"travel:admin", "travel:write", "travel:read"}
    assert expanded(frozenset({"unknown"})) == {"unknown"}
    assert covers(frozenset({"travel:admin"}), frozenset({"travel:read"}))
    assert not covers(frozenset({"travel:read"}), frozenset({"travel:admin"}))
    assert covers(None, frozenset({"travel:admin"}))
    assert in_order({"travel:admin", "zzz", "travel:read"}) == "travel:read travel:admin zzz"


def test_scopes_that_include_each_other_in_a_circle_are_all_the_same() -> None:
    circle = {"a": {"text": "A", "implies": ["b"]}, "b": {"text": "B", "implies": ["a"]}}
    with override_settings(DJANGO_MCP={"SCOPES": circle, "BASE_URL": BASE}):
        assert expanded(frozenset({"b"})) == {"a", "b"}
    with override_settings(DJANGO_MCP={"SCOPES": SCOPES, "BASE_URL": BASE}):
        assert expanded(frozenset({"b"})) == {"b"}


def test_a_single_scope_is_written_as_a_list(make_server: Make, subtests: pytest.Subtests) -> None:
    for make in [tool_with, lambda **o: MCPServer("wrong", **o)]:
        match = r"scopes must be a list, like \['travel:read'\]"
        with subtests.test(make=make), pytest.raises(ImproperlyConfigured, match=match):
            make(scopes="travel:read")


def test_one_function_may_be_offered_at_several_endpoints(make_server: Make, open_database: None) -> None:
    first, second = make_server("first"), make_server("second")

    @tool(server=[first, second], name="shared", read_only=True)
    def shared() -> str:
        return "shared"

    tool(server=second, name="alone", read_only=True)(lambda: "x")
    for server, offered in ((first, ["shared"]), (second, ["shared", "alone"])):
        client = Client(server, LEGACY, "asgi")
        assert names(client) == offered
        assert client.call("shared").text == "shared"


# What belongs to a caller is nobody else's


@pytest.fixture
def other(make_user: Make, make_token: Make) -> str:
    """The token of another user, of the same client."""
    return make_token(user=make_user(), scope="travel:write")


def test_a_session_is_its_users_alone(
    server: MCPServer, open_database: None, make_token: Make, other: str, edge: str
) -> None:
    """[24]"""
    with Room(server, edge) as room:
        mine = Conversation(room, LEGACY, headers={"authorization": f"Bearer {make_token()}"}).open()
        unknown = Conversation(room, LEGACY, headers={"authorization": f"Bearer {other}"}, session="unknown")
        thief = Conversation(room, LEGACY, headers={"authorization": f"Bearer {other}"}, session=mine.session)
        thief.opened = unknown.opened = True
        stolen, missing = thief.begin("tools/list"), unknown.begin("tools/list")
        assert stolen.exchange.done().status == missing.exchange.done().status == 404
        assert stolen.exchange.json["error"] == missing.exchange.json["error"]
        assert thief.delete().status == 404
        assert thief.get().done().status == 404
        assert mine.delete({"authorization": None}).status == 401
        assert mine.request("tools/list").result["tools"]


def test_a_state_is_its_users_alone(
    server: MCPServer, open_database: None, make_token: Make, other: str, edge: str
) -> None:
    """[25]"""

    @tool(server=server)
    def ask(ctx: Context) -> str:
        return str(ctx.confirm("Sure?"))

    with Room(server, edge) as room:
        mine = Conversation(room, MODERN, headers={"authorization": f"Bearer {make_token()}"})
        first = list(mine.begin_call("ask"))[-1]["result"]
        key = next(iter(first["inputRequests"]))
        answered = {"inputResponses": {key: {"action": "accept", "content": {"confirmed": True}}}}
        params = {"name": "ask", "arguments": {}, **answered, "requestState": first["requestState"]}
        thief = Conversation(room, MODERN, headers={"authorization": f"Bearer {other}"})
        refused = list(thief.begin("tools/call", params))[-1]
        assert "requestState" in refused["error"]["message"]


def test_a_token_that_was_renewed_goes_on_in_the_session(
    server: MCPServer, open_database: None, make_token: Make, edge: str
) -> None:
    with Room(server, edge) as room:
        mine = Conversation(room, LEGACY, headers={"authorization": f"Bearer {make_token()}"}).open()
        mine.headers = {"authorization": f"Bearer {make_token(scope='travel:write')}"}
        assert mine.call("book").text == "booked"


def test_two_authenticators_stand_side_by_side() -> None:
    assert [each().blocking for each in (OAuth2Authentication, APIKeyAuthentication)] == [True, True]
