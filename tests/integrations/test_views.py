"""Views as tools: what is told of them, what they are asked, and that they stay as they are."""

import json
import types
from typing import Annotated, Any, ClassVar

import pytest
from django.contrib.auth.models import Group
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.test import Client as Browser
from django.test import override_settings
from django.urls import include, path, re_path, register_converter
from pydantic import Field

from django_mcp import MCPServer, view_tool
from django_mcp.transports.view import mcp_view
from tests.integrations import views_site
from tests.integrations.visitors import Visitor


def schema(visitor: Visitor) -> dict[str, Any]:
    (tool,) = visitor.list("tools/list")
    return tool["inputSchema"]["properties"]


def test_a_json_view_is_a_tool_with_the_words_of_its_docstring(site: MCPServer, visitor: Visitor) -> None:
    view_tool("departures", arguments={"limit": (int, 2)}, server=site)
    (listed,) = visitor.list("tools/list")
    assert listed["name"] == "departures"
    assert listed["description"] == "Flights that leave an airport soon."
    assert listed["annotations"] == {"readOnlyHint": True, "destructiveHint": False}
    assert listed["inputSchema"]["required"] == ["airport"]
    assert visitor.data("departures", airport="MUC", limit=1) == visitor.as_sent([{"from": "MUC", "number": 0}])
    assert len(json.loads(visitor.text("departures", airport="MUC"))) == 2


def test_an_async_view_is_asked_as_the_calling_user(
    site: MCPServer, visitor: Visitor, subtests: pytest.Subtests
) -> None:
    visitor.user = "ann"
    for name, view in {"by_name": "gates", "itself": views_site.gates}.items():
        with subtests.test(name):
            view_tool(view, name=name, server=site)
            assert visitor.data(name, airport="MUC") == {"airport": "MUC", "user": "ann", "groups": 0}


def test_methods_of_a_class_are_tools_of_their_own(site: MCPServer, visitor: Visitor) -> None:
    view_tool(views_site.Board, server=site)
    view_tool("board", name="write_board", method="POST", arguments={"line": str}, server=site)
    read, write = visitor.list("tools/list")
    assert read["description"] == "The board in the hall."
    assert (read["name"], read["annotations"]) == ("board", {"readOnlyHint": True, "destructiveHint": False})
    assert write["annotations"] == {"readOnlyHint": False}
    assert visitor.data("board") == {"lines": ["LH 1"], "user": "AnonymousUser"}
    assert visitor.data("write_board", line="LH 2") == {"added": "LH 2"}


def test_an_async_class_is_a_tool(site: MCPServer, visitor: Visitor) -> None:
    view_tool(views_site.AsyncBoard, arguments={"words": str}, server=site)
    assert visitor.data("async_board", words="two words") == {"lines": ["two words"]}


def test_a_view_that_has_no_url_gets_a_path_of_its_own(site: MCPServer, visitor: Visitor) -> None:
    def inside(request: Any, pk: int) -> Any:
        return views_site.echo(request, pk=pk)

    view_tool(inside, path="inside/<int:pk>/", server=site)
    seen = visitor.data("inside", pk=7)
    assert (seen["path"], seen["variables"]) == ("/inside/7/", {"pk": "7"})


def test_a_class_or_its_view_gets_a_path_of_its_own(site: MCPServer, visitor: Visitor) -> None:
    view_tool(views_site.AsyncBoard, path="/a/", server=site, name="a")
    view_tool(views_site.AsyncBoard.as_view(), path="/b/", server=site)
    assert visitor.data("a") == visitor.data("async_board") == {"lines": [""]}


class TestPaths:
    def test_variables_have_the_types_of_their_converters(self, site: MCPServer, visitor: Visitor) -> None:
        view_tool("years", server=site)
        assert schema(visitor) == {
            "year": {"type": "string", "pattern": "^(?:[0-9]{4})$"},
            "key": {"type": "string", "format": "uuid"},
            "rest": {"type": "string", "minLength": 1},
        }
        key = "12345678-1234-5678-1234-567812345678"
        seen = visitor.data("years", year="0987", key=key, rest="a/b c.txt")
        assert seen["variables"] == {"year": "987", "key": f"UUID('{key}')", "rest": "'a/b c.txt'"}
        assert seen["url"] == f"http://testserver/years/0987/{key}/a/b%20c.txt"
        assert visitor.data("years", year=2026, key=key, rest="x")["variables"]["year"] == "2026"
        assert visitor.problem("years", year="26", key=key, rest="x") == "No object found with year '26'."

    def test_a_namespace_goes_before_the_name(self, site: MCPServer, visitor: Visitor) -> None:
        view_tool("flights:numbered", server=site)
        assert schema(visitor) == {"number": {"type": "integer", "minimum": 0}}
        seen = visitor.data("flights_numbered", number=12)
        assert (seen["name"], seen["variables"]) == ("flights:numbered", {"number": "12"})

    def test_groups_of_a_regular_expression_are_texts(self, site: MCPServer, visitor: Visitor) -> None:
        view_tool("old", server=site)
        (listed,) = visitor.list("tools/list")
        assert listed["inputSchema"]["required"] == ["month"]
        assert visitor.data("old", month="may")["path"] == "/old/may/"
        assert visitor.data("old", month="may", day=7)["path"] == "/old/may/7/"
        assert "No object found with" in visitor.problem("old", month="MAY")

    def test_a_group_without_a_name_is_called_as_the_view_calls_it(self, site: MCPServer, visitor: Visitor) -> None:
        view_tool("page-at", name="page", server=site)
        view_tool("month", server=site)
        page, month = visitor.list("tools/list")
        assert page["inputSchema"]["required"] == ["place"]
        assert month["inputSchema"]["required"] == ["year", "month"]
        assert visitor.data("page", place="blog/first-post/")["path"] == "/site/blog/first-post/"
        assert visitor.data("page", place="")["path"] == "/site/"
        assert visitor.problem("page", place="blog") == "No object found with place 'blog'."
        assert visitor.data("month", year="2026", month="07") == {"year": "2026", "month": "07"}

    def test_a_name_with_two_urls_has_a_variable_that_may_be_left_out(self, site: MCPServer, visitor: Visitor) -> None:
        view_tool("pages", server=site)
        assert visitor.data("pages")["path"] == "/pages/"
        assert visitor.data("pages", page=2)["path"] == "/pages/2/"

    def test_more_can_be_said_of_a_variable(self, site: MCPServer, visitor: Visitor) -> None:
        about = Annotated[int, Field(le=99, description="Of the flight.")]
        view_tool("flights:numbered", arguments={"number": about}, server=site)
        assert schema(visitor) == {"number": {"type": "integer", "maximum": 99, "description": "Of the flight."}}

    def test_the_docstring_describes_variables_and_arguments(self, site: MCPServer, visitor: Visitor) -> None:
        view_tool("flight", arguments={"words": str}, server=site)
        assert schema(visitor)["code"]["description"] == "The flight's code."
        assert schema(visitor)["words"]["description"] == "What to look for."


class TestArguments:
    def test_a_query_has_lists_numbers_and_defaults(self, site: MCPServer, visitor: Visitor) -> None:
        arguments = {"tags": list[str], "limit": (int, 3), "late": bool, "words": (str | None, None)}
        view_tool("echo", arguments=arguments, server=site)
        assert visitor.data("echo", tags=["a&b", "c"], late=False)["query"] == {
            "tags": ["a&b", "c"],
            "limit": ["3"],
            "late": ["false"],
        }

    def test_a_form_is_sent_as_a_browser_sends_it(self, site: MCPServer, visitor: Visitor) -> None:
        arguments = {"name": str, "yes": bool, "no": bool, "many": list[int]}
        view_tool("echo", method="POST", arguments=arguments, server=site)
        seen = visitor.data("echo", name="Ü & b=c", yes=True, no=False, many=[1, 2])
        assert seen["form"] == {"name": ["Ü & b=c"], "yes": ["true"], "many": ["1", "2"]}
        assert seen["query"] == {}

    def test_bytes_are_sent_as_a_file(self, site: MCPServer, visitor: Visitor) -> None:
        view_tool("echo", method="POST", arguments={"note": str, "scan": bytes}, server=site)
        seen = visitor.data("echo", note='a"\r\nb', scan="aGVsbG8=")
        assert seen["files"] == {"scan": ["scan", "hello"]}
        assert seen["form"] == {"note": ['a"\r\nb']}

    def test_json_is_sent_where_the_view_wants_it(self, site: MCPServer, visitor: Visitor) -> None:
        view_tool(
            "echo",
            method="PUT",
            arguments={"seats": list[dict[str, int]], "dry": bool},
            query=["dry"],
            content_type="application/json",
            server=site,
        )
        seen = visitor.data("echo", seats=[{"a": 1}], dry=True)
        assert (seen["method"], seen["json"], seen["query"]) == ("PUT", {"seats": [{"a": 1}]}, {"dry": ["true"]})

    def test_unknown_missing_and_wrong_arguments_never_reach_the_view(self, site: MCPServer, visitor: Visitor) -> None:
        view_tool("departures", arguments={"limit": int}, server=site)
        assert "Unknown argument 'words'" in visitor.problem("departures", airport="MUC", limit=1, words="x")
        assert "Missing argument 'limit'" in visitor.problem("departures", airport="MUC")
        assert "'limit'" in visitor.problem("departures", airport="MUC", limit="two")


BROWSED = [
    ("departures", "/departures/MUC/?limit=1", {"airport": "MUC"}),
    ("gates", "/gates/MUC/", {"airport": "MUC"}),
    ("board", "/board/", {}),
    ("board-async", "/board-async/", {}),
    ("mine", "/mine/", {}),
    ("secret", "/secret/", {}),
    ("booked", "/booked/", {}),
    ("streamed", "/streamed/", {}),
    ("ticket", "/ticket/", {}),
    ("to", "/to/?target=/booked/", {}),
    ("write", "/write/", {}),
]


def browse(url: str) -> tuple[int, dict[str, str], bytes]:
    response = Browser().get(url)
    return response.status_code, dict(response.items()), response.getvalue()


def attributes() -> list[tuple[Any, dict[str, Any]]]:
    return [(each.callback, dict(vars(each.callback))) for each in views_site.HERE if each.callback]


def test_each_page_answers_browsers_as_it_did_before(
    site: MCPServer, visitor: Visitor, subtests: pytest.Subtests
) -> None:
    for name, url, arguments in BROWSED:
        with subtests.test(name):
            page, views = browse(url), attributes()
            view_tool(name, server=site)
            assert (browse(url), attributes()) == (page, views)
            visitor.list("tools/list")
            visitor.call(name.replace("-", "_"), **arguments)
            assert (browse(url), attributes()) == (page, views)


def test_a_form_view_books_and_refuses_for_browsers_as_it_did_before(site: MCPServer, visitor: Visitor) -> None:
    def send(people: str) -> tuple[int, str | None, list[str]]:
        response = Browser().post("/book/", {"people": people, "name": "seat 1"})
        names = list(Group.objects.values_list("name", flat=True).filter(name="seat 1"))
        Group.objects.filter(name="seat 1").delete()
        return response.status_code, response.get("Location"), names

    before = [send("2"), send("9")]
    assert before == [(302, "/booked/", ["seat 1"]), (200, None, [])]
    view_tool("book", method="POST", arguments={"people": int, "name": str}, server=site)
    assert "Booked for 3." in visitor.text("book", people=3, name="seat 2")
    assert [send("2"), send("9")] == before


class TestDeclarations:
    def test_a_declaration_that_cannot_work_is_refused(self, site: MCPServer, subtests: pytest.Subtests) -> None:
        for view, options, words in [
            (7, {}, "takes the name of a URL or a view"),
            ("echo", {"method": "FETCH"}, "unknown method 'FETCH'"),
            ("echo", {"query": ["x"]}, "query contains x"),
            (views_site.AsyncBoard, {"path": "x/", "method": "POST"}, "AsyncBoard does not support POST"),
        ]:
            with (
                subtests.test(view=view, options=options, words=words),
                pytest.raises(ImproperlyConfigured, match=words),
            ):
                view_tool(view, server=site, **options)

    def test_those_that_the_urlconf_does_not_bear_out_keep_no_other_tool_away(
        self, site: MCPServer, visitor: Visitor, caplog: Any, subtests: pytest.Subtests
    ) -> None:
        wrong: dict[str, tuple[Any, dict[str, Any], str]] = {
            "nowhere": ("nowhere", {}, "No URL has the name 'nowhere'"),
            "elsewhere": (lambda request: None, {}, "The URLconf does not contain"),
            "several": (views_site.echo, {}, "Several URLs lead to"),
            "unnamed": ("unnamed", {}, "unnamed groups"),
            "mixed": ("mixed", {}, "unnamed groups"),
            "posted": ("board-async", {"method": "POST"}, "AsyncBoard does not support POST"),
        }
        view_tool("board", server=site, name="good")
        for name, (view, options, _) in wrong.items():
            view_tool(view, server=site, name=name, **options)
        assert {tool["name"] for tool in visitor.list("tools/list")} == {"good"}
        assert visitor.data("good")["lines"] == ["LH 1"]
        found = [each.msg for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.E029"]
        for name, (_, _, words) in wrong.items():
            with subtests.test(name):
                caplog.clear()
                assert visitor.problem(name).startswith("Internal server error.")
                assert words in caplog.text
                assert any(words in message for message in found)


def test_a_tool_follows_the_urlconf_of_a_test(site: MCPServer, visitor: Visitor) -> None:
    view_tool("board", server=site)
    assert visitor.data("board")
    bare = types.ModuleType("tests.integrations.bare_urlconf")
    bare.urlpatterns = [each for each in views_site.HERE if getattr(each, "name", "") != "board"] + [
        path("new-board/", views_site.echo, name="board"),
        re_path(rf"^{site.path}/?$", mcp_view(site)),
    ]
    with override_settings(ROOT_URLCONF=bare):
        assert visitor.list("tools/list")[0]["description"] == "What arrives."
        assert visitor.data("board")["path"] == "/new-board/"
    assert visitor.list("tools/list")[0]["description"] == "The board in the hall."
    assert visitor.data("board")["lines"] == ["LH 1"]


class Halls:
    """Halls by name, in a converter that fails for others."""

    regex = "[^/]+"
    numbers: ClassVar = {"north": 1}

    def to_python(self, value: str) -> int:
        return self.numbers[value]

    def to_url(self, value: int) -> str:
        return next(name for name, number in self.numbers.items() if number == value)


register_converter(Halls, "test_views_hall")


def test_a_pattern_that_django_cannot_reverse_stops_no_other(
    site: MCPServer, visitor: Visitor, caplog: pytest.LogCaptureFixture
) -> None:
    """A group that is named twice, flags, and converters that fail."""
    copies = [re_path("^copies/(?P<number>[^/]+)/$", views_site.echo, name="flight")]
    urls: Any = types.ModuleType("tests.integrations.unreversible_urlconf")
    urls.urlpatterns = [
        re_path(rf"^{site.path}/?$", mcp_view(site)),
        re_path("(?i)^others/$", views_site.echo),
        re_path("^flights/(?P<number>[^/]+)/$", views_site.echo, name="flight"),
        re_path("^flights/(?P<number>[^/]+)/", include(copies)),
        path("halls/<test_views_hall:hall>/", views_site.echo, name="hall"),
    ]
    with override_settings(ROOT_URLCONF=urls):
        view_tool("flight", server=site)
        view_tool("hall", server=site)
        assert visitor.data("flight", number="a b")["path"] == "/flights/a b/"
        assert visitor.data("hall", hall="north")["variables"] == {"hall": "1"}
        assert visitor.problem("hall", hall="south").startswith("No object found with hall")
    assert "KeyError" in caplog.text
