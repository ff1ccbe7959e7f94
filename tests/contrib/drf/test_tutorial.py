"""REST framework's own tutorial, published."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from rest_framework.test import APIClient

from django_mcp import MCPServer
from django_mcp.contrib.drf import drf_tools
from tests.clients import Client
from tests.contrib.drf.snippets.models import Snippet
from tests.contrib.drf.snippets.urls import router
from tests.contrib.drf.snippets.views import SnippetViewSet, UserViewSet
from tests.model_resources.conftest import Reader


@pytest.fixture
def published(server: MCPServer) -> MCPServer:
    drf_tools(router, server=server)
    return server


def test_it_takes_five_lines() -> None:
    lines = (Path(__file__).parent / "site" / "mcp.py").read_text().splitlines()
    assert len([line for line in lines if line and not line.startswith('"""')]) <= 5


def test_each_operation_is_a_tool(published: MCPServer, ann: Reader) -> None:
    assert ann.tool_names() == {
        *("list_snippets", "get_snippet", "create_snippet", "replace_snippet", "update_snippet", "delete_snippet"),
        *("highlight_snippet", "list_users", "get_user"),
    }


def test_hints_follow_from_the_methods_of_http(published: MCPServer, ann: Reader) -> None:
    hints = {tool["name"]: tool["annotations"] for tool in ann.list("tools/list")}
    reads = {"readOnlyHint": True, "destructiveHint": False}
    assert hints["list_snippets"] == hints["highlight_snippet"] == reads
    assert hints["create_snippet"] == {"readOnlyHint": False, "destructiveHint": False}
    assert hints["replace_snippet"] == {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": True}
    assert hints["update_snippet"] == {"readOnlyHint": False, "destructiveHint": True}
    assert hints["delete_snippet"] == {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": True}


def test_a_schema_has_what_the_serializer_takes(published: MCPServer, ann: Reader) -> None:
    (tool,) = [tool for tool in ann.list("tools/list") if tool["name"] == "create_snippet"]
    assert tool["inputSchema"] == {
        "type": "object",
        "properties": {
            "title": {"type": "string", "maxLength": 100},
            "code": {"type": "string", "minLength": 1, "description": "The lines themselves."},
            "linenos": {"type": "boolean", "title": "Line numbers"},
            "language": {"type": "string", "enum": ["python", "sql", "sh"], "description": "sh: Shell script."},
        },
        "required": ["code"],
        "additionalProperties": False,
    }


def test_a_tool_answers_what_the_api_answers(published: MCPServer, ann: Reader, snippets: list[Snippet]) -> None:
    rest = APIClient()
    assert ann.data("list_snippets") == {"result": rest.get("/snippets/").json()}
    assert ann.data("get_snippet", pk=snippets[2].pk) == rest.get(f"/snippets/{snippets[2].pk}/").json()
    assert ann.data("list_users") == {"result": rest.get("/users/").json()}


def test_whoever_calls_is_the_user_of_the_request(published: MCPServer, bob: Reader) -> None:
    made = bob.data("create_snippet", code="ls -l", language="sh", linenos=True)
    assert made["owner"] == "bob"
    row = Snippet.objects.get(pk=made["id"])
    assert (row.owner.username, row.language, row.linenos, row.title) == ("bob", "sh", True, "")


def test_a_row_is_changed_in_part_or_as_a_whole(published: MCPServer, ann: Reader, snippets: list[Snippet]) -> None:
    changed = ann.data("update_snippet", pk=snippets[0].pk, title="Greeting")
    assert (changed["title"], changed["code"]) == ("Greeting", "print('hello')")
    assert "'code'" in ann.problem("replace_snippet", pk=snippets[0].pk, title="Greeting")
    assert ann.data("replace_snippet", pk=snippets[0].pk, code="2")["code"] == "2"


def test_a_row_is_deleted(published: MCPServer, ann: Reader, snippets: list[Snippet]) -> None:
    answer = ann.call("delete_snippet", pk=snippets[0].pk)
    assert (answer.text, answer.result.get("isError")) == ("Deleted.", None)
    assert not Snippet.objects.filter(pk=snippets[0].pk).exists()


def test_only_an_owner_changes_a_row(published: MCPServer, bob: Reader, snippets: list[Snippet]) -> None:
    for name, arguments in (("update_snippet", {"title": "Mine"}), ("delete_snippet", {})):
        assert bob.problem(name, pk=snippets[0].pk, **arguments) == "Only its owner may change a snippet."
    snippets[0].refresh_from_db()
    assert snippets[0].title == "Hello"


def test_whoever_is_not_signed_in_is_told_so(published: MCPServer, nobody: Reader) -> None:
    assert nobody.problem("create_snippet", code="1").endswith("The caller is not authenticated.")
    assert not Snippet.objects.exists()


def test_a_page_is_readable_text(published: MCPServer, ann: Reader, snippets: list[Snippet]) -> None:
    text = ann.call("highlight_snippet", pk=snippets[2].pk).text
    assert "select * from a < b" in text
    assert "<pre>" not in text


def test_a_row_that_is_not_there_is_not_found(published: MCPServer, ann: Reader) -> None:
    assert ann.problem("get_snippet", pk=987_654) == "No Snippet matches the given query."


def test_mistakes_are_told_argument_by_argument(published: MCPServer, ann: Reader) -> None:
    told = ann.problem("create_snippet", code="", language="cobol", title="x" * 101)
    assert set(told.splitlines()) == {
        "Argument 'title': Ensure this field has no more than 100 characters.",
        "Argument 'code': This field may not be blank. (It was \"\".)",
        "Argument 'language': \"cobol\" is not a valid choice.",
    }


def test_names_of_arguments_are_looked_at_before_the_view_is_asked(published: MCPServer, ann: Reader) -> None:
    assert "Did you mean 'language'?" in ann.problem("create_snippet", code="1", langauge="sql")
    assert ann.problem("get_snippet") == "Missing argument 'pk'."
    assert ann.problem("get_snippet", pk=None) == "Missing argument 'pk'."


def test_what_a_caller_may_not_set_is_no_argument(published: MCPServer, ann: Reader) -> None:
    assert "Unknown argument 'owner'" in ann.problem("create_snippet", code="1", owner="bob")
    assert "Unknown argument 'id'" in ann.problem("create_snippet", code="1", id=1)


def test_results_fit_their_schemas(published: MCPServer, ann: Reader, snippets: list[Snippet]) -> None:
    schemas = {tool["name"]: tool["outputSchema"] for tool in ann.list("tools/list") if "outputSchema" in tool}
    calls: Mapping[str, Mapping[str, Any]] = {
        "list_snippets": {},
        "get_snippet": {"pk": snippets[0].pk},
        "update_snippet": {"pk": snippets[0].pk, "title": "New"},
        "list_users": {},
    }
    for name, arguments in calls.items():
        Draft202012Validator(schemas[name]).validate(ann.data(name, **arguments))


def exchanges(rest: APIClient, row: Snippet) -> list[Any]:
    """What the API says to a number of requests."""
    url = f"/snippets/{row.pk}/"
    responses = [
        rest.get("/snippets/"),
        rest.get(url),
        rest.get("/users/"),
        rest.get("/users/", headers={"accept": "text/html"}),
        rest.get(f"{url}highlight/"),
        rest.get("/snippets.json"),
        rest.options("/snippets/"),
        rest.options(url),
        rest.post("/snippets/", {"code": ""}),
        rest.put(url, {"title": row.title, "code": row.code}, format="json"),
        rest.patch(url, {"language": "cobol"}),
        rest.delete("/snippets/0/"),
        APIClient().post("/snippets/", {"code": "1"}),
    ]
    return [(each.status_code, dict(each.items()), each.content) for each in responses]


def attributes() -> dict[str, Any]:
    return {
        f"{view.__name__}.{key}": value for view in (SnippetViewSet, UserViewSet) for key, value in vars(view).items()
    }


def test_the_api_is_as_it_was(server: MCPServer, ann: Reader, rest: APIClient, snippets: list[Snippet]) -> None:
    before = exchanges(rest, snippets[0]), attributes()
    drf_tools(router, server=server)
    ann.data("get_snippet", pk=snippets[0].pk)
    ann.data("update_snippet", pk=snippets[1].pk, title="Sum of two")
    Snippet.objects.filter(pk=snippets[1].pk).update(title="Sum")
    after = exchanges(rest, snippets[0]), attributes()
    assert [_comparable(each) for each in after[0]] == [_comparable(each) for each in before[0]]
    assert after[1] == before[1]


def _comparable(exchange: Any) -> Any:
    status, headers, body = exchange
    return status, headers, b"" if b"csrf" in body.lower() else body


def test_every_way_in_gives_the_same(
    make_server: Callable[..., MCPServer], version: str, edge: str, open_database: None
) -> None:
    from django_mcp import AllowAny

    server = make_server("everybody", authentication=[AllowAny()])
    drf_tools(UserViewSet, server=server)
    client = Client(server, version, edge)
    assert {"result": json.loads(client.call("list_users").text)} == client.call("list_users").result[
        "structuredContent"
    ]
    assert client.call("get_user", pk=0).text == "No User matches the given query."
