"""Which operations of an API become tools, who may call them, and that the API stays as it was."""

import json
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Literal

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest
from django.test import Client as Browser
from ninja import Cookie, Form, Header, NinjaAPI, Path, Query, Router, Schema
from ninja.security import APIKeyCookie, APIKeyHeader, APIKeyQuery, HttpBasicAuth, django_auth, django_auth_superuser
from pydantic import Field

from django_mcp import MCPServer
from django_mcp.contrib.ninja import ninja_tools
from tests.contrib.ninja.conftest import Mount
from tests.contrib.ninja.shelf import make_api
from tests.model_resources.conftest import Reader

EVERYTHING = {
    *("search_books", "get_book", "add_book", "replace_book", "change_book", "drop_book", "import_books", "pair"),
    *("cover", "scans", "note", "taste", "newest", "retitle", "later", "lines", "alines", "old"),
    *("full", "lost_book", "broken", "slow"),
    *("whoami", "either", "local", "tenant"),
}


def publish(source: Any, server: MCPServer, **options: Any) -> set[str]:
    """All of it, or what the options say; the names of the tools."""
    ninja_tools(source, server=server, **{"auth": django_auth, "headers": {"X-Tenant": "acme"}, **options})
    return set(server.tools)


# Which operations


def test_an_api_is_all_that_is_in_its_schema(server: MCPServer, api: NinjaAPI) -> None:
    assert publish(api, server) == EVERYTHING


def test_operations_are_chosen_by_name_and_tag(
    make_server: Callable[..., MCPServer], api: NinjaAPI, subtests: pytest.Subtests
) -> None:
    table: list[tuple[dict[str, Any], set[str]]] = [
        ({"include": ["get_book", "hidden"]}, {"get_book", "hidden"}),
        (
            {"with_tags": ["books"], "exclude": {"cover", "lines", "alines", "search_books"}},
            {
                "get_book",
                "add_book",
                "replace_book",
                "change_book",
                "drop_book",
                "import_books",
                "pair",
                "scans",
                "note",
                "taste",
                "newest",
                "retitle",
                "later",
                "old",
            },
        ),
        ({"with_tags": ["trouble"], "include": ["full", "get_book"]}, {"full"}),
        ({"with_tags": ["tenants"], "namespace": "shop"}, {"shop_tenant"}),
    ]
    for number, (options, names) in enumerate(table):
        with subtests.test(options=options):
            assert publish(api, make_server(f"shelf{number}"), **options) == names


def test_a_router_is_published_with_all_below_it_as_part_of_its_api(
    server: MCPServer, mount: Mount, nobody: Reader
) -> None:
    api, outer, inner = NinjaAPI(urls_namespace="nested"), Router(tags=["outer"]), Router(tags=["inner"])
    api.get("/other")(lambda request: "other")

    @outer.get("/one")
    def one(request: HttpRequest) -> str:
        return request.path

    @inner.get("/two/{name}")
    def two(request: HttpRequest, name: str) -> str:
        return f"{request.path} {name}"

    outer.add_router("/inner", inner)
    api.add_router("/outer", outer)
    ninja_tools(outer, api=api, server=server, tags=["mine"])
    mount(api, at="v1/")
    tags = {each["name"]: each["_meta"]["fastmcp"]["tags"] for each in nobody.list("tools/list")}
    assert tags == {"one": ["mine", "outer"], "two": ["inner", "mine", "outer"]}
    assert nobody.data("one") == nobody.as_sent("/v1/outer/one")
    assert nobody.data("two", name="a b?") == nobody.as_sent("/v1/outer/inner/two/a b? a b?")


def test_one_router_twice_in_an_api_is_told_apart_by_its_prefix(server: MCPServer) -> None:
    api, router = NinjaAPI(urls_namespace="twice"), Router()
    router.get("/one", operation_id="one")(lambda request: "one")
    api.add_router("a", router)
    api.add_router("b", router, url_name_prefix="b")
    assert publish(api, server) == {"one", "b_one"}


def test_an_operation_of_several_methods_is_a_tool_for_each(server: MCPServer, mount: Mount, nobody: Reader) -> None:
    api = NinjaAPI(urls_namespace="methods")

    @api.api_operation(["GET", "POST"], "/ping")
    def ping(request: HttpRequest) -> str:
        return str(request.method)

    ninja_tools(api, server=server)
    mount(api)
    assert [nobody.data(name) for name in ("ping_get", "ping_post")] == [*map(nobody.as_sent, ("GET", "POST"))]
    hints = {each["name"]: each["annotations"]["readOnlyHint"] for each in nobody.list("tools/list")}
    assert hints == {"ping_get": True, "ping_post": False}


def test_versions_of_an_api_stand_side_by_side_in_namespaces(server: MCPServer, mount: Mount, nobody: Reader) -> None:
    for version in ("1", "2"):
        api = make_api(version, f"shelf-{version}")
        ninja_tools(api, include=["later"], namespace=f"v{version}", server=server)
        mount(api, at=f"v{version}/")
    assert [nobody.call(f"v{version}_later").text for version in "12"] == ['"you at /v1/later"', '"you at /v2/later"']


class Id(Schema):
    pk: int


def operation(declare: Callable[[NinjaAPI], Any]) -> NinjaAPI:
    api = NinjaAPI(urls_namespace="bad")
    declare(api)
    return api


def named_twice(api: NinjaAPI) -> None:
    @api.get("/{pk}")
    def twice(request: HttpRequest, pk: int, of: Query[Id]) -> None: ...


def with_header(api: NinjaAPI) -> None:
    @api.get("/")
    def guarded(request: HttpRequest, x_shop: Header[str]) -> None: ...


def with_cookie(api: NinjaAPI) -> None:
    @api.get("/")
    def guarded(request: HttpRequest, shop: Cookie[str]) -> None: ...


def test_what_cannot_be_published_stops_the_start_in_words(server: MCPServer, subtests: pytest.Subtests) -> None:
    for source, options, says in [
        (make_api, {"include": ["get_boook"]}, "unknown include: get_boook; known: add_book, "),
        (make_api, {"exclude": ["get_boook"]}, "unknown exclude: get_boook; known: "),
        (make_api, {"with_tags": ["boooks"]}, "unknown with_tags: boooks; known: books, machines, tenants, trouble."),
        (make_api, {"auth": None}, r"GET /whoami \(.*whoami\) requires Token, but a tool has no such credential"),
        (make_api, {"headers": None}, "requires the header 'x-tenant', which MCP clients do not send"),
        (make_api, {"api": NinjaAPI(urls_namespace="x")}, "takes a NinjaAPI, or a Router with api="),
        (Router, {}, r"belongs to: ninja_tools\(router, api=api\)"),
        (Router, {"api": NinjaAPI(urls_namespace="x")}, "the router has no operations in 'NinjaAPI', or is not part"),
        (lambda: "shelf", {}, "takes a NinjaAPI, or a Router with api=, not 'shelf'"),
        (lambda: operation(named_twice), {}, "two parameters are named 'pk'; give one of them an alias"),
        (lambda: operation(with_header), {}, "requires the header 'x-shop'"),
        (lambda: operation(with_cookie), {}, "requires the cookie 'shop'"),
    ]:
        with subtests.test(source=source, options=options, says=says):
            with pytest.raises(ImproperlyConfigured, match=says):
                publish(source(), server, **options)
            assert server.tools == {}


# Who may call


def test_the_operations_own_guards_are_asked_about_the_caller(
    server: MCPServer, api: NinjaAPI, mount: Mount, nobody: Reader, ann: Reader, boss: Reader
) -> None:
    publish(api, server)
    mount(api)
    assert nobody.problem("add_book", title="x") == "Authentication is required for this. Unauthorized"
    assert ann.data("add_book", title="x")["owner"] == "ann"
    assert "Authentication is required" in ann.problem(
        "drop_book", pk=1
    )  # the operation wants staff, and says no more than this
    assert boss.call("drop_book", pk=1).text == "Done."
    assert "Unauthorized" in ann.problem("local")  # an address that nobody here has


def test_who_is_let_in_with_a_token_is_a_user_where_the_site_says_so(
    server: MCPServer, api: NinjaAPI, mount: Mount, nobody: Reader, ann: Reader
) -> None:
    publish(api, server, auth=lambda request: f"the token of {request.user}" if request.user.is_authenticated else None)
    mount(api)
    assert ann.data("whoami") == ann.data("either") == ann.as_sent("the token of ann")
    assert "Unauthorized" in nobody.problem("whoami")


def test_of_several_guards_those_are_asked_that_need_no_credential(
    server: MCPServer, api: NinjaAPI, mount: Mount, nobody: Reader, ann: Reader
) -> None:
    ninja_tools(api, include=["either"], server=server)
    mount(api)
    assert "ann" in ann.call("either").text
    assert "Unauthorized" in nobody.problem("either")


class Basic(HttpBasicAuth):
    def authenticate(self, request: HttpRequest, username: str, password: str) -> bool:
        return True


def key(base: type) -> Any:
    return type("Key", (base,), {"authenticate": lambda self, request, key: "anybody"})()


def test_a_guard_that_reads_a_credential_is_never_passed_by_accident(
    server: MCPServer, subtests: pytest.Subtests
) -> None:
    def check(guard: Any) -> None:
        api = NinjaAPI(auth=guard, urls_namespace="guarded")
        api.get("/secret")(lambda request: "hunter2")
        with pytest.raises(ImproperlyConfigured, match="but a tool has no such credential"):
            ninja_tools(api, server=server)

    for case, guard in {
        "basic": Basic(),
        "header": key(APIKeyHeader),
        "query": key(APIKeyQuery),
        "cookie": key(APIKeyCookie),
    }.items():
        with subtests.test(case):
            check(guard)


def test_a_subclass_of_a_guard_by_session_is_asked_itself(
    server: MCPServer, mount: Mount, ann: Reader, boss: Reader
) -> None:
    class IsBoss(type(django_auth_superuser)):
        def authenticate(self, request: Any, key: Any) -> Any:
            return request.user if request.user.is_staff else None

    api = NinjaAPI(auth=IsBoss(), urls_namespace="bosses")
    api.get("/secret", operation_id="secret")(lambda request: request.auth.username)
    ninja_tools(api, server=server)
    mount(api)
    assert "boss" in boss.call("secret").text
    assert "Unauthorized" in ann.problem("secret")


def test_options_of_a_tool_work_as_ever(server: MCPServer, api: NinjaAPI, mount: Mount, nobody: Reader) -> None:
    publish(api, server, include=["later"], permission="auth.view_user", title="Later")
    mount(api)
    assert nobody.tool_names() == set()
    assert nobody.request("tools/call", {"name": "later"}).error["message"] == "Unknown tool: 'later'."


def test_a_throttle_counts_calls_and_says_when_to_come_back(
    server: MCPServer, api: NinjaAPI, mount: Mount, ann: Reader
) -> None:
    publish(api, server)
    mount(api)
    assert "once" in ann.call("slow").text
    assert "Too many requests. Retry after" in ann.problem("slow")


def test_headers_that_every_request_has_are_sent_and_are_no_arguments(
    server: MCPServer, api: NinjaAPI, mount: Mount, nobody: Reader
) -> None:
    publish(api, server)
    mount(api)
    assert "acme red" in nobody.call("tenant").text
    assert "Unknown argument 'x_colour'" in nobody.problem("tenant", x_colour="blue")


def test_without_a_url_of_its_own_an_api_can_be_called_all_the_same(
    server: MCPServer, api: NinjaAPI, mount: Mount, nobody: Reader
) -> None:
    publish(api, server)
    assert nobody.data("later") == nobody.as_sent("you at /later")


# The API itself


def asked(browser: Browser) -> list[tuple[int, Any]]:
    """What the API answers, at all kinds of operations."""
    body = {"data": json.dumps({"title": "Emma"}), "content_type": "application/json"}
    answers = [
        browser.get("/api/books?limit=1&tag=love"),
        browser.get("/api/books/2"),
        browser.get("/api/books/99"),
        browser.put("/api/books/1", json.dumps({"pages": 0}), "application/json"),
        browser.post("/api/books", **body),
        browser.delete("/api/books/1"),
        browser.get("/api/machines/whoami"),
        browser.get("/api/machines/whoami", headers={"authorization": "Bearer hunter2"}),
        browser.get("/api/machines/local", REMOTE_ADDR="10.0.0.1"),
        browser.get("/api/trouble/lost"),
        browser.get("/api/openapi.json"),
    ]
    return [(answer.status_code, answer.json()) for answer in answers]


def test_the_api_answers_as_before(server: MCPServer, api: NinjaAPI, mount: Mount, browser: Browser) -> None:
    mount(api)
    before = asked(browser)
    assert [status for status, _ in before] == [200, 200, 404, 422, 401, 401, 401, 200, 200, 410, 200]
    publish(api, server)
    assert asked(browser) == before


def test_an_api_that_was_published_first_answers_the_same(
    server: MCPServer, api: NinjaAPI, mount: Mount, browser: Browser, ann: Reader
) -> None:
    publish(api, server)
    mount(api)
    ann.call("whoami")
    published = asked(browser)
    fresh = make_api(namespace="fresh")
    mount(fresh, at="fresh/")
    assert published[:-1] == [
        (answer.status_code, answer.json())
        for answer in [
            browser.get("/fresh/books?limit=1&tag=love"),
            browser.get("/fresh/books/2"),
            browser.get("/fresh/books/99"),
            browser.put("/fresh/books/1", json.dumps({"pages": 0}), "application/json"),
            browser.post("/fresh/books", json.dumps({"title": "Emma"}), "application/json"),
            browser.delete("/fresh/books/1"),
            browser.get("/fresh/machines/whoami"),
            browser.get("/fresh/machines/whoami", headers={"authorization": "Bearer hunter2"}),
            browser.get("/fresh/machines/local", REMOTE_ADDR="10.0.0.1"),
            browser.get("/fresh/trouble/lost"),
        ]
    ]


def test_a_site_can_go_on_adding_to_an_api_that_is_published(
    server: MCPServer, api: NinjaAPI, mount: Mount, browser: Browser
) -> None:
    more = Router()
    publish(api, server)
    api.add_router("more", more)
    more.get("/late")(lambda request: "late")
    api.get("/later-still")(lambda request: "later still")
    mount(api)
    assert [browser.get(f"/api/{path}").json() for path in ("more/late", "later-still")] == ["late", "later still"]


# Names


class Notes(Schema):
    size: int = Field(2, alias="page[size]", ge=1)
    inside: dict[str, int] = {}


def test_names_that_no_provider_takes_are_written_otherwise_and_sent_as_the_api_has_them(
    server: MCPServer, mount: Mount, nobody: Reader
) -> None:
    api = NinjaAPI(urls_namespace="names")

    @api.get("/notes")
    def list_notes(request: HttpRequest, page: Query[Notes], order: str = Query("new", alias="order by")) -> Any:
        return {"size": page.size, "order": order}

    @api.post("/notes/{where}")
    def add_note(request: HttpRequest, where: str, note: Notes) -> Any:
        return {"size": note.size, "inside": note.inside}

    publish(api, server, auth=None)
    mount(api)
    listed = {each["name"]: each["inputSchema"]["properties"] for each in nobody.list("tools/list")}
    assert listed["list_notes"].keys() >= {"page_size", "order_by"}
    assert listed["add_note"].keys() == {"where", "page_size", "inside"}
    assert listed["list_notes"]["page_size"]["description"] == "Sent as 'page[size]'."
    assert nobody.data("list_notes", page_size=7, order_by="old") == {"size": 7, "order": "old"}
    assert nobody.data("list_notes") == {"size": 2, "order": "new"}
    sent = {"page[size]": 1}
    assert nobody.data("add_note", where="a", page_size=5, inside=sent) == {"size": 5, "inside": sent}, "as it is"
    for name, given in (("list_notes", {}), ("add_note", {"where": "a"})):
        assert nobody.problem(name, page_size=0, **given) == "Argument 'page_size' must be at least 1, not 0."


def test_names_that_would_be_one_after_that_are_refused(server: MCPServer) -> None:
    api = NinjaAPI(urls_namespace="names-taken")

    class Both(Schema):
        size: int = Field(2, alias="page[size]")
        other: int = Field(2, alias="page_size")

    @api.get("/notes")
    def list_notes(request: HttpRequest, page: Query[Both]) -> Any:
        return {}

    with pytest.raises(ImproperlyConfigured, match="two parameters are named 'page_size'; give one of them an alias"):
        publish(api, server, auth=None)


def test_html_of_help_texts_is_told_as_text(server: MCPServer, nobody: Reader) -> None:
    api = NinjaAPI(urls_namespace="marked")
    words = "Your <b>code</b> &amp; date."

    class Marked(Schema):
        code: str = Field(description=words, title="<i>IATA</i> code")

    @api.post("/notes/{where}")
    def add_note(
        request: HttpRequest,
        body: Marked,
        where: str = Path(description=words),
        wish: str = Query("", description=words),
    ) -> Any:
        return {}

    publish(api, server, auth=None)
    (tool,) = nobody.list("tools/list")
    properties = tool["inputSchema"]["properties"]
    assert {name: each["description"] for name, each in properties.items()} == dict.fromkeys(
        ("where", "wish", "code"), "Your code & date."
    )
    assert properties["code"]["title"] == "IATA code"


class Grade(IntEnum):
    LOW = 1
    HIGH = 3


def test_numbers_that_an_operation_never_takes_from_the_text_of_a_request_are_no_argument(
    server: MCPServer, mount: Mount, nobody: Reader
) -> None:
    class Wish(Schema):
        only: Literal[1, 3] | None = None
        often: list[Literal[1, 3]] = []
        word: Literal["a", "b"] = "a"

    class Note(Schema):
        grade: Literal[1, 3] = 1

    api = NinjaAPI(urls_namespace="numbers")

    @api.post("/notes")
    def add(
        request: HttpRequest, note: Note, wish: Query[Wish], level: Literal[1, 3] = 1, grades: Grade = Grade.LOW
    ) -> Any:
        return {"grade": note.grade, "grades": grades, "word": wish.word}

    @api.post("/form")
    def send(request: HttpRequest, level: Form[Literal[1, 3]] = 1, grade: Form[Grade] = Grade.LOW) -> Any:
        return {"grade": grade}

    publish(api, server, auth=None)
    mount(api)
    listed = {each["name"]: each["inputSchema"]["properties"] for each in nobody.list("tools/list")}
    assert {name: {*properties} for name, properties in listed.items()} == {
        "add": {"grade", "grades", "word"},
        "send": {"grade"},
    }
    assert nobody.data("add", grade=3, grades=3, word="b") == {"grade": 3, "grades": 3, "word": "b"}
    assert nobody.data("send", grade=3) == {"grade": 3}

    required = NinjaAPI(urls_namespace="numbers-required")

    @required.get("/notes/{level}")
    def read(request: HttpRequest, level: Literal[1, 3]) -> Any: ...

    with pytest.raises(ImproperlyConfigured, match=r"no request can send a value of 'level'.* enum\.IntEnum"):
        publish(required, server, auth=None)
