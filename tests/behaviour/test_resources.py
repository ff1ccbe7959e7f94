"""Resources and templates, from the decorator to the contents."""

import asyncio
import base64
import dataclasses
import re
from collections import deque
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import unquote, urlencode

import pytest
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import ImproperlyConfigured, PermissionDenied
from django.http import Http404
from django.shortcuts import get_object_or_404
from pydantic import (
    AfterValidator,
    Base64Bytes,
    Base64Str,
    BaseModel,
    BeforeValidator,
    Json,
    SecretStr,
    StringConstraints,
)

from django_mcp import Annotations, Context, Icon, MCPServer, ResourceContents, ResourceLink, resource, tool
from django_mcp.core.concurrency import Pool
from django_mcp.transports import asgi
from tests.clients import MODERN, Client

B64_SAN_JOSE = f"=?base64?{base64.b64encode('travel://cities/San José'.encode()).decode()}?="


class Weather(BaseModel):
    city: str
    high: float


def read(client: Client, uri: str) -> list[dict[str, Any]]:
    return client.request("resources/read", {"uri": uri}).result["contents"]


def test_resources_and_templates_are_listed_apart_with_all_that_was_said_of_them(
    server: MCPServer, client: Client
) -> None:
    @resource(
        "travel://guide",
        server=server,
        title="The guide",
        mime_type="text/markdown",
        size=7,
        annotations=Annotations(audience=["assistant"], priority=1.0, last_modified="2026-01-01T00:00:00Z"),
        icons=[Icon("data:image/svg+xml,%3Csvg/%3E")],
    )
    def guide() -> str:
        """All about travel."""
        return "# Guide"

    @resource("travel://cities/{city}", server=server, name="city", title="One city")
    def one_city(city: str) -> str:
        """One city."""
        return city

    assert client.list("resources/list") == [
        {
            "name": "guide",
            "title": "The guide",
            "description": "All about travel.",
            "icons": [{"src": "data:image/svg+xml,%3Csvg/%3E"}],
            "uri": "travel://guide",
            "mimeType": "text/markdown",
            "size": 7,
            "annotations": {"audience": ["assistant"], "priority": 1.0, "lastModified": "2026-01-01T00:00:00Z"},
        }
    ]
    assert client.list("resources/templates/list") == [
        {
            "name": "city",
            "title": "One city",
            "description": "One city.",
            "uriTemplate": "travel://cities/{city}",
        }
    ]


@pytest.mark.parametrize("colour", ["sync", "async"])
@pytest.mark.parametrize(
    ("value", "contents"),
    [
        ("words", {"mimeType": "text/plain", "text": "words"}),
        (b"\x89PNG", {"mimeType": "application/octet-stream", "blob": base64.b64encode(b"\x89PNG").decode()}),
        ({"a": [1]}, {"mimeType": "application/json", "text": '{"a":[1]}'}),
        (Weather(city="Oslo", high=3), {"mimeType": "application/json", "text": '{"city":"Oslo","high":3.0}'}),
        ([], {"mimeType": "application/json", "text": "[]"}),
        (ResourceContents("# x", mime_type="text/markdown"), {"mimeType": "text/markdown", "text": "# x"}),
    ],
)
def test_what_the_function_returns_becomes_contents(
    server: MCPServer, client: Client, colour: str, value: Any, contents: dict[str, Any]
) -> None:
    async def later() -> Any:
        return value

    resource("test://x", server=server, name="x")(later if colour == "async" else lambda: value)
    assert read(client, "test://x") == [{"uri": "test://x", **contents}]


def test_a_resource_may_have_several_contents(server: MCPServer, client: Client) -> None:
    @resource("file:///docs", server=server)
    def docs() -> list[ResourceContents]:
        return [ResourceContents("a", "file:///docs/a", "text/plain"), ResourceContents(b"b", "file:///docs/b")]

    assert [each["uri"] for each in read(client, "file:///docs")] == ["file:///docs/a", "file:///docs/b"]


def test_variables_of_a_template_arrive_decoded_and_of_their_type(server: MCPServer, client: Client) -> None:
    @resource("calendar://{owner}/{year}{?month,day}", server=server)
    def events(owner: str, year: int, ctx: Context, month: int = 0, day: int | None = None) -> list[Any]:
        return [owner, year, month, day, ctx.method]

    expected = '["Søren Å B",2026,5,null,"resources/read"]'
    assert read(client, "calendar://S%C3%B8ren%20%C3%85%20B/2026?month=5")[0]["text"] == expected
    assert read(client, "calendar://x/1")[0]["text"] == '["x",1,0,null,"resources/read"]'


def test_what_is_not_there_is_not_found_and_named(server: MCPServer, client: Client, subtests: pytest.Subtests) -> None:
    @resource("calendar://events/{year}", server=server)
    def events(year: int) -> str:
        if year == 404:
            raise Http404
        if year == 403:
            raise PermissionDenied
        if year == 1:
            ContentType.objects.get(pk=-1)
        return "fine"

    @resource("calendar://hidden/{year}", server=server, permission="auth.view_user")
    def hidden(year: int) -> str:
        return "never"

    cases = [
        "calendar://events/soon",
        "calendar://events/",
        "calendar://events/2026/5",
        "calendar://events/2026?month=5",
        "calendar://events/2026#x",
        "CALENDAR://events/2026",
        "nowhere://at/all",
        "calendar://events/404",
        "calendar://events/403",
        "calendar://events/1",
        "calendar://hidden/2026",
        "no uri",
        "",
    ]
    for uri in cases:
        with subtests.test(uri=uri):
            answer = client.request("resources/read", {"uri": uri})
            assert answer.error == {
                "code": -32602 if client.is_modern else -32002,
                "message": "Resource not found",
                "data": {"uri": uri},
            }
            assert answer.status == (400 if client.is_modern else 200)


def test_a_uri_that_was_not_encoded_is_served_and_answered_encoded(server: MCPServer, client: Client) -> None:
    resource("travel://cities/{city}", server=server, name="city")(lambda city: city)
    answer = client.request("resources/read", {"uri": "travel://cities/San José"}, headers={"mcp-name": B64_SAN_JOSE})
    assert answer.result["contents"] == [
        {"uri": "travel://cities/San%20Jos%C3%A9", "mimeType": "text/plain", "text": "San José"}
    ]


def test_what_is_no_uri_is_refused_before_a_client_could_refuse_the_list(
    server: MCPServer, subtests: pytest.Subtests
) -> None:
    for uri in ["travel://San José", "travel://a b", "data:image/svg+xml,<svg/>", "no-scheme", ""]:
        with subtests.test(uri=uri):
            with pytest.raises(ImproperlyConfigured, match="x"):
                resource(uri, server=server, name="x")(lambda: "x")
            with pytest.raises(ImproperlyConfigured, match="x"):
                resource(uri + "/{y}", server=server, name="x")(lambda y: y)
            with pytest.raises(ImproperlyConfigured, match="website_url"):
                MCPServer("site", website_url=uri)
            for make in (Icon, lambda uri: ResourceLink(uri, "x"), lambda uri: ResourceContents("x", uri)):
                with pytest.raises(ValueError, match=r"is not a valid URI|must be an https: or data: URI"):
                    make(uri)


def test_get_object_or_404_works_as_everywhere(server: MCPServer, client: Client) -> None:
    @resource("kinds://{pk}", server=server)
    def kind(pk: int) -> str:
        return str(get_object_or_404(ContentType, pk=pk).model)

    assert client.request("resources/read", {"uri": "kinds://0"}).error["message"] == "Resource not found"


def test_a_uri_that_is_no_string_is_invalid(server: MCPServer, client: Client) -> None:
    resource("test://x", server=server, name="x")(lambda: "x")
    assert client.request("resources/read", {}).code == -32602
    assert client.request("resources/read", {"uri": 5}).code == -32602


def test_a_resource_that_fails_tells_the_log_and_not_the_client(
    server: MCPServer, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    @resource("test://x", server=server)
    def x() -> str:
        raise RuntimeError("hunter2")

    answer = client.request("resources/read", {"uri": "test://x"})
    assert (answer.status, answer.code) == (200, -32603)
    assert b"hunter2" not in answer.body
    assert "hunter2" in caplog.text


def test_the_plain_resource_goes_before_a_template_that_matches_too(server: MCPServer, client: Client) -> None:
    resource("test://{x}", server=server, name="template")(lambda x: "template")
    resource("test://plain", server=server, name="plain")(lambda: "plain")
    assert read(client, "test://plain")[0]["text"] == "plain"
    assert read(client, "test://other")[0]["text"] == "template"


def test_reading_is_private_and_not_to_be_kept(server: MCPServer, modern: Client) -> None:
    resource("test://x", server=server, name="x")(lambda: "x")
    result = modern.request("resources/read", {"uri": "test://x"}).result
    assert (result["ttlMs"], result["cacheScope"]) == (0, "private")


@pytest.mark.parametrize("reading", [1, 3])
def test_what_is_read_within_a_call_waits_for_no_other_thread(
    server: MCPServer, open_database: None, monkeypatch: pytest.MonkeyPatch, reading: int
) -> None:
    """Or calls that read at the same time would each hold a thread, and wait for one for ever."""
    pool = Pool(1)
    monkeypatch.setattr(asgi, "shared_pool", lambda: pool)

    @resource("test://inner/{depth}", server=server)
    async def inner(ctx: Context, depth: int) -> str:
        if depth == reading:
            return "the innermost"
        async with asyncio.timeout(5):
            (found,) = await ctx.aread(f"test://inner/{depth + 1}")
        return str(found.data)

    @tool(server=server)
    def look(ctx: Context) -> str:
        return str(ctx.read("test://inner/0")[0].data)

    assert Client(server, MODERN, "asgi").call("look").text == "the innermost"
    pool.close()


LEADING_OUT = (
    *("..", "../x", "..%2F..%2Fetc%2Fpasswd", "%2e%2e%2fx", "%2E%2E/x", "a/../x", "a%5C..%5Cx", "..%5Cx"),
    *("/etc/passwd", "%2Fetc%2Fpasswd", "//server/share", "%5C%5Cserver%5Cshare", "%5Cx", "C:/x", "c%3Ax", "C:%5Cx"),
    *("a%00b", "a%0Ab", "%1b", "a%7f", "a%C2%85"),
)


@pytest.mark.parametrize("template", ["file://{+file}", "file://all{?file}", "file://all{?of,file}", "file://{file}"])
def test_no_variable_of_a_template_leads_out_of_a_folder(server: MCPServer, client: Client, template: str) -> None:
    if "of" in template:
        resource(template, server=server)(lambda of="", file="": f"{of}{file}")
    else:
        resource(template, server=server)(file_named)
    before = template.partition("{")[0] + ("?file=" if "?" in template else "")
    assert read(client, f"{before}a%20b..c")[0]["text"] == "a b..c"
    for value in LEADING_OUT:
        answer = client.request("resources/read", {"uri": f"{before}{value}"})
        assert answer.error["message"].startswith("Resource not found"), value


def test_a_value_may_be_quoted_twice_as_it_is_decoded_once(server: MCPServer, client: Client) -> None:
    resource("file://all{?file}", server=server)(file_named)
    assert read(client, "file://all?file=..%252Fx")[0]["text"] == "..%2Fx"


def file_named(file: str = "") -> str:
    return file


def test_what_validation_makes_of_a_value_leads_out_of_no_folder(server: MCPServer, client: Client) -> None:
    @resource("file://stripped{?file}", server=server)
    def stripped(file: Annotated[str, StringConstraints(strip_whitespace=True)] = "") -> str:
        return file

    @resource("file://decoded{?file}", server=server)
    def decoded(file: Annotated[str, AfterValidator(unquote)] = "") -> str:
        return file

    @resource("file://path{?file}", server=server)
    def path(file: Path = Path()) -> str:
        return str(file)

    @resource("file://json{?files}", server=server)
    def listed(files: Json[dict[str, list[str]]] = ()) -> str:
        return str(files)

    for uri in (
        "file://stripped?file=%20/etc/passwd",
        "file://decoded?file=..%252Fx",
        "file://path?file=../x",
        'file://json?files={"a": ["b", "..\\u002fx"]}',
    ):
        assert client.request("resources/read", {"uri": uri}).error["message"].startswith("Resource not found"), uri
    assert read(client, "file://stripped?file=%20a/b%20")[0]["text"] == "a/b"
    assert read(client, "file://decoded?file=a%252Fb")[0]["text"] == "a/b"
    assert read(client, "file://path?file=a/b")[0]["text"] == "a/b"
    assert read(client, 'file://json?files={"a": ["b"]}')[0]["text"] == "{'a': ['b']}"


@dataclasses.dataclass
class Choice:
    file: str
    others: tuple[str, ...] = ()


class Chosen(BaseModel):
    file: str = ""
    others: deque[str] = deque()


@pytest.mark.parametrize(
    ("annotation", "inside", "outside"),
    [
        (Base64Str, base64.b64encode(b"a/b").decode(), base64.b64encode(b"../x").decode()),
        (Base64Bytes, base64.b64encode(b"a/b").decode(), base64.b64encode(b"/etc/passwd").decode()),
        (Json[Choice], '{"file": "a"}', '{"file": "a", "others": ["..\\u002fx"]}'),
        (Json[Chosen], '{"others": ["a"]}', '{"others": ["..\\u002fx"]}'),
        (Json[dict[str, int]], '{"a": 1}', '{"..\\u002fx": 1}'),
        (Annotated[SecretStr, BeforeValidator(str.strip)], "a", " /etc/passwd"),
    ],
)
def test_whatever_type_validation_makes_leads_out_of_no_folder(
    server: MCPServer, client: Client, annotation: Any, inside: str, outside: str
) -> None:
    def typed(file: annotation = None) -> str:
        return "read"

    resource("file://typed{?file}", server=server)(typed)
    assert read(client, f"file://typed?{urlencode({'file': inside})}")[0]["text"] == "read"
    refused = client.request("resources/read", {"uri": f"file://typed?{urlencode({'file': outside})}"})
    assert refused.error["message"].startswith("Resource not found")


def test_an_unchecked_variable_may_be_any_text(server: MCPServer, client: Client) -> None:
    @resource("search://{kind}{?q}", unchecked=["q"], server=server)
    def search(kind: str, q: str = "") -> str:
        return f"{kind} {q}"

    for text in ("../x", "/dev/null", "C: or D:", "a\tb"):
        assert read(client, f"search://all?{urlencode({'q': text})}")[0]["text"] == f"all {text}"
    assert "error" in client.request("resources/read", {"uri": "search://..?q=x"}).json


def test_only_variables_can_be_unchecked(server: MCPServer) -> None:
    for given, reason in [(["query"], "no variable of 'search://{q}'"), ("q", "must be a list, like ['q']")]:
        with pytest.raises(ImproperlyConfigured, match=re.escape(reason)):
            resource("search://{q}", unchecked=given, server=server)(lambda q: q)
