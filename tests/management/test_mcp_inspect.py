"""``manage.py mcp_inspect``."""

from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import CommandError
from django.test import override_settings

from django_mcp import AllowAny, Context, MCPServer, ModelResource, prompt, register, resource, tool
from django_mcp.approvals.tool_policies import limit_client
from django_mcp.client.in_process import permission_context
from django_mcp.core.permissions import Right, right
from django_mcp.management.base import find_principal
from django_mcp.management.commands.mcp_inspect import as_client_user, hidden_reasons
from django_mcp.models import ClientPolicy, ToolPolicy
from django_mcp.transports.stdio import django_request
from tests.behaviour import users
from tests.model_resources.library.models import Tag

Run = Callable[..., Any]
SCOPES = {
    "SCOPES": {"shop:read": "Read", "shop:write": {"text": "Write", "implies": ["shop:read"]}},
    "DEFAULT_SCOPES": ["shop:read"],
    "AUTHENTICATION": ["django_mcp.AllowAny"],
}


@pytest.fixture
def shop(make_server: Callable[..., MCPServer]) -> MCPServer:
    """An endpoint with something of every kind, for different people."""
    shop = make_server("shop", title="The shop", authentication=[AllowAny()])

    @tool(server=shop, title="Find goods", read_only=True)
    def find(words: str) -> str:
        """Goods that have these words."""
        return words

    @tool(server=shop, permission=users.PERMISSION)
    def refund(order: int) -> str:
        """Give the money back."""
        return str(order)

    @tool(server=shop, groups=["buyers"])
    def buy() -> str:
        """Buy."""
        return "bought"

    @tool(server=shop, visible=lambda ctx: False)
    def secret() -> str:
        """Nobody's business."""
        return ""

    @tool(server=shop, scopes=["shop:write"])
    def write() -> str:
        """Write."""
        return ""

    @resource("shop://rules", server=shop, permission=users.PERMISSION)
    def rules() -> str:
        """The rules."""
        return ""

    @resource("shop://goods/{number}", server=shop)
    def goods(number: int) -> str:
        """One of the goods."""
        return str(number)

    @prompt(server=shop)
    def praise(what: str) -> str:
        """Praise something."""
        return what

    return shop


def entry(document: Any, name: str, kind: str = "tools") -> Any:
    (endpoint,) = document["endpoints"]
    return next(each for each in endpoint[kind] if each["name"] == name)


def test_an_operator_sees_everything_there_is(shop: MCPServer, run: Run) -> None:
    text = run("mcp_inspect", "--server", "shop").out
    for words in (
        "/shop/mcp",
        "django_mcp.AllowAny",
        "find  [read-only]",
        "refund",
        "secret",
        "shop://rules",
        "praise",
    ):
        assert words in text
    assert f"permission: {users.PERMISSION}" in text
    assert "hidden:" not in text


def test_what_a_user_does_not_see_is_marked_with_the_reason(shop: MCPServer, run: Run, make_user: Any) -> None:
    ann = make_user()
    text = run("mcp_inspect", "--server", "shop", "--as", ann.username).out
    assert f"- refund  hidden: requires the permission {users.PERMISSION}" in text
    assert "- buy  hidden: requires the group buyers" in text
    assert "- secret  hidden: decided by its visible()" in text
    assert f"- shop://rules  hidden: requires the permission {users.PERMISSION}" in text
    assert "\n    find  [read-only]\n" in text
    assert "Tools (2 of 5 listed)" in text


def test_an_error_in_a_permission_check_is_named_instead_of_a_missing_permission(
    make_server: Callable[..., MCPServer], run: Run, make_user: Any
) -> None:
    books = make_server("bookshop", authentication=[AllowAny()])

    class Fails:
        words = "requires the permission library.add_book"

        def __call__(self, ctx: Context) -> bool:
            raise LookupError("no such shelf")

    @tool(server=books, visible=Fails())
    def shelve() -> str:
        """Shelve a book."""
        return "Shelved."

    text = run("mcp_inspect", "--server", "bookshop", "--as", make_user().username).out
    assert "- shelve  hidden: an error in its permission check: LookupError: no such shelf" in text
    assert "hidden: requires" not in text


def test_who_has_the_rights_sees_it_all(shop: MCPServer, run: Run, make_user: Any) -> None:
    bob = make_user(permissions=(users.PERMISSION,), groups=("buyers",))
    document = run("mcp_inspect", "--server", "shop", "--as", bob.username, "--json").json
    seen = {each["name"]: each["listed"] for each in document["endpoints"][0]["tools"]}
    assert seen == {"find": True, "refund": True, "buy": True, "secret": False, "write": True}
    assert entry(document, "rules", "resources")["usable"] is True


@pytest.mark.usefixtures("policies")
def test_a_policy_that_blocks_is_named_with_whom_it_is_for(shop: MCPServer, run: Run, make_user: Any) -> None:
    ann = make_user(groups=("buyers",))
    ToolPolicy.objects.create(server="shop", tool="find", decision="block", group=users.group("buyers"))
    ToolPolicy.objects.create(server="shop", tool="buy", decision="block", client_id="acme")
    ToolPolicy.objects.create(server="shop", tool="write", decision="ask")
    document = run("mcp_inspect", "--server", "shop", "--as", ann.username, "--json").json
    assert entry(document, "find")["hidden_because"] == ["blocked by a policy for the group buyers"]
    assert entry(document, "buy")["listed"] is True
    assert entry(document, "write")["decision"] == "ask"
    document = run("mcp_inspect", "--server", "shop", "--as", ann.username, "--client", "acme", "--json").json
    assert entry(document, "buy")["hidden_because"] == ["blocked by a policy for the client acme"]


def test_a_client_sees_what_its_policy_and_scopes_allow(
    shop: MCPServer, run: Run, make_user: Any, policies: None
) -> None:
    ann = make_user()
    ask = ("mcp_inspect", "--server", "shop", "--as", ann.username, "--client", "acme", "--json")
    with override_settings(DJANGO_MCP=SCOPES):
        short = entry(run(*ask).json, "write")
        assert (short["listed"], short["usable"]) == (True, False)
        assert short["hidden_because"] == ["requires the scope shop:write"]
        granted = entry(run(*ask, "--scope", "shop:write").json, "write")
        assert (granted["usable"], granted["hidden_because"]) == (True, [])
        with pytest.raises(CommandError, match="no scope 'shop:wirte'; --scope takes one of shop:read, shop:write"):
            run(*ask, "--scope", "shop:wirte")
    limit_client("acme", {("shop", "write")})
    rows = ClientPolicy.objects.filter(client_id="acme")
    try:
        found = entry(run(*ask).json, "find")
        assert found["hidden_because"] == ["not one of the tools allowed to the client 'acme'"]
        assert (found["decision"], found["listed"]) == ("block", False)
        rows.update(read_only=True, tools=None)
        why = "not one of the tools that change nothing, to which the client or its credential is limited"
        assert why in entry(run(*ask).json, "write")["hidden_because"]
        assert why not in entry(run(*ask).json, "find").get("hidden_because", [])
        rows.update(blocked=True)
        document = run(*ask).json
        assert document["endpoints"][0]["caller"]["refused_because"] == "the client 'acme' is blocked"
        assert not any(each["listed"] for each in document["endpoints"][0]["tools"])
    finally:
        rows.delete()


def test_reasons_are_given_exactly_where_the_right_is_missing(shop: MCPServer, make_user: Any) -> None:
    people = [make_user(), make_user(permissions=(users.PERMISSION,)), make_user(groups=("buyers",))]
    for person in people:
        principal = find_principal(person.username)
        for each in (principal, as_client_user(shop, principal, "acme", [])):
            context = permission_context(shop, each, django_request(shop))
            for primitive in shop.registered():
                assert bool(hidden_reasons(context, primitive)) is (right(context, primitive) is not Right.USE)


def test_an_endpoint_that_is_not_for_a_user_says_so(
    make_server: Callable[..., MCPServer], run: Run, make_user: Any
) -> None:
    closed = make_server("closed", user_passes_test=lambda user: user.is_staff)
    tool(server=closed, name="work")(lambda: "done")
    ann = make_user()
    text = run("mcp_inspect", "--server", "closed", "--as", ann.username).out
    assert "DENIED:        the endpoint does not admit this user" in text
    assert "work" not in text


def test_many_tools_are_found_and_not_listed(make_server: Callable[..., MCPServer], run: Run, make_user: Any) -> None:
    big = make_server("big", search_tools=1)
    for name in ("one", "two", "three"):
        tool(server=big, name=name, always_listed=name == "one")(lambda: "done")
    document = run("mcp_inspect", "--server", "big", "--as", make_user().username, "--json").json
    assert document["endpoints"][0]["searched"] is True
    assert entry(document, "one")["listed"] is True
    assert (entry(document, "two")["listed"], entry(document, "two")["usable"]) == (False, True)


def test_one_tool_is_shown_in_full(shop: MCPServer, run: Run) -> None:
    text = run("mcp_inspect", "find").out
    assert '"words": {' in text
    assert "defined: tests.management.test_mcp_inspect" in text
    assert "refund" not in text
    document = run("mcp_inspect", "find", "--json").json
    assert entry(document, "find")["input_schema"]["required"] == ["words"]


def test_the_document_has_the_keys_that_the_docs_name(shop: MCPServer, run: Run) -> None:
    (endpoint,) = run("mcp_inspect", "--server", "shop", "--schemas", "--json").json["endpoints"]
    assert set(endpoint) == {
        *("name", "title", "path", "url", "authentication", "scopes", "transports", "capabilities", "models"),
        *("caller", "searched", "tools", "resources", "templates", "prompts"),
    }
    common = {"name", "title", "description", "permissions", "groups", "scopes", "visible", "tags"}
    common |= {"listed", "usable", "hidden_because"}
    own = {
        "hints",
        "task",
        "app",
        "visibility",
        "policies",
        "decision",
        "problems",
        "input_schema",
        "output_schema",
        "defined",
    }
    assert set(endpoint["tools"][0]) == common | own
    assert set(endpoint["resources"][0]) == common | {"uri", "mime_type"}
    assert set(endpoint["prompts"][0]) == common | {"arguments"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--server", "shpo"), "There is no endpoint 'shpo'; --server takes one of"),
        (("--as", "nobody"), "There is no user 'nobody'; --as takes a username or an e-mail address."),
        (("--client", "acme"), "--client requires the user that the client acts for: add --as USERNAME."),
        (("--scope", "shop:read"), "add --client CLIENT_ID."),
        (("fnid", "--server", "shop"), "There is no 'fnid' at shop; 'manage.py mcp_inspect' lists all names."),
    ],
)
def test_what_is_not_there_is_said(shop: MCPServer, run: Run, arguments: tuple[str, ...], words: str) -> None:
    with pytest.raises(CommandError) as caught:
        run("mcp_inspect", *arguments)
    assert words in str(caught.value)


def test_a_model_whose_own_method_decides_is_said_to_ask_it(
    run: Run, make_server: Callable[..., MCPServer], make_user: Any
) -> None:
    class Tags(ModelResource):
        """Words for shelves."""

        fields = ("word",)
        actions = ("create", "delete")
        writable_fields = ("word",)
        view_permission = None

        def has_add_permission(self, ctx: Any) -> bool:
            return False

    register(Tag, Tags, server=make_server("tags", authentication=[AllowAny()]))
    document = run("mcp_inspect", "--server", "tags", "--as", make_user().username, "--json").json
    assert entry(document, "create_tag")["hidden_because"] == ["Tags decides in has_add_permission"]
    assert entry(document, "delete_tag")["hidden_because"] == ["Tags requires the permission library.delete_tag"]
