"""MCP Apps: a template is the view of a tool's result, for clients that show apps, within the rights of the caller."""

import copy
import io
import logging
from collections.abc import Callable, Mapping
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django import template
from django.contrib.auth.models import AnonymousUser, Group
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.db import connection
from django.http import JsonResponse
from django.template.loader import render_to_string
from django.test import override_settings
from django.utils.autoreload import file_changed
from ninja import NinjaAPI
from rest_framework.response import Response
from rest_framework.views import APIView

from django_mcp import Context, MCPServer, ToolError, tool, ui, view_tool
from django_mcp.checks import check_apps
from django_mcp.contrib.drf import drf_tools
from django_mcp.contrib.ninja import ninja_tools
from django_mcp.core.apps import App, _Addresses
from django_mcp.test import MCPClient
from tests.settings import DJANGO_MCP, TEMPLATES

UI = "io.modelcontextprotocol/ui"
PAGES = {
    "part.html": "<h1>{{ result.name }}</h1>{% csrf_token %}<p>{{ arguments.name }}</p>",
    "whole.html": (
        '{% extends "django_mcp/app.html" %}{% load static %}'
        '{% block head %}<link rel="stylesheet" href="{% static "card.css" %}"><meta name="x" content="{{ result }}">'
        '{% endblock %}{% block content %}<b>{{ result.name }}</b><a href="{% url "admin:index" %}">Admin</a>'
        "{% endblock %}"
    ),
    "own.html": '<!doctype html><html><title>Own</title>{% include "django_mcp/apps/bridge.html" %}</html>',
    "far.html": '<img src="https://images.example.com/a.png"><iframe src="https://maps.example.com/x"></iframe>',
    "broken.html": "{% load static %}{{ result.name|divisibleby:'x' }}",
    "query.html": "{% load queries %}{{ result.name }}{% failing_query %}",
}

register = template.Library()


@register.simple_tag
def failing_query() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT name FROM no_such_table")
    return ""


@register.simple_tag
def is_within() -> bool:
    return connection.in_atomic_block


@pytest.fixture(autouse=True)
def templates() -> Any:
    engine = copy.deepcopy(TEMPLATES[0])
    engine["APP_DIRS"] = False
    loaders = [
        ("django.template.loaders.locmem.Loader", PAGES),
        "django.template.loaders.filesystem.Loader",
        "django.template.loaders.app_directories.Loader",
    ]
    engine["OPTIONS"] = {**engine["OPTIONS"], "loaders": loaders, "libraries": {"queries": __name__}}
    with override_settings(TEMPLATES=[engine], DJANGO_MCP={**DJANGO_MCP, "BASE_URL": "https://travel.example.com"}):
        yield


def host(server: MCPServer, user: Any = None, **options: Any) -> MCPClient:
    """A client that shows apps."""
    return MCPClient(AnonymousUser() if user is None else user, server=server, apps=True, **options)


def other(server: MCPServer, **options: Any) -> MCPClient:
    return MCPClient(AnonymousUser(), server=server, **options)


@pytest.fixture
def make_city(server: MCPServer) -> Callable[..., Any]:
    def make(app: Any = "part.html", **options: Any) -> Any:
        @tool(app=app, server=server, read_only=True, **options)
        def city(name: str) -> dict[str, Any]:
            """A city."""
            return {"name": name}

        return city

    return make


pytestmark = pytest.mark.django_db


def page_of(client: MCPClient, uri: str) -> Mapping[str, Any]:
    return client.read(uri).assert_ok().result["contents"][0]


def test_a_result_carries_the_template_rendered_with_it_and_its_text_stays(
    server: MCPServer, make_city: Callable[..., Any]
) -> None:
    make_city()

    called = host(server).call("city", name="<Oslo>")

    assert called.html == "<h1>&lt;Oslo&gt;</h1><p>&lt;Oslo&gt;</p>"
    called.assert_structured({"name": "<Oslo>"})
    assert called.text == '{"name":"<Oslo>"}'


def test_tools_made_from_views_and_apis_have_apps_by_their_templates_too(server: MCPServer) -> None:
    class Cities(APIView):
        permission_classes = ()

        def get(self, request: Any) -> Response:
            return Response({"name": "Oslo"})

    def city_page(request: Any) -> JsonResponse:
        return JsonResponse({"name": "Oslo"})

    api = NinjaAPI(urls_namespace="cities-of-apps")
    api.get("/city", operation_id="of_ninja")(lambda request: {"name": "Oslo"})
    view_tool(city_page, path="city/", name="of_view", output_schema={"type": "object"}, app="part.html", server=server)
    drf_tools(Cities, mounted=False, app="part.html", server=server, responses={"get": dict})
    ninja_tools(api, app="part.html", server=server)
    client = host(server)
    names = client.names()
    assert len(names) == 3
    for name in names:
        assert "<h1>Oslo</h1>" in client.call(name).html, name


def test_a_client_without_the_extension_gets_the_text_alone(
    server: MCPServer, make_city: Callable[..., Any], subtests: pytest.Subtests
) -> None:
    make_city()
    for declared in ({}, {"extensions": {UI: {}}}, {"extensions": {UI: {"mimeTypes": ["text/html"]}}}):
        with subtests.test(declared=declared):
            called = other(server, capabilities=declared).call("city", name="Oslo")
            assert called.html == ""
            assert called.text == '{"name":"Oslo"}'


def test_a_client_that_shows_apps_without_declaring_it_is_named_in_the_settings(
    server: MCPServer, make_city: Callable[..., Any]
) -> None:
    make_city()
    with override_settings(DJANGO_MCP={**DJANGO_MCP, "APP_CLIENTS": ["django_mcp.test"]}):
        assert other(server).call("city", name="Oslo").html == "<h1>Oslo</h1><p>Oslo</p>"


def test_a_tool_names_the_page_of_its_app_and_the_endpoint_declares_the_extension(
    server: MCPServer, make_city: Callable[..., Any]
) -> None:
    make_city()

    assert host(server).definition("city")["_meta"]["ui"] == {"resourceUri": "ui://part.html"}
    assert server.extensions[UI].settings == {}
    for client in (host(server, protocol_version="legacy"), host(server, protocol_version="modern")):
        page = page_of(client, "ui://part.html")
        assert page["mimeType"] == "text/html;profile=mcp-app"
        assert page["text"].startswith("<!doctype html>")


def test_the_page_is_sent_without_a_result_and_the_template_need_not_work_without_one(
    server: MCPServer, make_city: Callable[..., Any]
) -> None:
    make_city("whole.html")

    page = page_of(host(server), "ui://whole.html")["text"]

    assert '<main id="mcp-app" aria-live="polite"><!--mcp--><!--/mcp--></main>' in page
    assert "window.mcp = mcp" in page
    called = host(server).call("city", name="Oslo")
    assert called.html == '<b>Oslo</b><a href="https://travel.example.com/admin/">Admin</a>'


def test_static_files_are_absolute_and_their_origin_is_declared(
    server: MCPServer, make_city: Callable[..., Any]
) -> None:
    make_city("whole.html")
    page = page_of(host(server), "ui://whole.html")
    assert 'href="https://travel.example.com/static/card.css"' in page["text"]
    assert page["_meta"]["ui"] == {"csp": {"connectDomains": [], "resourceDomains": ["https://travel.example.com"]}}

    with override_settings(STATIC_URL="https://cdn.example.com/static/"):
        page = page_of(host(server), "ui://whole.html")
    assert page["_meta"]["ui"] == {"csp": {"connectDomains": [], "resourceDomains": ["https://cdn.example.com"]}}


@pytest.mark.parametrize("static", ["https://cdn.example.com/s/", "/static/"])
def test_static_files_of_results_may_be_loaded_wherever_they_are_written(
    server: MCPServer, make_city: Callable[..., Any], static: str
) -> None:
    """The page that a host reads first has no result: what its content, its parts, tags and widgets load is unknown."""
    PAGES["picture.html"] = '{% load static %}<img src="{% static "a.png" %}">'
    PAGES["with-part.html"] = '{% with part="picture.html" %}{% include part %}{% endwith %}'
    make_city("with-part.html")
    with override_settings(STATIC_URL=static):
        csp = page_of(host(server), "ui://with-part.html")["_meta"]["ui"]["csp"]
        (origin,) = csp["resourceDomains"]
        assert f'<img src="{origin}' in host(server).call("city", name="Oslo").html


def test_a_policy_is_there_also_if_a_page_loads_nothing(server: MCPServer, make_city: Callable[..., Any]) -> None:
    make_city()
    with override_settings(STATIC_URL=None, STATIC_ROOT=None):
        meta = page_of(host(server), "ui://part.html")["_meta"]
    assert meta["ui"] == {"csp": {"connectDomains": [], "resourceDomains": []}}
    assert meta["openai/widgetCSP"] == {"connect_domains": [], "resource_domains": []}


@pytest.mark.parametrize("name", ["part.html", "whole.html", "far-page.html", "own.html", "broken.html"])
def test_a_page_has_one_policy_in_the_list_and_in_its_contents(
    server: MCPServer, make_city: Callable[..., Any], name: str
) -> None:
    far = PAGES["far.html"]
    PAGES["far-page.html"] = '{% extends "django_mcp/app.html" %}{% block head %}' + far + "{% endblock %}"
    make_city(ui(f"ui://{name}", template=name, connect_domains=["https://api.example.com"], server=server))
    for address in ("https://travel.example.com", None):
        with override_settings(DJANGO_MCP={**DJANGO_MCP, "BASE_URL": address}):
            (listed,) = host(server).resources()
            assert listed["_meta"] == page_of(host(server), f"ui://{name}")["_meta"]
    assert listed["_meta"]["openai/widgetCSP"]["connect_domains"] == ["https://api.example.com"]
    assert ("frame_domains" in listed["_meta"]["openai/widgetCSP"]) is (name == "far-page.html")


def test_the_list_has_what_is_declared_of_a_page_that_cannot_be_made(
    server: MCPServer, make_city: Callable[..., Any]
) -> None:
    make_city(ui("ui://lost", template="lost.html", frame_domains=["https://maps.example.com"], server=server))
    (listed,) = host(server).resources()
    assert listed["_meta"]["ui"]["csp"]["frameDomains"] == ["https://maps.example.com"]


ADDRESSES = [
    ('<img srcset="/m/a.png 1x, /m/w_3,h_2/b.png 2x,/c.png">', ["/m/a.png", "/m/w_3,h_2/b.png", "/c.png"]),
    ('<div style="background: url(/m/c.png)"></div>', ["/m/c.png"]),
    ("<div style='background: URL( \"/m/c.png\" )'></div>", ["/m/c.png"]),
    ('<div style="background: url(&quot;/m/c.png&quot;)"></div>', ["/m/c.png"]),
    ("<img src=/m/a.png>", ["/m/a.png"]),
    ('<IMG alt=">"\n SRC = "/m/a.png?x=1&amp;y=2">', ["/m/a.png?x=1&y=2"]),
    ('<style>@import "/a.css"; p { background: url(/x.png) }</style><p>url(/no)</p>', ["/a.css", "/x.png"]),
    ('<link rel=preload as=image imagesrcset="/a.png 1x">', ["/a.png"]),
    ('<object data="/a.svg" type="image/svg+xml"></object><embed src=/b.svg>', ["/a.svg", "/b.svg"]),
    (
        '<video poster="/p.png"><track src="/t.vtt"></video><table background="/b.png"></table>',
        ["/p.png", "/t.vtt", "/b.png"],
    ),
    ('<a href="/a" ping="/ping https://e.example.com/ /pong">x</a>', ["/a", "/ping", "/pong"]),
    (
        '<form action="/f"><button formaction="/g">Go</button><input type="image" src="/h.png"></form>',
        ["/f", "/g", "/h.png"],
    ),
    (
        '<svg><image xlink:href="/i.png"/><path fill="url(/p.svg#a)" mask="url(\'/m.svg#b\')"/></svg>',
        ["/p.svg#a", "/m.svg#b", "/i.png"],
    ),
    ('<meta http-equiv="Refresh" content="5; URL=/next/">', ["/next/"]),
    ("<meta http-equiv=refresh content=\"0;url='/next/'\">", ["/next/"]),
    ("<meta http-equiv=refresh content='0;/next/'>", ["/next/"]),
    ('<iframe srcdoc="&lt;img src=&quot;/i.png&quot;&gt;"></iframe>', ["/i.png"]),
    ("<style>p { background: image-set('/a.png' 1x, \"/b.png\" type('image/png') 2x) }</style>", ["/a.png", "/b.png"]),
    ("<style>p { cursor: -webkit-image-set(url(/c.png) 1x, url('/d.png') 2x), auto }</style>", ["/c.png", "/d.png"]),
    ('<p style="background: image-set( &quot;/a.png&quot; 1x )"></p>', ["/a.png"]),
    ("<style>@font-face { src: url(/f.woff2) } @import url('/a.css') screen;</style>", ["/f.woff2", "/a.css"]),
    ('<svg><use xlink:href="/icons.svg#a"/><image href="/i.png"/></svg>', ["/icons.svg#a", "/i.png"]),
    ('<p>ä\nö</p><video poster=/p.png></video><input type="image" src="/b.png">', ["/p.png", "/b.png"]),
    ("<textarea><img src=\"/no\"></textarea><script>a = '<img src=/no>'</script><!-- <img src=/no> -->", []),
    ('<p title="src=/no" data-src="/no">/no</p><img src="data:image/png;base64,AA/A">', []),
]


@pytest.mark.parametrize(("html", "loaded"), ADDRESSES)
def test_addresses_are_absolute_wherever_html_has_them(
    server: MCPServer, make_city: Callable[..., Any], html: str, loaded: list[str]
) -> None:
    PAGES["addresses.html"] = html
    make_city("addresses.html")
    shown = unescape(host(server).call("city", name="Oslo").html)
    for address in loaded:
        assert f"https://travel.example.com{address}" in shown
    assert shown.count("https://travel.example.com") == len(loaded)


def test_the_policy_of_a_page_has_what_its_styles_and_images_load(
    server: MCPServer, make_city: Callable[..., Any]
) -> None:
    loads = ["a", "b", "c", "d"]
    PAGES["loads.html"] = (
        '{% extends "django_mcp/app.html" %}{% block head %}<style>@import "https://a.example.com/a.css";'
        "p { background: url(https://b.example.com/b.png) }</style>"
        '<link rel="preload" as="image" imagesrcset="/x.png 1x, https://c.example.com/c.png 2x">{% endblock %}'
        '{% block scripts %}<p style="background: url(&quot;https://d.example.com/d.png&quot;)"></p>{% endblock %}'
    )
    make_city("loads.html")
    csp = page_of(host(server), "ui://loads.html")["_meta"]["ui"]["csp"]
    assert {f"https://{name}.example.com" for name in loads} <= set(csp["resourceDomains"])


def test_addresses_are_those_of_the_base_that_a_page_sets() -> None:
    html = '<base href="https://cdn.example.com/x/"><img src="/a.png"><base href="/later/"><img src="/b.png">'
    found = _Addresses(html, "http://testserver/")
    assert found.html.count('src="https://cdn.example.com/') == 2
    assert ("baseUriDomains", "https://cdn.example.com/x/") in found.loaded


@pytest.mark.parametrize(
    "html",
    [
        "<style>p { background: image-set('a.png' type('/image/png') 1x) }</style>",
        '<meta name="path" content="0; url=/next/">',
        '<meta http-equiv="refresh" content="in 5; url=/next/">',
        '<meta http-equiv="refresh" content="55">',
        '<data data="/no" content="/no" ping="/no">x</data>',
    ],
)
def test_what_is_no_address_stays(html: str) -> None:
    assert _Addresses(html, "http://testserver/").html == html


def test_an_app_declares_origins_permissions_and_border(server: MCPServer, make_city: Callable[..., Any]) -> None:
    app = ui(
        "ui://cities/card",
        template="part.html",
        title="City",
        connect_domains=["https://api.example.com/"],
        resource_domains=["https://images.example.com"],
        frame_domains=["https://maps.example.com"],
        permissions=["geolocation"],
        prefers_border=False,
        server=server,
    )
    make_city(app)

    declared = {
        "permissions": {"geolocation": {}},
        "prefersBorder": False,
        "csp": {
            "connectDomains": ["https://api.example.com"],
            "resourceDomains": ["https://images.example.com", "https://travel.example.com"],
            "frameDomains": ["https://maps.example.com"],
        },
    }
    assert page_of(host(server), "ui://cities/card")["_meta"]["ui"] == declared
    (listed,) = host(server).resources()
    assert listed["_meta"]["ui"] == declared
    assert listed["title"] == "City"
    assert other(server).resources() == []


def test_a_page_with_scripts_of_its_own_is_sent_once(server: MCPServer, make_city: Callable[..., Any]) -> None:
    make_city("own.html")
    assert page_of(host(server), "ui://own.html")["text"].startswith("<!doctype html><html><title>Own</title><script>")
    assert host(server).call("city", name="Oslo").html == ""


def test_a_template_that_fails_loses_no_result(
    server: MCPServer, make_city: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    make_city("broken.html")
    with caplog.at_level(logging.ERROR):
        called = host(server, protocol_version="modern").call("city", name="Oslo")
    called.assert_structured({"name": "Oslo"})
    assert called.html == ""
    assert "app 'ui://broken.html' (template 'broken.html') could not be rendered" in caplog.text


@pytest.mark.postgresql
@pytest.mark.django_db(transaction=True)
def test_what_a_tool_saved_stays_if_a_query_of_its_template_fails(
    server: MCPServer, caplog: pytest.LogCaptureFixture
) -> None:
    @tool(app="query.html", server=server)
    def add_group(name: str) -> dict[str, str]:
        Group.objects.create(name=name)
        return {"name": name}

    with caplog.at_level(logging.ERROR):
        called = host(server).call("add_group", name="Guides")
    called.assert_structured({"name": "Guides"})
    assert called.html == ""
    assert Group.objects.filter(name="Guides").exists()
    assert "could not be rendered" in caplog.text


@pytest.mark.django_db(transaction=True)
def test_the_view_of_a_tool_without_a_transaction_begins_none(server: MCPServer) -> None:
    PAGES["within.html"] = "{% load queries %}{% is_within %}"

    @tool(app="within.html", server=server, read_only=True)
    def look() -> dict[str, str]:
        return {}

    @tool(app="within.html", server=server)
    def change() -> dict[str, str]:
        Group.objects.create(name="Guides")
        return {}

    client = host(server)
    assert [client.call(name).html for name in ("look", "change")] == ["False", "True"]


def undeclared(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage().rpartition(": ")[2] for record in caplog.records if "hosts block" in record.getMessage()
    ]


def test_a_result_that_loads_from_elsewhere_is_told_once_what_to_declare(
    server: MCPServer, make_city: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    make_city(ui("ui://far", template="far.html", server=server))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            host(server, protocol_version="modern").call("city", name="Oslo")
    assert sorted(undeclared(caplog)) == ["add it to frame_domains", "add it to resource_domains"]
    assert "loads from https://images.example.com, which hosts block" in caplog.text
    assert "loads from https://maps.example.com, which hosts block" in caplog.text


def test_what_a_result_loads_later_from_the_origin_of_a_link_is_told_too(
    server: MCPServer, make_city: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    PAGES["later.html"] = '<a href="https://far.example.com/">Oslo</a>{{ result.more|safe }}'

    @tool(server=server, app="later.html", read_only=True)
    def look(more: str) -> dict[str, str]:
        """Look."""
        return {"more": more}

    with caplog.at_level(logging.WARNING):
        host(server).call("look", more="")
        assert undeclared(caplog) == []
        host(server).call("look", more='<img src="https://far.example.com/a.png">')
    assert undeclared(caplog) == ["add it to resource_domains"]


def test_what_the_page_loads_itself_is_declared_and_not_told(
    server: MCPServer, make_city: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    PAGES["fonts.html"] = (
        '{% extends "django_mcp/app.html" %}{% block head %}<link rel="stylesheet" href="https://fonts.example.com/a.css">'
        '{% endblock %}{% block content %}<a href="/more/">{{ result.name }}</a>{% endblock %}'
    )
    make_city("fonts.html")
    with caplog.at_level(logging.WARNING):
        assert "/more/" in host(server).call("city", name="Oslo").html
    assert undeclared(caplog) == []


@pytest.mark.parametrize(
    ("html", "told"),
    [
        ('<img src="cover.png">', "cover.png"),
        ("<img src=../cover.png>", "../cover.png"),
        ('<a href="/more/">x</a><style>p { background: url(a.png) }</style>', "a.png"),
        ('<img src="data:image/png;base64,AA"><svg><use href="#a"/></svg><a href="more">x</a>', None),
    ],
)
@pytest.mark.parametrize("block", ["content", "scripts"])
def test_an_address_that_is_relative_to_nothing_is_told_once(
    server: MCPServer,
    make_city: Callable[..., Any],
    caplog: pytest.LogCaptureFixture,
    block: str,
    html: str,
    told: str | None,
) -> None:
    PAGES["relative.html"] = '{% extends "django_mcp/app.html" %}{% block ' + block + " %}" + html + "{% endblock %}"
    make_city(ui("ui://relative", template="relative.html", server=server))
    with caplog.at_level(logging.WARNING):
        page_of(host(server), "ui://relative")
        for _ in range(2):
            host(server).call("city", name="Oslo")
    found = [each.args[1] for each in caplog.records if "relative to nothing" in each.msg]  # type: ignore[index, union-attr]
    assert found == ([] if told is None else [told])


def test_a_host_that_results_name_does_not_fill_the_memory(
    server: MCPServer, make_city: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_mcp.core.apps.MAX_ORIGINS", 10)
    PAGES["many.html"] = (
        '{% for number in "0123456789abcd" %}<img src="https://{{ number }}{{ result.name }}.example.com">{% endfor %}'
    )
    make_city(ui("ui://many", template="many.html", server=server))
    for name in ("Oslo", "Rome"):
        host(server).call("city", name=name)
    (app,) = (each for each in server.resources.values() if isinstance(each, App))
    assert len(app._known_origins) == 10


@pytest.mark.parametrize("media", ["/media/", "https://files.example.com/"])
def test_media_of_results_may_be_loaded_wherever_static_files_are(
    server: MCPServer, make_city: Callable[..., Any], caplog: pytest.LogCaptureFixture, media: str
) -> None:
    PAGES["cover.html"] = f'<img src="{media}cover.png">'
    make_city("cover.html")
    with override_settings(STATIC_URL="https://cdn.example.com/static/", MEDIA_URL=media):
        csp = page_of(host(server), "ui://cover.html")["_meta"]["ui"]["csp"]
        called = host(server).call("city", name="Oslo")
    origin = "https://travel.example.com" if media == "/media/" else "https://files.example.com"
    assert csp["resourceDomains"] == ["https://cdn.example.com", origin]
    assert f'<img src="{origin}/' in called.html
    assert undeclared(caplog) == []


def test_a_view_too_large_to_send_is_left_out(server: MCPServer, caplog: pytest.LogCaptureFixture) -> None:
    PAGES["large.html"] = "{{ result }}{{ result }}"

    @tool(app="large.html", server=server)
    def text() -> str:
        return "x" * 600

    with override_settings(DJANGO_MCP={**DJANGO_MCP, "MAX_BINARY_BYTES": 1000}), caplog.at_level(logging.ERROR):
        called = host(server, protocol_version="modern").call("text")
    assert called.html == ""
    assert called.text == "x" * 600
    assert "more than MAX_BINARY_BYTES" in caplog.text


def test_a_context_processor_that_needs_a_session_does_not_break_an_app(
    server: MCPServer, make_city: Callable[..., Any], settings: Any
) -> None:
    PAGES["caller.html"] = "{{ result.name }} for {{ user }} at {{ request.path }}"
    engine = copy.deepcopy(settings.TEMPLATES[0])
    engine["OPTIONS"]["context_processors"].append("tests.core.test_apps.cart")
    settings.TEMPLATES = [engine]
    make_city("caller.html")

    assert host(server).call("city", name="Oslo").html == "Oslo for AnonymousUser at /test/mcp"


def cart(request: Any) -> dict[str, Any]:
    """A context processor as shops have it."""
    return {"cart": request.session["cart"]}


def test_a_missing_or_invalid_template_is_reported_at_start(server: MCPServer, subtests: pytest.Subtests) -> None:
    PAGES["invalid.html"] = "{% if %}"
    for name, error in (("missing.html", "TemplateDoesNotExist"), ("invalid.html", "TemplateSyntaxError")):
        with subtests.test(name=name):
            ui(f"ui://{name}", template=name, server=server)
            found = [each for each in check_apps() if name in each.msg]
            assert [each.id for each in found] == ["django_mcp.E059"]
            assert error in found[0].msg


def test_static_files_of_apps_need_a_public_address(server: MCPServer) -> None:
    ui("ui://whole.html", template="whole.html", server=server)
    assert [each for each in check_apps() if "whole.html" in each.msg] == []
    with override_settings(DJANGO_MCP={**DJANGO_MCP, "BASE_URL": None}):
        assert [each.id for each in check_apps() if "whole.html" in each.msg] == ["django_mcp.W059"]
        PAGES["words.html"] = '<p class="static">Static text</p>'
        PAGES["parts.html"] = '{% if result %}{% include "whole.html" %}{% endif %}'
        for name, codes in (("words.html", []), ("parts.html", ["django_mcp.W059"])):
            ui(f"ui://{name}", template=name, server=server)
            assert [each.id for each in check_apps() if name in each.msg] == codes


def test_mcp_inspect_shows_apps(server: MCPServer, make_city: Callable[..., Any]) -> None:
    app = ui("ui://card", template="part.html", connect_domains=["https://a.example.com"], server=server)
    make_city(app, visibility=["app"])
    out = io.StringIO()
    call_command("mcp_inspect", "--server", "test", stdout=out)
    assert "city  [read-only, app ui://card, called by apps only]" in out.getvalue()
    assert "ui://card  [template part.html]" in out.getvalue()
    assert "csp: connectDomains https://a.example.com" in out.getvalue()


def test_an_error_is_text(server: MCPServer) -> None:
    @tool(app="part.html", server=server)
    def fail() -> dict[str, str]:
        raise ToolError("No such city.")

    assert host(server).call("fail").html == ""


def test_a_coroutine_and_a_list_have_views_too(server: MCPServer) -> None:
    PAGES["list.html"] = "{% for each in result %}[{{ each }}]{% endfor %}"

    @tool(app="list.html", server=server)
    async def cities() -> list[str]:
        return ["Oslo", "Rome"]

    @tool(app="list.html", server=server)
    def letters() -> str:
        return "ab"

    assert host(server).call("cities").html == "[Oslo][Rome]"
    assert host(server).call("letters").html == "[a][b]"


def test_a_tool_for_apps_only_exists_for_clients_that_show_apps(server: MCPServer) -> None:
    @tool(visibility=["app"], server=server)
    def refresh() -> str:
        return "fresh"

    assert host(server).definition("refresh")["_meta"]["ui"] == {"visibility": ["app"]}
    assert host(server).call("refresh").text == "fresh"
    assert other(server).names() == []
    assert other(server).call("refresh").is_hidden


def test_no_model_finds_a_tool_for_apps_only(make_server: Callable[..., MCPServer]) -> None:
    server = make_server(search_tools=True)

    @tool(visibility=["app"], server=server, read_only=True)
    def refresh() -> str:
        """Refresh the dashboard."""
        return "fresh"

    found = host(server).call("search_tools", query="refresh dashboard")

    assert found.structured is not None
    assert found.structured["tools"] == []
    assert "Unknown tool: 'refresh'" in host(server).call("call_read_tool", name="refresh", arguments={}).text


def test_the_page_of_a_tool_that_the_caller_may_not_know_of_does_not_exist(
    server: MCPServer, make_city: Callable[..., Any]
) -> None:
    make_city(visible=lambda ctx: ctx.user.is_authenticated)
    assert host(server).read("ui://part.html").is_hidden
    assert host(server).resources() == []


def test_another_endpoint_takes_a_tool_with_its_page(make_server: Callable[..., MCPServer]) -> None:
    first = make_server("first")

    @tool(app="part.html", tags=["city"], server=first)
    def city(name: str) -> dict[str, str]:
        return {"name": name}

    @tool(app="part.html", tags=["city"], server=first)
    def town(name: str) -> dict[str, str]:
        return {"name": name}

    second = make_server("second", source=first, include_tags=["city"])
    assert host(second).read("ui://part.html").ok
    assert host(second).call("town", name="Bath").html == "<h1>Bath</h1><p>Bath</p>"


def test_a_changed_template_is_told_of_in_development(
    server: MCPServer, make_city: Callable[..., Any], tmp_path: Path
) -> None:
    make_city()
    engine = copy.deepcopy(TEMPLATES[0])
    engine["DIRS"] = [tmp_path]
    with override_settings(TEMPLATES=[engine]), host(server).subscribe("ui://part.html") as heard:
        file_changed.send(sender=None, file_path=tmp_path / "part.html")
    assert heard.updated == ["ui://part.html"]


def test_what_an_app_cannot_be_is_said_at_start(server: MCPServer, subtests: pytest.Subtests) -> None:
    for options, message in [
        ({"uri": "https://a.example.com"}, "begins with ui://"),
        ({"uri": "ui://{city}"}, "variables"),
        ({"connect_domains": "https://a.example.com"}, "connect_domains must be a list"),
        ({"connect_domains": ["a.example.com"]}, "connect_domains takes origins, like 'https://maps.example.com'"),
        ({"frame_domains": ["https://a.example.com/x"]}, "frame_domains takes origins"),
        ({"permissions": ["usb"]}, "unknown permission 'usb'. Use camera, microphone, geolocation, clipboardWrite."),
    ]:
        with subtests.test(options=options), pytest.raises(ImproperlyConfigured, match=message):
            ui(**{"uri": "ui://x", "template": "part.html", "server": server, **options})
    for options, message in [
        ({"app": 3}, "app must be the name of a template"),
        ({"visibility": ["models"]}, "visibility must be a list of 'model' and 'app'"),
        ({"visibility": []}, "visibility must be a list of 'model' and 'app'"),
        ({"app": "part.html", "meta": {"ui": {}}}, "give either app= or meta="),
    ]:
        with subtests.test(options=options), pytest.raises(ImproperlyConfigured, match=message):

            @tool(server=server, **options)
            def city(ctx: Context) -> str:
                return ""


def test_the_bridge_is_small() -> None:
    assert len(render_to_string("django_mcp/apps/bridge.js").encode()) < 11 * 1024
