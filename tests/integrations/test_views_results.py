"""What a tool of a view tells: pages, files, refusals, redirects, and what becomes of the transaction."""

import base64
from itertools import product
from typing import Any

import pytest
from django.contrib.auth.decorators import user_passes_test
from django.contrib.auth.mixins import UserPassesTestMixin
from django.contrib.auth.models import Group
from django.db import connections
from django.test import override_settings
from django.views import View

from django_mcp import MCPServer, view_tool
from tests.integrations import views_site
from tests.integrations.visitors import Visitor


def groups() -> set[str]:
    return set(Group.objects.filter(name__startswith="seat").values_list("name", flat=True))


def test_a_stream_is_read_to_its_end_or_to_its_limit(
    site: MCPServer, visitor: Visitor, subtests: pytest.Subtests
) -> None:
    for name in ["streamed", "streamed_async"]:
        with subtests.test(name=name):
            view_tool(name.replace("_", "-"), name=name, arguments={"many": int}, max_response_bytes=100, server=site)
            assert visitor.text(name, many=2) == "line 0\nline 1\n"
            assert (
                visitor.problem(name, many=10**12)
                == "The response is larger than the limit of 100 bytes. Request less data."
            )


def test_a_file_is_a_resource_with_its_name(site: MCPServer, visitor: Visitor) -> None:
    view_tool("ticket", server=site)
    (block,) = visitor.call("ticket").result["content"]
    assert block["resource"]["mimeType"] == "application/pdf"
    assert block["resource"]["uri"] == "attachment:///your%20ticket.pdf"
    assert base64.b64decode(block["resource"]["blob"]) == views_site.PDF


def test_a_file_that_is_too_large_is_not_read(site: MCPServer, visitor: Visitor) -> None:
    view_tool("ticket", max_response_bytes=3, server=site)
    assert visitor.problem("ticket") == "The response is larger than the limit of 3 bytes. Request less data."


def test_an_output_schema_is_published_and_a_union_is_wrapped(site: MCPServer, visitor: Visitor) -> None:
    listed = {"type": "array", "items": {"type": "object"}}
    view_tool("departures", name="listed", output_schema=listed, server=site)
    view_tool("departures", name="either", output_schema={"anyOf": [listed, {"type": "object"}]}, server=site)
    schemas = {each["name"]: each["outputSchema"] for each in visitor.list("tools/list")}
    assert schemas["listed"] == listed
    assert schemas["either"]["properties"]["result"]["anyOf"][0] == listed
    rows = visitor.data("listed", airport="MUC")
    assert len(rows) == 2
    assert visitor.data("either", airport="MUC") == {"result": rows}


def test_links_can_be_opened_where_the_site_says_its_address(site: MCPServer, visitor: Visitor, settings: Any) -> None:
    view_tool("linked", arguments={"status": int}, server=site)
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "BASE_URL": None}
    assert "[Job 15](/jobs/15/)" in visitor.text("linked", status=200)
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "BASE_URL": "https://travel.example.com"}
    assert "[Job 15](https://travel.example.com/jobs/15/)" in visitor.text("linked", status=200)
    assert "[Job 15](https://travel.example.com/jobs/15/)" in visitor.problem("linked", status=409)


def test_the_language_is_that_of_the_caller(site: MCPServer, visitor: Visitor) -> None:
    view_tool("hello", server=site)
    visitor.sends = {"accept-language": "de-AT,de;q=0.9"}
    assert visitor.text("hello") == "de: Ja"
    visitor.sends = {}
    assert visitor.text("hello") == "en: Yes"


def test_what_a_form_says_is_in_the_language_of_the_caller(site: MCPServer, visitor: Visitor) -> None:
    view_tool("book", method="POST", arguments={"people": str, "name": str}, server=site)
    visitor.sends = {"accept-language": "de"}
    assert "people: Bitte eine ganze Zahl eingeben." in visitor.problem("book", people="many", name="seat 1")


class TestRefusals:
    def test_what_the_handler_knows_is_told_without_the_words_of_the_exception(
        self, site: MCPServer, visitor: Visitor, subtests: pytest.Subtests
    ) -> None:
        view_tool("fail", server=site)
        for (how, words), debug in product(
            [
                ("404", "Not found."),
                ("403", "You do not have permission to do this."),
                ("400", "The request was not accepted."),
                ("suspicious", "The request was not accepted."),
                ("multipart", "The request was not accepted."),
            ],
            [False, True],
        ):
            with subtests.test(how=how, words=words, debug=debug), override_settings(DEBUG=debug):
                assert visitor.problem("fail", how=how) == words

    def test_a_bug_is_logged_and_told_with_a_number(self, site: MCPServer, visitor: Visitor, caplog: Any) -> None:
        view_tool("fail", server=site)
        told = visitor.problem("fail", how="bug")
        assert told.startswith("Internal server error. Details are in the server's log under reference ")
        assert "Bob" not in told
        assert told.rstrip(".").rpartition(" ")[2] in caplog.text
        assert "password of Bob" in caplog.text

    def test_a_form_in_a_page_tells_each_field(self, site: MCPServer, visitor: Visitor) -> None:
        view_tool("book", method="POST", arguments={"people": int, "name": str}, server=site)
        assert visitor.problem("book", people=9, name="x" * 30).splitlines() == [
            "The form has errors.",
            "people: Ensure this value is less than or equal to 4.",
            "name: Ensure this value has at most 20 characters (it has 30).",
        ]

    def test_a_method_the_view_does_not_take_is_the_owners_to_mend(
        self, site: MCPServer, visitor: Visitor, caplog: Any
    ) -> None:
        view_tool("write", server=site)
        assert visitor.problem("write").startswith("Internal server error.")
        assert "/write/ allows POST, but the tool sends GET" in caplog.text


class TestLogin:
    def test_nobody_is_told_to_sign_in(self, site: MCPServer, visitor: Visitor, subtests: pytest.Subtests) -> None:
        for name in ["secret", "mine", "staff", "ann"]:
            with subtests.test(name=name):
                view_tool(name, server=site)
                assert visitor.problem(name) == "Authentication is required for this."

    def test_who_is_signed_in_and_may_not_is_told_so(
        self, site: MCPServer, visitor: Visitor, subtests: pytest.Subtests
    ) -> None:
        for name in ["staff", "ann", "staff_403"]:
            with subtests.test(name=name):
                view_tool(name.replace("_", "-"), server=site)
                visitor.user = "bob"
                assert visitor.problem(name) == "You do not have permission to do this."

    def test_who_may_is_let_in(self, site: MCPServer, visitor: Visitor, subtests: pytest.Subtests) -> None:
        for name, user in [("secret", "bob"), ("mine", "bob"), ("staff", "root"), ("ann", "ann")]:
            with subtests.test(name=name, user=user):
                view_tool(name, server=site)
                visitor.user = user
                assert not visitor.call(name).result.get("isError")

    def test_a_login_page_elsewhere_is_no_secret_of_its_own(self, site: MCPServer, visitor: Visitor) -> None:
        view_tool("secret", server=site)
        with override_settings(LOGIN_URL="https://login.example.com/?app=7"):
            assert visitor.problem("secret") == "Authentication is required for this."

    def test_a_site_that_wants_a_login_for_every_page_wants_it_here_too(
        self, site: MCPServer, visitor: Visitor
    ) -> None:
        view_tool("board", server=site)
        view_tool("to", arguments={"target": str}, server=site)
        every = "django.contrib.auth.middleware.LoginRequiredMiddleware"
        from django.conf import settings

        with override_settings(MIDDLEWARE=[*settings.MIDDLEWARE, every]):
            assert visitor.problem("board") == "Authentication is required for this."
            visitor.user = "bob"
            assert visitor.data("board")["user"] == "bob"


class TestRedirects:
    def follow(self, site: MCPServer, **options: Any) -> None:
        view_tool("to", arguments={"target": str}, server=site, **options)

    def test_a_page_of_this_site_is_shown(self, site: MCPServer, visitor: Visitor) -> None:
        self.follow(site)
        visitor.user = "ann"
        assert visitor.data("to", target="/board/")["user"] == "ann"
        assert visitor.data("to", target="../echo/?a=1&a=2#part")["query"] == {"a": ["1", "2"]}
        assert visitor.data("to", target="http://testserver/board/")["lines"]

    def test_one_that_leads_elsewhere_is_told_and_not_followed(
        self, site: MCPServer, visitor: Visitor, subtests: pytest.Subtests
    ) -> None:
        self.follow(site)
        for url in [
            "https://elsewhere.example.com/a?b=c",
            "//elsewhere.example.com/a",
            "http://user@testserver/board/",
            "http://testserver:8000/board/",
            "ftp://testserver/board/",
        ]:
            with subtests.test(url=url):
                whole = f"http:{url}" if url.startswith("//") else url
                assert visitor.text("to", target=url) == f"Redirects to {whole}"

    def test_none_is_followed_where_that_is_not_wanted(self, site: MCPServer, visitor: Visitor) -> None:
        self.follow(site, follow=False)
        assert visitor.text("to", target="/board/") == "Redirects to http://testserver/board/"

    def test_a_page_that_is_not_there_is_not_found(self, site: MCPServer, visitor: Visitor) -> None:
        self.follow(site)
        assert visitor.problem("to", target="/nowhere/") == "Not found."

    def test_what_leads_in_a_circle_ends(self, site: MCPServer, visitor: Visitor) -> None:
        view_tool("circle", server=site)
        assert visitor.problem("circle") == "Too many redirects; the last one was to /circle/."

    def test_a_page_for_others_is_refused_after_a_redirect_too(self, site: MCPServer, visitor: Visitor) -> None:
        self.follow(site)
        assert visitor.problem("to", target="/secret/") == "Authentication is required for this."


class TestRedirectsThatLeadBack:
    """The login page is no page that a redirect leads to; other pages may carry the address back too."""

    def save(self, site: MCPServer, visitor: Visitor, following: str) -> Any:
        view_tool("write-and-go", name="save", method="POST", arguments={"name": str, "next": str}, server=site)
        return visitor.call("save", name="seat 1", next=following)

    @pytest.mark.parametrize("user", ["ann", ""])
    @pytest.mark.parametrize(
        ("following", "told"),
        [
            ("/echo/?back=/write-and-go/", '"back":["/write-and-go/"]'),
            ("/echo/?from=http://testserver/write-and-go/", '"from":'),
            ("https://pay.example/?return=http://testserver/write-and-go/", "Redirectstohttps://pay.example/"),
            ("https://pay.example/accounts/login/?return=http://testserver/write-and-go/", "Redirectsto"),
            ("/echo/?next=/write-and-go/", '"next":["/write-and-go/"]'),
            ("https://pay.example/?next=http://testserver/write-and-go/", "Redirectsto"),
        ],
    )
    def test_a_next_step_that_leads_back_is_followed(
        self, site: MCPServer, visitor: Visitor, user: str, following: str, told: str
    ) -> None:
        visitor.user = user
        answer = self.save(site, visitor, following)
        assert not answer.result.get("isError"), answer.text
        assert told in answer.text.replace(" ", "")
        assert groups() == {"seat 1"}

    @pytest.mark.parametrize(
        "following",
        [
            "/accounts/login/?next=/write-and-go/",
            "/accounts/login/?back=/write-and-go/",
            "/enter/?to=/write-and-go/",
        ],
    )
    def test_a_login_page_is_an_error(self, site: MCPServer, visitor: Visitor, following: str) -> None:
        assert "Authentication is required" in self.save(site, visitor, following).text
        visitor.user = "ann"
        answer = visitor.call("save", name="seat 2", next=following)
        assert answer.result["isError"]
        assert "You do not have permission" in answer.text

    @pytest.mark.parametrize("page", ["/echo/", "https://sso.example/sign-in"])
    @pytest.mark.parametrize("follow", [True, False])
    def test_a_page_to_which_a_decorator_sends_callers_is_a_login_page_whatever_its_address(
        self, site: MCPServer, visitor: Visitor, page: str, follow: bool
    ) -> None:
        def save(request: Any) -> Any:
            raise AssertionError

        def staff(user: Any) -> bool:
            return bool(user.is_staff)

        decorated = user_passes_test(staff, login_url=page)(save)
        mixed = type("Mixed", (UserPassesTestMixin, View), {"login_url": page, "test_func": lambda self: False})
        mixed.post = lambda self, request: save(request)
        for name, view in (("decorated", decorated), ("mixed", mixed.as_view())):
            view_tool(view, name=name, method="POST", path=f"{name}/", follow=follow, server=site)
            visitor.user = ""
            assert "Authentication is required" in visitor.problem(name)
        visitor.user = "ann"
        assert "You do not have permission" in visitor.problem("decorated")

    def test_somebody_who_is_logged_out_is_shown_the_page(self, site: MCPServer, visitor: Visitor) -> None:
        visitor.user = "ann"
        assert "Sign in" in self.save(site, visitor, "/accounts/login/").text

    def test_a_site_may_have_no_login_page(self, site: MCPServer, visitor: Visitor) -> None:
        with override_settings(LOGIN_URL="no-such-page"):
            assert "echo" in self.save(site, visitor, "/echo/").text


@pytest.mark.postgresql
class TestTransactions:
    def write(self, site: MCPServer, name: str = "write", **options: Any) -> None:
        view_tool(
            name, name="write", method="POST", arguments={"name": str, "status": (int, 200)}, server=site, **options
        )

    def test_there_is_none_unless_the_site_has_one(self, site: MCPServer, visitor: Visitor) -> None:
        """A view that queues a job for a row has committed the row by then, as at its URL."""
        self.write(site)
        assert visitor.problem("write", name="seat 1", status=409) == (
            "The request conflicts with existing data. name: It is taken."
        )
        assert groups() == {"seat 1"}
        assert visitor.data("write", name="seat 2")["in_transaction"] is False

    def test_atomic_requests_are_those_of_the_url(
        self, site: MCPServer, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for each in connections.all():  # threads have connections of their own, of the same settings
            monkeypatch.setitem(each.settings_dict, "ATOMIC_REQUESTS", True)
        self.write(site)
        assert visitor.data("write", name="seat 1")["in_transaction"] is True
        view_tool("write-always", method="POST", arguments={"name": str}, server=site)
        assert visitor.data("write_always", name="seat 2")["in_transaction"] is False
        assert groups() == {"seat 1", "seat 2"}

    def test_a_tool_may_have_one_that_an_error_rolls_back(self, site: MCPServer, visitor: Visitor) -> None:
        self.write(site, atomic=True)
        for status in (400, 404, 500):
            visitor.problem("write", name="seat 1", status=status)
            assert groups() == set()

    def test_what_was_done_stays_done_whatever_becomes_of_the_page_it_leads_to(
        self, site: MCPServer, visitor: Visitor, subtests: pytest.Subtests
    ) -> None:
        view_tool("write-and-go", method="POST", arguments={"name": str, "next": str}, server=site)
        for number, (following, told) in enumerate(
            [
                ("/booked/", "Your seats"),
                ("/nowhere/", "Done. The page it redirects to, /nowhere/, could not be shown. Not found."),
                ("/fail/bug/", "Done. The page it redirects to, /fail/bug/, could not be shown."),
                ("/write-and-go/", "Done. The page it redirects to"),
                ("https://elsewhere.example.com/", "Redirects to https://elsewhere.example.com/"),
            ]
        ):
            with subtests.test(following=following):
                text = visitor.text("write_and_go", name=f"seat {number}", next=following)
                assert "Written." in text
                assert told in text
                assert "password" not in text
                assert f"seat {number}" in groups()
