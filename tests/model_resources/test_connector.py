"""``search`` and ``fetch`` over several models, in the shapes that ChatGPT's deep research calls."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core.exceptions import ImproperlyConfigured
from django.db.models import QuerySet
from django.test import override_settings

from django_mcp import Context, MCPServer, ModelResource, register, tool, unregister
from tests.clients import LEGACY, MODERN
from tests.model_resources.conftest import ByName, Reader
from tests.model_resources.library.models import Author, Book, Draft, Tag, Ticket

Make = Callable[..., Any]


class Books(ModelResource):
    """Books."""

    fields = ["title", "author", "price", "summary"]
    title_field = "title"
    lookup_field = "slug"
    search_fields = ["title", "summary", "author__name"]
    ordering = ["title"]
    filter_only_fields = ["author__name"]
    connector = True


class Authors(ModelResource):
    """Authors."""

    fields = ["name"]
    title_field = "name"
    search_fields = ["name"]
    connector = True


@pytest.fixture
def library(server: MCPServer, books: list[Book]) -> MCPServer:
    """Books and authors in the connector."""
    register(Book, Books, server=server)
    register(Author, Authors, server=server)
    return server


def found(client: Reader, query: str) -> list[str]:
    return [each["id"] for each in client.data("search", query=query)["results"]]


def no_record(key: str) -> str:
    return f"There is no record with the id {key!r}. Use an id that search returned."


@pytest.mark.parametrize("version", [MODERN, LEGACY])
def test_search_and_fetch_answer_in_the_shapes_that_chatgpt_reads(library: MCPServer, reader: Make) -> None:
    Book.objects.filter(slug="salt").update(summary="Of the sea.\nAnd more.")
    ann = reader("ann")
    tools = {each["name"]: each for each in ann.list("tools/list")}
    for name, argument in (("search", "query"), ("fetch", "id")):
        definition = tools[name]
        assert definition["inputSchema"]["required"] == [argument]
        assert list(definition["inputSchema"]["properties"]) == [argument]
        assert definition["annotations"] == {
            "readOnlyHint": True,
            "destructiveHint": False,
            "idempotentHint": True,
            "openWorldHint": False,
        }
    answer = ann.call("search", query="salt").result
    salt = {"id": "library.book:salt", "title": "Salt", "url": "library://book/salt"}
    assert answer["structuredContent"] == {"results": [salt]}
    answered = ann.call("fetch", id="library.book:salt").result
    document = answered["structuredContent"]
    assert document.keys() == {"id", "title", "text", "url", "metadata"}
    assert {key: document[key] for key in salt} == salt
    assert document["metadata"] == {"type": "book", "uri": "library://book/salt"}
    assert document["text"] == ann.contents("library://book/salt?format=markdown")["text"]
    assert "Of the sea." in document["text"]
    for each in (answer, answered):
        (block,) = each["content"]
        assert block["type"] == "text"
        assert json.loads(block["text"]) == each["structuredContent"]


@pytest.mark.parametrize("version", ["2025-03-26", "2024-11-05"])
def test_a_client_without_structured_content_reads_the_text(library: MCPServer, reader: Make) -> None:
    (block,) = reader("ann").call("search", query="foghorn").result["content"]
    assert [each["title"] for each in json.loads(block["text"])["results"]] == ["Foghorn"]


def test_all_models_are_searched_and_their_rows_take_turns(library: MCPServer, reader: Make) -> None:
    anna = Author.objects.get(name="Anna Berg")
    assert found(reader("ann"), "anna") == ["library.book:salt", f"library.author:{anna.pk}", "library.book:tides"]
    author = reader("ann").data("fetch", id=f"library.author:{anna.pk}")
    assert author["title"] == "Anna Berg"
    assert "pbkdf2" not in author["text"]


def test_a_search_has_a_bounded_number_of_results(library: MCPServer, reader: Make) -> None:
    for number in range(25):
        author = Author.objects.create(name=f"Many {number}")
        Book.objects.create(title=f"Many {number}", slug=f"many-{number}", author=author)
    keys = found(reader("ann"), "many")
    assert sum(key.startswith("library.book:") for key in keys) == len(keys) / 2 == 10


def test_whoever_may_view_no_model_has_no_such_tools(library: MCPServer, reader: Make) -> None:
    bob = reader("bob")
    assert bob.tool_names() == set()
    assert bob.call("search", query="salt").error["message"] == "Unknown tool: 'search'."
    assert bob.call("fetch", id="library.book:salt").error["message"] == "Unknown tool: 'fetch'."


def test_models_and_rows_that_a_caller_may_not_view_do_not_exist(
    server: MCPServer, books: list[Book], people: Mapping[str, User], reader: Make
) -> None:
    class Owned(Books):
        def get_queryset(self, ctx: Context) -> QuerySet[Any]:
            return super().get_queryset(ctx).filter(owner=ctx.user)

    register(Book, Owned, server=server)
    register(Author, Authors, server=server)
    people["bob"].user_permissions.add(Permission.objects.get(codename="view_book"))
    anna = Author.objects.get(name="Anna Berg")
    assert found(reader("ann"), "anna") == ["library.book:salt", f"library.author:{anna.pk}"]
    bob = reader("bob")
    assert found(bob, "anna") == [], "the name of an author, whom he may not view, finds nothing"
    assert found(bob, "tides") == ["library.book:tides"]
    assert "Anna" not in bob.data("fetch", id="library.book:tides")["text"]
    for key in (
        "library.book:salt",
        "library.book:nothing",
        f"library.author:{anna.pk}",
        "library.tag:1",
        "x",
        ":",
        "",
    ):
        assert bob.problem("fetch", id=key) == no_record(key)


def test_rows_that_has_view_permission_hides_one_by_one_are_neither_found_nor_read(
    server: MCPServer, books: list[Book], reader: Make
) -> None:
    class Short(Books):
        search_fields = ["title"]
        filter_only_fields: list[str] = []

        def has_view_permission(self, ctx: Context, obj: Any = None) -> bool:
            return obj is None or obj.pages < 100

    register(Book, Short, server=server)
    ann = reader("ann")
    assert found(ann, "t") == ["library.book:lanterns", "library.book:tides"]
    assert ann.problem("fetch", id="library.book:salt") == no_record("library.book:salt")


def test_rows_that_were_deleted_softly_are_gone(server: MCPServer, books: list[Book], reader: Make) -> None:
    @register(Draft, server=server)
    class Drafts(ModelResource):
        fields, search_fields, connector = ["title"], ["title"], True

    kept, gone = Draft.objects.create(title="Kept draft"), Draft.objects.create(title="Gone draft", deleted=True)
    ann = reader("ann")
    assert found(ann, "draft") == [f"library.draft:{kept.pk}"]
    assert ann.problem("fetch", id=f"library.draft:{gone.pk}") == no_record(f"library.draft:{gone.pk}")


def test_a_row_is_identified_by_its_uuid_and_named_by_its_first_text(
    server: MCPServer, people: Mapping[str, User], reader: Make
) -> None:
    @register(Ticket, server=server)
    class Tickets(ModelResource):
        fields, search_fields, connector = ["holder"], ["holder"], True

    ticket = Ticket.objects.create(holder="Ada")
    (result,) = reader("ann").data("search", query="ada")["results"]
    assert (result["id"], result["title"]) == (f"library.ticket:{ticket.pk}", "Ada")
    assert "Ada" in reader("ann").data("fetch", id=result["id"])["text"]
    assert reader("ann").problem("fetch", id="library.ticket:1") == no_record("library.ticket:1")


def test_a_model_whose_scopes_the_caller_lacks_is_left_out(server: MCPServer, books: list[Book], reader: Make) -> None:
    register(Book, type("Scoped", (Books,), {"scopes": ["books"]}), server=server)
    register(Author, Authors, server=server)
    anna = f"library.author:{Author.objects.get(name='Anna Berg').pk}"
    assert found(reader("ann", scopes="travel:read"), "anna") == [anna]
    assert len(found(reader("ann", scopes="travel:read books"), "anna")) == 3
    assert reader("ann", scopes="travel:read").problem("fetch", id="library.book:salt") == no_record(
        "library.book:salt"
    )


def test_the_url_of_a_row_is_that_of_its_page(
    library: MCPServer, reader: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Book, "get_absolute_url", lambda self: f"/books/{self.slug}/", raising=False)
    (result,) = reader("ann").data("search", query="salt")["results"]
    assert result["url"] == "http://127.0.0.1:8000/books/salt/"
    with override_settings(DJANGO_MCP={"BASE_URL": "https://library.example.com"}):
        assert reader("ann").data("fetch", id=result["id"])["url"] == "https://library.example.com/books/salt/"
    monkeypatch.setattr(Book, "get_absolute_url", lambda self: "https://shop.example.com/1")
    assert reader("ann").data("fetch", id=result["id"])["url"] == "https://shop.example.com/1"


def test_a_search_that_cannot_be_made_says_how_to_correct_it(library: MCPServer, reader: Make) -> None:
    ann = reader("ann")
    assert "1 to 10 search terms" in ann.problem("search", query=" ".join("abcdefghijk"))
    assert "1 to 10 search terms" in ann.problem("search", query="  ")
    assert "at most 200" in ann.problem("search", query="x" * 201)
    assert ann.problem("search").startswith("Missing argument 'query'")


def test_a_model_outside_the_connector_is_not_searched(library: MCPServer, reader: Make) -> None:
    register(Tag, type("Tags", (ModelResource,), {"fields": ["word"], "search_fields": ["word"]}), server=library)
    assert found(reader("ann"), "sea") == []
    assert reader("ann").problem("fetch", id="library.tag:1") == no_record("library.tag:1")
    assert {"search", "fetch", "search_tags"} <= reader("ann").tool_names()
    unregister(Book, server=library)
    assert found(reader("ann"), "salt") == []
    unregister(Author, server=library)
    assert reader("ann").tool_names() == {"search_tags", "get_tag"}


def test_both_tools_are_listed_even_if_tools_are_searched(library: MCPServer, reader: Make) -> None:
    library._search_tools = 1
    assert {"search", "fetch", "search_tools"} <= reader("ann").tool_names()
    assert "search_books" not in reader("ann").tool_names()


def test_an_endpoint_of_its_own_has_the_connector_and_nothing_else(
    library: MCPServer, make_server: Make, version: str, reader: Make
) -> None:
    unregister(Author, server=library)
    register(Author, type("Plain", (Authors,), {"connector": False}), server=library)
    tool(server=library, name="lend")(lambda: "lent")
    research = make_server("research", source=library, connector=[Author], authentication=[ByName()])
    ann = Reader(research, version, "view")
    ann.user = "ann"
    assert ann.tool_names() == {"search", "fetch"}
    (result,) = ann.data("search", query="anna")["results"]
    assert ann.read(result["url"])["name"] == "Anna Berg", "the resource of the row is there to be read"
    assert ann.problem("fetch", id="library.book:salt") == no_record("library.book:salt")
    assert found(reader("ann"), "anna") == ["library.book:salt", "library.book:tides"]
    tool(server=research, name="hello")(lambda: "hi")
    assert ann.tool_names() == {"search", "fetch", "hello"}


def test_a_selection_may_have_a_connector_too(library: MCPServer, make_server: Make) -> None:
    tool(server=library, name="lend", tags=["desk"])(lambda: "lent")
    desk = make_server("desk", source=library, include_tags=["desk"], connector=[Author], authentication=[ByName()])
    assert set(desk.tools) == {"lend", "search", "fetch"}
    everything = make_server("everything", source=library, authentication=[ByName()])
    assert {"lend", "search", "fetch", "search_books", "search_authors"} <= set(everything.tools)


def test_the_admin_says_whose_models_they_are(library: MCPServer) -> None:
    from django_mcp.admin.tool_rows import callers_of, source_of

    search = library.tools["search"]
    assert source_of(search) == "model library.Book, library.Author"
    assert callers_of(library, search)[-1] == "users who may view books or authors"
    assert source_of(library.tools["get_book"]) == "model library.Book"


# What is wrong


def test_a_site_with_tools_of_these_names_is_told(server: MCPServer, books: list[Book]) -> None:
    tool(server=server, name="fetch")(lambda: "x")
    with pytest.raises(ImproperlyConfigured, match=r"needs the name 'fetch', which tool 'fetch' .* Rename that tool"):
        register(Book, Books, server=server)


def test_a_tool_of_the_name_that_comes_later_is_told(library: MCPServer) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"have the same key 'search'"):
        tool(server=library, name="search")(lambda: "x")


def test_a_model_without_search_fields_is_told(server: MCPServer, db: None) -> None:
    register(Book, type("Bare", (ModelResource,), {"fields": ["title"], "connector": True}), server=server)
    (problem,) = server.model_resources[Book].problems
    assert problem.msg.endswith("the connector cannot search library.Book, which declares no search_fields.")
    assert not server.tools


def test_a_model_that_is_not_registered_is_told(server: MCPServer, make_server: Make, db: None) -> None:
    register(Author, Authors, server=server)
    with pytest.raises(ImproperlyConfigured, match=r"connector names library\.Book, which is not registered at"):
        make_server("research", source=server, connector=[Book])


@pytest.mark.parametrize("connector", ["Book", Book, [], ["library.Book"], True])
def test_what_is_no_list_of_models_is_told(connector: Any, make_server: Make) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"connector must be a list of models, like \[Offer\], not"):
        make_server("wrong", connector=connector)
