"""Very many tools: found by words and called by name, with the rights and the conduct of a direct call."""

import json
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import pytest
from django.core.cache import cache
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings
from pydantic import BaseModel, Field

from django_mcp import Context, HeaderParam, MCPServer, ToolError, tool
from django_mcp.approvals.tool_policies import limit_client
from django_mcp.protocol import versions
from tests.behaviour.test_visibility import As
from tests.behaviour.users import PERMISSION, ByName
from tests.clients import LEGACY, MODERN, Client
from tests.conversation import Conversation, accept

Make = Callable[..., Any]
FINDERS = ["search_tools", "call_read_tool", "call_write_tool", "call_destructive_tool"]
WITHOUT_HINTS = "call_destructive_tool"


@pytest.fixture
def server(make_server: Callable[..., MCPServer]) -> MCPServer:
    """An endpoint whose tools are searched wherever there are more than two."""
    server = make_server(search_tools=2)

    @tool(server=server, tags=["money"], idempotent=True)
    def refund_invoice(invoice: int, reason: str = "") -> str:
        """Give a customer their money back.

        Args:
            invoice: Its number.
            reason: Why, in words for the customer.
        """
        return f"refunded {invoice} {reason}".strip()

    @tool(server=server, tags=["desk"], read_only=True)
    def find_customers(name: str) -> list[str]:
        """Look up customers by name."""
        return [name]

    @tool(server=server, tags=["desk"], title="Réserver un hôtel")
    def book(nights: int) -> str:
        """Keep a room."""
        return f"{nights} nights"

    return server


def names(entries: list[dict[str, Any]]) -> list[str]:
    return [each["name"] for each in entries]


def search(client: Client, query: str, **more: Any) -> dict[str, Any]:
    answer = client.call("search_tools", query=query, **more).result
    assert not answer.get("isError"), answer
    found: dict[str, Any] = json.loads(answer["content"][0]["text"])
    if client.version in (MODERN, LEGACY) and found["tools"]:
        assert answer["structuredContent"] == found
    return found


def through(client: Any, name: str, **arguments: Any) -> Any:
    return client.call(WITHOUT_HINTS, name=name, arguments=arguments)


# Lists


def test_many_tools_are_not_listed_but_found(client: Client) -> None:
    listed = client.list("tools/list")
    assert names(listed) == FINDERS
    hints = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
    assert listed[0]["annotations"] == hints
    assert listed[0]["inputSchema"]["required"] == ["query"]
    assert listed[1]["inputSchema"]["properties"]["arguments"]["type"] == "object"
    assert "There are 3 tools, tagged: desk (2), money (1)." in listed[0]["description"]
    assert names(search(client, "customer")["tools"]) == ["find_customers", "refund_invoice"]


def test_few_tools_are_listed_as_ever(server: MCPServer, client: Client) -> None:
    del server.tools["book"]
    assert names(client.list("tools/list")) == ["refund_invoice", "find_customers"]
    # A client that read the list when there were more is not left in the lurch.
    assert names(search(client, "customers")["tools"]) == ["find_customers", "refund_invoice"]


@pytest.mark.parametrize("version", versions.SUPPORTED)
def test_every_version_finds_and_calls(server: MCPServer, version: str, open_database: None) -> None:
    client = Client(server, version, "asgi")
    assert names(client.list("tools/list")) == FINDERS
    assert names(search(client, "refund")["tools"]) == ["refund_invoice"]
    assert through(client, "refund_invoice", invoice=3).text == "refunded 3"


def test_what_is_always_listed_is_listed_beside_them(server: MCPServer, client: Client) -> None:
    for number in range(3):
        tool(server=server, name=f"begin_{number}", always_listed=True)(lambda: "x")
    server.page_size = 6
    assert names(client.list("tools/list")) == [*FINDERS, "begin_0", "begin_1", "begin_2"]
    assert len(client.request("tools/list").result["tools"]) == 6


def test_the_list_is_kept_for_everybody_where_it_depends_on_nobody(server: MCPServer, open_database: None) -> None:
    client = Client(server, MODERN, "asgi")
    assert client.request("tools/list").result["cacheScope"] == "public"
    assert list(server.pages)
    tool(server=server, tags=["new"], name="later")(lambda: "x")
    assert "new (1)" in client.request("tools/list").result["tools"][0]["description"]


@pytest.mark.parametrize(("above", "is_searched"), [(0, False), (1, True), (2, True), (3, False), (100, False)])
def test_the_setting_is_for_endpoints_that_say_nothing(
    server: MCPServer, make_server: Make, open_database: None, above: int, is_searched: bool
) -> None:
    silent, never = make_server("silent", source=server), make_server("never", source=server, search_tools=0)
    always = make_server("always", source=server, search_tools=True)
    with override_settings(DJANGO_MCP={"AUTHENTICATION": ["django_mcp.AllowAny"], "TOOL_SEARCH_THRESHOLD": above}):
        for each, expected in ((silent, is_searched), (never, False), (always, True)):
            client = Client(each, MODERN, "asgi")
            assert (names(client.list("tools/list")) == FINDERS) is expected


def test_an_endpoint_without_search_has_no_such_tools(make_server: Make, client: Client, open_database: None) -> None:
    plain = make_server("plain")
    tool(server=plain, name="one")(lambda: "x")
    for name in FINDERS:
        answer = Client(plain, client.version, client.edge).call(name, query="x")
        assert answer.error["message"] == f"Unknown tool: {name!r}."


@pytest.mark.parametrize("name", FINDERS)
def test_a_tool_of_the_same_name_is_told(server: MCPServer, make_server: Make, name: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="uses this name; rename it"):
        tool(server=server, name=name)(lambda: "x")
    tool(server=make_server("plain"), name=name)(lambda: "x")


# Searching


def test_words_are_looked_for_in_all_that_describes_a_tool(server: MCPServer, subtests: pytest.Subtests) -> None:
    cases = [
        ("refund", ["refund_invoice"]),
        ("REFUNDS", ["refund_invoice"]),
        ("give money back", ["refund_invoice"]),
        ("reserver", ["book"]),
        ("hôtels", ["book"]),
        ("nights", ["book"]),
        ("why", ["refund_invoice"]),
        ("desk", ["find_customers", "book"]),
        ("findCustomers", ["find_customers", "refund_invoice"]),
        ("fi", []),
        ("zeppelin", []),
        ("", []),
        ("?!", []),
    ]
    for query, found in cases:
        with subtests.test(query=query, found=found):
            from django_mcp.core.tool_search import best

            assert [each.name for each in best(list(server.tools.values()), query)] == found


def test_a_name_counts_more_than_a_description_and_a_rare_word_more_than_a_common_one(server: MCPServer) -> None:
    from django_mcp.core.tool_search import best

    tool(server=server, name="cancel_trip", description="A trip ends, and an invoice with it.")(lambda: "x")
    tool(server=server, name="plan_trip", description="Where a trip leads.")(lambda: "x")
    tool(server=server, name="share_trip", description="Tell others of a trip.")(lambda: "x")
    tools = list(server.tools.values())
    assert [each.name for each in best(tools, "invoice")] == ["refund_invoice", "cancel_trip"]
    assert best(tools, "cancel trip")[0].name == "cancel_trip"
    assert [each.name for each in best(tools, "trip")] == ["cancel_trip", "plan_trip", "share_trip"], "as registered"


def test_what_is_found_is_all_a_call_needs(client: Client) -> None:
    (found,) = search(client, "refund")["tools"]
    assert found["inputSchema"]["properties"]["invoice"] == {"description": "Its number.", "type": "integer"}
    assert (found["description"], found["annotations"], found["call"]) == (
        "Give a customer their money back.",
        {"idempotentHint": True},
        "call_destructive_tool",
    )
    assert "outputSchema" not in found


def test_no_more_is_given_than_was_asked_for_and_how_many_there_are(server: MCPServer, client: Client) -> None:
    for number in range(30):
        tool(server=server, name=f"report_{number}")(lambda: "x")
    assert names(search(client, "report")["tools"]) == [f"report_{number}" for number in range(5)]
    assert search(client, "report")["total"] == 30
    assert len(search(client, "report", limit=20)["tools"]) == 20
    assert "at most 20" in client.call("search_tools", query="x", limit=21).text


def test_where_nothing_is_found_the_model_reads_what_there_is(client: Client) -> None:
    text = client.call("search_tools", query="zeppelin").text
    assert text == "No tool matches any of these words. There are 3 tools, tagged: desk (2), money (1)."


# Calling


def test_a_clients_rules_for_tools_keep_their_meaning(server: MCPServer, client: Client) -> None:
    tool(server=server, name="add_note", destructive=False)(lambda: "added")
    tool(server=server, name="drop_note", destructive=True)(lambda: "dropped")
    hints = {each["name"]: each["annotations"] for each in client.list("tools/list")}
    assert hints["call_read_tool"] == {"readOnlyHint": True, "destructiveHint": False}
    assert hints["call_write_tool"] == {"readOnlyHint": False, "destructiveHint": False}
    assert hints["call_destructive_tool"] == {"readOnlyHint": False, "destructiveHint": True}
    wanted = {
        "find_customers": "call_read_tool",
        "add_note": "call_write_tool",
        "drop_note": "call_destructive_tool",
        "book": "call_destructive_tool",  # which says nothing of itself
    }
    arguments = {"find_customers": {"name": "Ann"}, "book": {"nights": 1}}
    for name, relay in wanted.items():
        (found,) = (each for each in search(client, name)["tools"] if each["name"] == name)
        assert found["call"] == relay
        for each in FINDERS[1:]:
            answer = client.call(each, name=name, arguments=arguments.get(name, {}))
            if each == relay:
                assert not answer.result.get("isError"), answer.text
            else:
                assert answer.text == f"{each} does not call {name!r}. Use {relay}."
                assert answer.result["isError"]


def test_a_call_by_name_is_the_call_itself(server: MCPServer, client: Client) -> None:
    class Sum(BaseModel):
        total: int

    seen = []

    @tool(server=server)
    def add(ctx: Context, a: int, b: int = 1) -> Sum:
        """Add."""
        seen.append((ctx.method, ctx.params["name"], ctx.params["arguments"], ctx.is_relayed))
        return Sum(total=a + b)

    plain, relayed = client.call("add", a=1), through(client, "add", a=1)
    assert plain.result == relayed.result
    assert relayed.result["structuredContent"] == {"total": 2}
    assert seen == [("tools/call", "add", {"a": 1}, False), ("tools/call", "add", {"a": 1}, True)]


def test_what_is_wrong_with_the_arguments_is_told_in_the_tools_own_words(client: Client) -> None:
    for arguments in ({}, {"invoice": "many"}, {"invoice": 1, "cause": "x"}):
        plain, relayed = client.call("refund_invoice", **arguments), through(client, "refund_invoice", **arguments)
        assert plain.result == relayed.result
        assert relayed.result["isError"]


def test_a_call_that_names_no_tool_is_told_to_the_model(client: Client, subtests: pytest.Subtests) -> None:
    cases = [
        ({}, "Missing argument 'name'"),
        ({"name": 3}, "Argument 'name'"),
        ({"name": "book", "arguments": "[1]"}, "Argument 'arguments'"),
        (
            {"name": "book", "nights": 1},
            (
                "Unknown argument 'nights'. It takes 'name', 'arguments'. Put the arguments of the tool itself into "
                "'arguments'."
            ),
        ),
        (
            {"name": "refund_invoise"},
            (
                "Unknown tool: 'refund_invoise'. Did you mean 'refund_invoice'? "
                "Use search_tools to find the available tools."
            ),
        ),
        ({"name": "buk", "arguments": {}}, "Unknown tool: 'buk'. Use search_tools to find the available tools."),
        ({"name": WITHOUT_HINTS, "arguments": {"name": "book"}}, f"Unknown tool: '{WITHOUT_HINTS}'."),
    ]
    for arguments, words in cases:
        with subtests.test(arguments=arguments, words=words):
            answer = client.call(WITHOUT_HINTS, **arguments)
            assert answer.result["isError"]
            assert words in answer.text


def test_a_search_can_be_called_by_name_too(client: Client) -> None:
    answer = client.call("call_read_tool", name="search_tools", arguments={"query": "refund"})
    assert "refund_invoice" in answer.text


def test_a_tool_that_is_not_listed_can_be_called_directly(client: Client) -> None:
    assert client.call("book", nights=2).text == "2 nights"


def test_arguments_that_headers_repeat_need_no_header_there(server: MCPServer, modern: Client) -> None:
    """No proxy can route by them, and no client knows of them: the schema that it read is that of another tool."""
    tool(server=server, name="ship")(ship)
    assert modern.call("ship", region="north").code == -32020
    assert through(modern, "ship", region="north").text == "to north"


def ship(region: Annotated[str, HeaderParam("Region")]) -> str:
    """Ship."""
    return f"to {region}"


def test_questions_and_progress_reach_the_client_and_the_answers_the_tool(
    server: MCPServer, talk: Conversation, kind: str
) -> None:
    def steps(ctx: Context, label: str) -> str:
        ctx.report_progress(1, 2)
        first = ctx.elicit("Name?", NAME, key="name").data["name"]
        second = ctx.confirm(f"Sure, {first}?", key="sure")
        return f"{label} {first} {second}"

    def plain(ctx: Context, label: str) -> str:
        return steps(ctx, label)

    async def coroutine(ctx: Context, label: str) -> str:
        return steps(ctx, label)

    tool(server=server, name="ask")(plain if kind == "sync" else coroutine)
    arguments = {"name": "ask", "arguments": {"label": "x"}}
    outcome = talk.call(
        WITHOUT_HINTS, answers=[accept(name="Anna"), accept(confirm=True)], meta={"progressToken": 7}, **arguments
    )
    assert outcome.text == "x Anna True"
    assert {each["progressToken"] for each in outcome.told("notifications/progress")} == {7}


NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@pytest.mark.parametrize(("options", "again"), [({}, "already used"), ({"idempotent": True}, None)])
def test_a_state_is_used_once_as_it_is_in_a_direct_call(
    server: MCPServer, modern_talk: Conversation, options: Any, again: str | None
) -> None:
    acted = []

    @tool(server=server, **options)
    def ask(ctx: Context) -> str:
        if ctx.confirm("Sure?"):
            acted.append(1)
        return "done"

    params = {"name": WITHOUT_HINTS, "arguments": {"name": "ask"}}
    (asked,) = list(modern_talk.begin("tools/call", params))
    (key,) = asked["result"]["inputRequests"]
    answered = {
        **params,
        "requestState": asked["result"]["requestState"],
        "inputResponses": {key: accept(confirm=True)},
    }
    first, second = (list(modern_talk.begin("tools/call", answered))[-1] for _ in range(2))
    assert first["result"]["content"][0]["text"] == "done"
    if again:
        assert again in second["error"]["message"]
    assert len(acted) == (1 if again else 2)


def test_what_a_tool_wrote_is_rolled_back_with_its_error(server: MCPServer, client: Client, rows: Any) -> None:
    @tool(server=server)
    def write(fails: bool) -> str:
        rows("a row")
        if fails:
            raise ToolError("no")
        return "yes"

    assert through(client, "write", fails=True).text == "no"
    assert rows.written() == []
    assert through(client, "write", fails=False).text == "yes"
    assert rows.written() == ["a row"]


@pytest.fixture
def no_calls_yet() -> Iterator[None]:
    cache.clear()
    yield
    cache.clear()


@pytest.mark.usefixtures("no_calls_yet")
def test_calls_by_name_count_against_the_limits_of_the_tool(server: MCPServer, client: Client) -> None:
    tool(server=server, name="rare", rate_limit="2/d")(lambda: "x")
    assert client.call("rare").text == "x"
    assert through(client, "rare").text == "x"
    for refused in (client.call("rare"), through(client, "rare")):
        assert (refused.status, refused.code) == (429, -32000)
    assert through(client, "book", nights=1).text == "1 nights"


# Rights


@pytest.fixture
def guarded(make_server: Callable[..., MCPServer]) -> MCPServer:
    server = make_server("guarded", authentication=[ByName()], search_tools=3)
    for number in range(3):
        tool(server=server, name=f"open_{number}", tags=["open"])(lambda: "x")
    tool(server=server, name="open_refund", tags=["secret-tag"], permission=PERMISSION)(lambda: "refunded")
    return server


def test_what_is_hidden_is_neither_found_nor_called_nor_counted(
    guarded: MCPServer, version: str, edge: str, make_user: Make
) -> None:
    client = Client(guarded, version, edge)
    out, inside = As(client, make_user()), As(client, make_user(permissions=(PERMISSION,)))
    # The threshold counts what this caller may use: for one there are few tools, for the other many.
    assert out.listed("tools/list") == ["open_0", "open_1", "open_2"]
    for _ in range(2):
        assert inside.listed("tools/list") == FINDERS
    for each, expected in ((out, 3), (inside, 4)):
        (found,) = (json.loads(block["text"]) for block in each.call("search_tools", query="open").result["content"])
        assert found["total"] == expected
    assert "secret-tag" in str(inside.request("tools/list").json)
    nothing = out.call("search_tools", query="refund").text
    assert nothing == "No tool matches any of these words. There are 3 tools, tagged: open (3)."
    hidden, missing = (out.call(WITHOUT_HINTS, name=name).text for name in ("open_refund", "open_nobody"))
    assert hidden.replace("open_refund", "open_nobody") == missing
    assert out.call("call_read_tool", name="open_refund").text == hidden
    assert inside.call(WITHOUT_HINTS, name="open_refund").text == "refunded"


def test_rarity_is_counted_among_what_the_caller_may_see(guarded: MCPServer, make_user: Make) -> None:
    """Or the order of what is found would tell of what is hidden."""
    client = Client(guarded, LEGACY, "asgi")
    out = As(client, make_user())
    before = out.call("search_tools", query="open number", limit=20).text
    for number in range(5):
        tool(server=guarded, name=f"number_{number}", permission=PERMISSION)(lambda: "x")
    assert out.call("search_tools", query="open number", limit=20).text == before


def test_a_clients_own_list_is_all_that_is_found_and_called(
    guarded: MCPServer, version: str, edge: str, make_user: Make, policies: None
) -> None:
    limit_client("the-client", {(guarded.name, "open_1"), (guarded.name, "open_2")})
    caller = As(Client(guarded, version, edge), make_user(), **{"x-client": "the-client"})
    assert caller.listed("tools/list") == ["open_1", "open_2"]
    assert json.loads(caller.call("search_tools", query="open").text)["total"] == 2
    assert "Unknown tool: 'open_0'" in caller.call(WITHOUT_HINTS, name="open_0").text
    assert caller.call(WITHOUT_HINTS, name="open_1").text == "x"


# What it saves


def invoice_tool(number: int) -> Callable[..., Any]:
    def work(
        invoice: Annotated[int, Field(description="The number of the invoice.", ge=1)],
        reason: Annotated[str, Field(description="Why, in a sentence for the customer.")] = "",
    ) -> dict[str, int]:
        return {"invoice": invoice}

    work.__doc__ = f"Does step {number} of what is done with an invoice, and says which one that was."
    return work


def test_a_searched_list_of_two_hundred_tools_is_a_page_and_no_book(
    make_server: Make, open_database: None, record_property: Callable[[str, object], None]
) -> None:
    sizes = {}
    plain = make_server("plain")
    for number in range(200):
        tool(server=plain, name=f"invoice_step_{number}", tags=["billing"])(invoice_tool(number))
    searched = make_server("searched", source=plain, search_tools=50)
    for each in (plain, searched):
        sizes[each.name] = len(Client(each, MODERN, "asgi").request("tools/list").body)
    found = len(Client(searched, MODERN, "asgi").call("search_tools", query="invoice step 17").body)
    print(f"tools/list of 200 tools: {sizes}; an answer of search_tools: {found} bytes")  # noqa: T201
    record_property("bytes", sizes)
    assert sizes["plain"] > 100_000
    assert sizes["searched"] < sizes["plain"] / 30
    assert found < 10_000
