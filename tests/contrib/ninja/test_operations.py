"""Operations of django-ninja as tools: what they take, what they answer, and what they say is wrong."""

import base64
import json
from typing import Any

import pytest
from django.http import HttpRequest
from ninja import NinjaAPI, Schema
from pydantic import field_serializer

from django_mcp import MCPServer
from django_mcp.contrib.ninja import ninja_tools
from tests.contrib.ninja.conftest import Mount
from tests.model_resources.conftest import Reader

pytestmark = pytest.mark.usefixtures("published")


@pytest.fixture
def published(server: MCPServer, api: NinjaAPI, mount: Mount) -> None:
    ninja_tools(api, with_tags=["books", "trouble"], server=server)
    mount(api)


def tool(reader: Reader, name: str) -> dict[str, Any]:
    return next(each for each in reader.list("tools/list") if each["name"] == name)


def file(content: bytes, filename: str = "emma.png") -> dict[str, str]:
    return {"filename": filename, "content": base64.b64encode(content).decode()}


# What is told of them


def test_an_operation_is_described_by_what_it_says_of_itself(nobody: Reader) -> None:
    search = tool(nobody, "search_books")
    assert (search["title"], search["description"]) == ("Search books", "Books, by words of the title.")
    assert search["annotations"] == {"readOnlyHint": True, "destructiveHint": False}
    assert search["_meta"] == {"fastmcp": {"tags": ["books"]}}
    properties = search["inputSchema"]["properties"]
    assert list(properties) == ["q", "min_pages", "tag", "limit", "offset"]
    assert properties["min_pages"] == {"type": "integer", "minimum": 0, "default": 0}
    assert properties["tag"] == {"type": "array", "items": {"type": "string"}, "default": []}
    assert "required" not in search["inputSchema"]
    assert search["outputSchema"]["properties"].keys() == {"items", "count"}


def test_path_and_body_are_arguments_side_by_side(nobody: Reader) -> None:
    replace = tool(nobody, "replace_book")
    schema = replace["inputSchema"]
    assert list(schema["properties"]) == ["pk", "title", "pages", "tags"]
    assert schema["required"] == ["pk", "title"]
    assert schema["properties"]["title"] == {"type": "string", "minLength": 1, "description": "As it is printed."}
    assert replace["annotations"] == {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": True}
    assert set(replace["outputSchema"]["properties"]) == {"id", "title", "pages", "tags", "owner"}
    assert tool(nobody, "change_book")["inputSchema"]["required"] == ["pk"]
    assert tool(nobody, "drop_book")["annotations"]["destructiveHint"] is True


def test_several_bodies_files_and_lists_are_one_argument_each(nobody: Reader) -> None:
    assert list(tool(nobody, "import_books")["inputSchema"]["properties"]) == ["rows"]
    pair = tool(nobody, "pair")["inputSchema"]
    assert list(pair["properties"]) == ["first", "second"]
    assert "title" in pair["properties"]["first"]["properties"]
    assert "$defs" not in pair
    cover = tool(nobody, "cover")["inputSchema"]
    assert set(cover["properties"]) == {"pk", "image", "caption", "wide"}
    assert cover["properties"]["image"]["required"] == ["filename", "content"]
    assert tool(nobody, "scans")["inputSchema"]["properties"]["pages"]["type"] == "array"


def test_an_operation_that_is_deprecated_says_so_and_a_hidden_one_is_hidden(nobody: Reader) -> None:
    assert tool(nobody, "old")["description"] == "Deprecated. Old"
    assert "hidden" not in nobody.tool_names()


def test_what_promises_no_single_shape_has_no_output_schema(nobody: Reader) -> None:
    listed = {each["name"]: "outputSchema" in each for each in nobody.list("tools/list")}
    assert {name for name, has_schema in listed.items() if has_schema} == {
        *(
            "search_books",
            "get_book",
            "add_book",
            "replace_book",
            "change_book",
            "import_books",
            "pair",
            "taste",
            "later",
        ),
    }


# What they answer


def test_pages_filters_and_lists_in_the_query_are_the_operations_own(nobody: Reader) -> None:
    page = nobody.data("search_books", tag=["love"], limit=1, offset=1)
    assert (page["count"], [book["title"] for book in page["items"]]) == (2, ["Persuasion"])
    assert nobody.data("search_books", q="wal", min_pages=300)["count"] == 1
    assert nobody.data("search_books", tag=["love", "sea"], q=None)["count"] == 1


def test_a_body_is_sent_as_it_was_given(nobody: Reader) -> None:
    assert nobody.data("replace_book", pk=1, title="Emma, ä")["pages"] == 100
    changed = nobody.data("change_book", pk=1, pages=9)
    assert (changed["title"], changed["pages"]) == ("Emma, ä", 9)
    assert nobody.data("import_books", rows=[{"title": "ab"}, {"title": "abc"}]) == nobody.as_sent([2, 3])
    assert nobody.data("pair", first={"title": "a"}, second={"title": "b"}) == nobody.as_sent(["a", "b"])


def test_a_body_of_defaults_alone_need_not_be_given_and_what_is_left_out_is_not_promised(nobody: Reader) -> None:
    assert nobody.data("taste") == {"genre": "novels"}
    assert nobody.data("taste", year=1815) == {"genre": "novels", "year": 1815}
    assert "required" not in tool(nobody, "taste")["outputSchema"]


def test_a_member_of_the_body_whose_name_is_taken_is_the_new_one(nobody: Reader) -> None:
    schema = tool(nobody, "retitle")["inputSchema"]
    assert set(schema["properties"]) == {"title", "new_title", "pages", "tags"}
    assert schema["properties"]["new_title"]["description"] == "The new title. As it is printed."
    assert nobody.data("retitle", title="a", new_title="b") == nobody.as_sent(["a", "b"])
    assert nobody.problem("retitle", title="a") == "Missing argument 'new_title'."


class Inner(Schema):
    size: int


def test_two_schemas_of_one_name_are_told_apart_and_so_are_request_and_response(
    server: MCPServer, mount: Mount, nobody: Reader
) -> None:
    api = NinjaAPI(urls_namespace="named-alike")
    other: Any = type("Inner", (Schema,), {"__annotations__": {"word": str}, "__module__": __name__})

    class Both(Schema):
        stamp: int

        @field_serializer("stamp")
        def as_text(self, value: int) -> str:
            return str(value)

    @api.post("/one", response=Both)
    def one(request: HttpRequest, given: Inner) -> Any:
        return {"stamp": given.size}

    @api.post("/two", response=Both)
    def two(request: HttpRequest, given: other) -> Any:
        return {"stamp": 2}

    @api.post("/three", response=Both)
    def three(request: HttpRequest, given: Both) -> Any:
        return given

    ninja_tools(api, server=server)
    mount(api, at="alike/")
    assert tool(nobody, "one")["inputSchema"]["properties"] == {"size": {"type": "integer"}}
    assert tool(nobody, "two")["inputSchema"]["properties"] == {"word": {"type": "string"}}
    assert tool(nobody, "three")["inputSchema"]["properties"] == {"stamp": {"type": "integer"}}
    assert tool(nobody, "three")["outputSchema"]["properties"] == {"stamp": {"type": "string"}}
    assert nobody.data("three", stamp=3) == {"stamp": "3"}


def test_forms_and_files_are_sent_as_a_browser_sends_them(nobody: Reader) -> None:
    assert nobody.data("note", pk=1, text="a & b", stars=5) == {"text": "a & b", "stars": 5}
    assert nobody.data("cover", pk=1, image=file(b"12345"), caption="x", wide=False) == {
        "name": "emma.png",
        "bytes": 5,
        "caption": "x",
        "wide": False,
        "kind": "image/png",
    }
    scans = nobody.data("scans", pk=1, pages=[file(b"one", "1.txt"), file(b"two", "2.txt")], book={"title": '"T"'})
    assert scans == {"pages": ["one", "two"], "title": '"T"'}


def test_an_async_operation_answers_like_any_other_and_at_its_own_url(nobody: Reader) -> None:
    assert nobody.data("later", name="Ann") == nobody.as_sent("Ann at /api/later")


def test_a_stream_is_read_whole(nobody: Reader, subtests: pytest.Subtests) -> None:
    for name in ["lines", "alines"]:
        with subtests.test(name=name):
            lines = nobody.call(name).text.splitlines()
            assert [json.loads(line)["title"] for line in lines] == ["Emma", "Persuasion", "Walden"]


def test_an_empty_answer_is_done(boss: Reader, nobody: Reader) -> None:
    assert nobody.data("newest")["title"] == "Walden"
    assert nobody.call("newest", above=3).text == "Done."
    assert boss.call("drop_book", pk=1).text == "Done."
    assert nobody.problem("get_book", pk=1) == "Not Found"


# What they say is wrong


def test_what_is_wrong_is_told_so_that_the_call_can_be_repaired(nobody: Reader, subtests: pytest.Subtests) -> None:
    for name, arguments, says in [
        ("replace_book", {"pk": 1}, "Missing argument 'title'."),
        ("replace_book", {"pk": 1, "titel": "x", "title": "y"}, "Unknown argument 'titel'. Did you mean 'title'?"),
        ("replace_book", {"pk": "one", "title": "x"}, "Argument 'pk' must be an integer, not 'one'."),
        ("replace_book", {"pk": 1, "title": ""}, "Argument 'title' must not be empty."),
        ("replace_book", {"pk": 1, "title": None}, "Argument 'title' must be a string, not null."),
        (
            "replace_book",
            {"pk": 1, "title": "x", "pages": "many", "tags": ["a", 3]},
            "Argument 'pages' must be an integer, not 'many'.",
        ),
        ("replace_book", {"pk": 1, "title": "x", "tags": ["a", 3]}, "Argument 'tags[1]' must be a string, not 3;"),
        ("search_books", {"min_pages": -1}, "Argument 'min_pages' must be at least 0, not -1."),
        ("search_books", {"limit": 0}, "Argument 'limit' must be at least 1, not 0."),
        ("import_books", {"rows": [{"title": "x"}, {}]}, "Missing argument 'rows[1].title'."),
        ("import_books", {"rows": "Emma"}, "Argument 'rows' must be an array, not 'Emma'; write"),
        ("pair", {"first": {"title": "x"}, "second": {"title": 3}}, "Argument 'second.title' must be a string, not 3;"),
        ("note", {"pk": 1, "text": "x", "stars": "all"}, "Argument 'stars' must be an integer, not 'all'."),
        ("cover", {"pk": 1, "caption": "x", "image": "abc"}, "Argument 'image' must be an object with"),
        ("get_book", {"pk": 2**31 - 1}, "Not Found"),
        ("get_book", {"pk": "one"}, "Argument 'pk' must be an integer, not 'one'."),
        ("get_book", {"pk": "1/cover"}, "No object found with pk '1/cover'."),
        ("note", {"pk": "one", "text": "x"}, "No object found with pk 'one'."),
        ("full", {}, "The request conflicts with existing data. The shelf is full."),
        ("lost_book", {}, "No longer available. Lost: Emma"),
    ]:
        with subtests.test(name=name, arguments=arguments, says=says):
            assert says in nobody.problem(name, **arguments)


def test_an_answer_that_was_declared_for_an_error_is_an_error(ann: Reader) -> None:
    assert ann.data("add_book", title="Ulysses")["owner"] == "ann"
    assert (
        ann.problem("add_book", title="Ulysses")
        == "The request conflicts with existing data. There is Ulysses already."
    )


def test_what_fails_is_logged_and_told_to_nobody(nobody: Reader, caplog: pytest.LogCaptureFixture) -> None:
    assert "hunter2" not in nobody.problem("broken")
    assert "ValueError: hunter2" in caplog.text
