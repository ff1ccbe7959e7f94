"""What a caller may not use does not exist for them: in lists, calls, completion, subscriptions and counts."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_mcp import AllowAny, Context, MCPServer, prompt, resource, tool
from tests.behaviour.afresh import afresh
from tests.behaviour.users import OTHER_PERMISSION, PERMISSION, ByName, as_user
from tests.clients import LEGACY, MODERN, Client
from tests.conversation import Conversation
from tests.exchange import Room

Make = Callable[..., Any]
LISTS = ("tools/list", "resources/list", "resources/templates/list", "prompts/list")


@pytest.fixture
def server(make_server: Callable[..., MCPServer]) -> MCPServer:
    return make_server(authentication=[ByName()])


def offer(server: MCPServer, **options: Any) -> None:
    """One of each kind, with the same options; and one of each that everybody has."""
    tool(server=server, name="open")(lambda: "open")
    tool(server=server, name="closed", **options)(lambda: "closed")
    resource("test://open", server=server)(lambda: "open")
    resource("test://closed", server=server, **options)(lambda: "closed")
    resource("test://closed/{name}", server=server, completions={"name": lambda value: ["a"]}, **options)(
        lambda name: name
    )
    prompt(server=server, name="open")(lambda: "open")
    prompt(server=server, name="closed", completions={"word": lambda value: ["a"]}, **options)(lambda word: word)


class As:
    """A client in the name of a user."""

    def __init__(self, client: Client, user: Any, **headers: str) -> None:
        self.client = client
        self.headers = {**as_user(user), **headers}

    def request(self, method: str, params: Any = None) -> Any:
        return self.client.request(method, params, headers=self.headers)

    def call(self, name: str, /, **arguments: Any) -> Any:
        return self.request("tools/call", {"name": name, "arguments": arguments})

    def listed(self, method: str) -> list[str]:
        (entries,) = (value for value in self.request(method).result.values() if isinstance(value, list))
        return [each.get("uri") or each.get("uriTemplate") or each["name"] for each in entries]

    def everything(self) -> list[str]:
        return [name for method in LISTS for name in self.listed(method)]


OPEN = ["open", "test://open", "open"]
ALL = ["open", "closed", "test://open", "test://closed", "test://closed/{name}", "open", "closed"]


def asks_for_nobody(ctx: Context) -> bool:
    return ctx.user.username == "nobody"


WAYS = [
    ({"permission": PERMISSION}, {}, {"permissions": (PERMISSION,)}),
    (
        {"permission": [PERMISSION, OTHER_PERMISSION]},
        {"permissions": (PERMISSION,)},
        {"permissions": (PERMISSION, OTHER_PERMISSION)},
    ),
    ({"groups": ["Desk", "Office"]}, {"groups": ("Cellar",)}, {"groups": ("Office",)}),
    ({"visible": lambda ctx: ctx.user.first_name == "Anna"}, {"first_name": "Ben"}, {"first_name": "Anna"}),
    (
        {"groups": ["Desk"], "permission": PERMISSION},
        {"groups": ("Desk",)},
        {"groups": ("Desk",), "permissions": (PERMISSION,)},
    ),
]


def test_what_is_hidden_is_in_no_list_and_no_call(
    server: MCPServer, client: Client, make_user: Make, subtests: pytest.Subtests
) -> None:
    for options, lacking, having in WAYS:
        with subtests.test(options=options, lacking=lacking, having=having), afresh():
            offer(server, **options)
            out, inside = As(client, make_user(**lacking)), As(client, make_user(**having))
            assert out.everything() == OPEN
            assert inside.everything() == ALL
            assert inside.call("closed").text == "closed"
            assert inside.request("resources/read", {"uri": "test://closed/1"}).result["contents"][0]["text"] == "1"
            assert inside.request("prompts/get", {"name": "closed", "arguments": {"word": "x"}}).result["messages"]
            for method, key, hidden, missing in (
                ("tools/call", "name", "closed", "no_such"),
                ("prompts/get", "name", "closed", "no_such"),
                ("resources/read", "uri", "test://closed", "test://no-such"),
                ("resources/read", "uri", "test://closed/1", "test://no-such/1"),
            ):
                errors = [out.request(method, {key: value}).json["error"] for value in (hidden, missing)]
                assert str(errors[0]).replace(hidden, missing) == str(errors[1])


def test_what_is_hidden_is_not_completed(
    server: MCPServer, client: Client, make_user: Make, subtests: pytest.Subtests
) -> None:
    for options, lacking, having in WAYS:
        with subtests.test(options=options, lacking=lacking, having=having), afresh():
            offer(server, **options)
            out, inside = As(client, make_user(**lacking)), As(client, make_user(**having))
            for ref, argument in (
                ({"type": "ref/prompt", "name": "closed"}, "word"),
                ({"type": "ref/resource", "uri": "test://closed/{name}"}, "name"),
            ):
                params = {"ref": ref, "argument": {"name": argument, "value": ""}}
                assert inside.request("completion/complete", params).result["completion"]["values"] == ["a"]
                assert "Unknown" in out.request("completion/complete", params).error["message"]


def test_what_is_hidden_cannot_be_subscribed_to(
    server: MCPServer, open_database: None, make_user: Make, subtests: pytest.Subtests
) -> None:
    for options, lacking, having in WAYS:
        with subtests.test(options=options, lacking=lacking, having=having), afresh():
            offer(server, **options)
            wanted = {"notifications": {"resourceSubscriptions": ["test://closed", "test://closed/1", "test://open"]}}
            with Room(server, "asgi") as room:
                for fields, heard in (
                    (lacking, ["test://open"]),
                    (having, wanted["notifications"]["resourceSubscriptions"]),
                ):
                    user = make_user(**fields)
                    call = Conversation(room, MODERN, headers=as_user(user)).begin("subscriptions/listen", wanted)
                    assert call.next()["params"]["notifications"]["resourceSubscriptions"] == heard
                    legacy = Conversation(room, LEGACY, headers=as_user(user))
                    answer = legacy.request("resources/subscribe", {"uri": "test://closed"})
                    assert ("result" in answer.response) is (len(heard) > 1)


def test_a_superuser_has_every_permission_and_is_in_no_group(
    server: MCPServer, client: Client, make_user: Make
) -> None:
    """As Django has it: ``has_perm`` says yes, and nobody put them into the group."""
    tool(server=server, name="permitted", permission=PERMISSION)(lambda: "x")
    tool(server=server, name="of_the_desk", groups=["Desk"])(lambda: "x")
    assert As(client, make_user(is_superuser=True)).listed("tools/list") == ["permitted"]


def test_nobody_in_particular_has_no_permission_and_no_group(make_server: Make, open_database: None) -> None:
    server = make_server("public", authentication=[AllowAny()])
    offer(server, groups=["Desk"])
    tool(server=server, name="permitted", permission=PERMISSION)(lambda: "x")
    client = Client(server, MODERN, "asgi")
    assert [each["name"] for each in client.list("tools/list")] == ["open"]
    assert "Unknown tool" in client.call("closed").error["message"]


# The predicate


def test_a_predicate_knows_who_calls_and_which_method(server: MCPServer, client: Client, make_user: Make) -> None:
    seen: list[tuple[Any, ...]] = []

    def visible(ctx: Context) -> bool:
        seen.append((ctx.user.username, ctx.method, ctx.params.get("name"), ctx.server))
        return True

    user = make_user()
    tool(server=server, name="watched", visible=visible)(lambda: "x")
    caller = As(client, user)
    caller.listed("tools/list")
    caller.call("watched")
    assert seen == [(user.username, "tools/list", None, server), (user.username, "tools/call", "watched", server)]


def test_a_predicate_may_query_at_every_edge(server: MCPServer, client: Client, make_user: Make) -> None:
    tool(server=server, name="query", visible=lambda ctx: ctx.user.groups.filter(name="Desk").exists())(lambda: "x")
    assert As(client, make_user(groups=("Desk",))).listed("tools/list") == ["query"]
    assert As(client, make_user()).listed("tools/list") == []


@pytest.mark.parametrize("ask", [lambda ctx: 1 / 0, lambda ctx: ctx.confirm("May you?")])
def test_a_predicate_that_fails_or_asks_hides_and_is_logged(
    server: MCPServer, client: Client, make_user: Make, caplog: pytest.LogCaptureFixture, ask: Any
) -> None:
    offer(server, visible=ask)
    with caplog.at_level(logging.ERROR, "django_mcp"):
        caller = As(client, make_user())
        assert caller.everything() == OPEN
        assert caller.call("closed").error["message"] == "Unknown tool: 'closed'."
    assert "tool 'closed' (" in caplog.text
    assert "Traceback" in caplog.text


async def asynchronous(ctx: Context) -> bool:
    return True


def test_a_predicate_is_a_plain_function(server: MCPServer) -> None:
    with pytest.raises(ImproperlyConfigured, match="visible must not be async"):
        tool(server=server, name="later", visible=asynchronous)(lambda: "x")


def test_a_single_name_is_written_as_a_list(server: MCPServer, subtests: pytest.Subtests) -> None:
    for option in ["groups", "scopes", "tags"]:
        match = rf"{option} must be a list, like \['Desk'\]"
        with subtests.test(option=option), pytest.raises(ImproperlyConfigured, match=match):
            tool(server=server, name="one", **{option: "Desk"})(lambda: "x")


# What it costs


def queries(caller: As, method: str, params: Any = None) -> Sequence[str]:
    with CaptureQueriesContext(connection) as found:
        caller.request(method, params)
    return [each["sql"] for each in found]


@pytest.mark.postgresql
def test_a_hundred_tools_with_rights_take_as_many_queries_as_one(
    make_server: Make, open_database: None, make_user: Make
) -> None:
    """One for the user; two for permissions, of the user and of their groups; one for the groups' names."""
    user = make_user(groups=("Desk",), permissions=(PERMISSION,))
    counts = []
    for many in (1, 100):
        server = make_server(f"with-{many}", authentication=[ByName()])
        for number in range(many):
            tool(server=server, name=f"p{number}", permission=PERMISSION)(lambda: "x")
            tool(server=server, name=f"g{number}", groups=["Desk"])(lambda: "x")
        caller = As(Client(server, MODERN, "view"), user)
        assert len(caller.listed("tools/list")) == 2 * many
        counts.append(len(queries(caller, "tools/list")))
    assert counts == [4, 4]


@pytest.mark.postgresql
def test_a_name_that_nobody_has_takes_the_queries_of_a_hidden_one(
    server: MCPServer, open_database: None, make_user: Make
) -> None:
    """So that a clock does not tell them apart."""
    offer(server, permission=PERMISSION)
    caller = As(Client(server, MODERN, "view"), make_user())
    for method in ("tools/call", "prompts/get"):
        hidden, missing = (queries(caller, method, {"name": name}) for name in ("closed", "no_such"))
        assert len(hidden) == len(missing) == 3


def test_a_near_name_is_suggested_to_whoever_may_use_the_tool(
    server: MCPServer, client: Client, make_user: Make
) -> None:
    offer(server, permission=PERMISSION)
    out, inside = (As(client, make_user(permissions=each)) for each in ((), (PERMISSION,)))
    assert out.call("closer").error["message"] == "Unknown tool: 'closer'."
    assert inside.call("closer").error["message"] == "Unknown tool: 'closer'. Did you mean 'closed'?"


def test_a_list_that_depends_on_nobody_is_kept_for_everybody_and_another_is_not(
    server: MCPServer, make_user: Make, open_database: None
) -> None:
    offer(server)
    caller = As(Client(server, MODERN, "asgi"), make_user())
    assert caller.request("tools/list").result["cacheScope"] == "public"
    tool(server=server, name="watched", visible=lambda ctx: True)(lambda: "x")
    assert caller.request("tools/list").result["cacheScope"] == "private"
    assert server.pages == {}
