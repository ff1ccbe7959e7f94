"""The playground shows the app of a tool beside its result, in a sandboxed frame."""

import html
import json
import re
from collections.abc import Iterator
from typing import Annotated, Any
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import Permission, User
from django.core.cache import cache
from django.test import Client as Browser

from django_mcp import MCPServer, Secret, ToolError, tool, ui
from django_mcp.models import Task
from tests.core.test_apps import templates  # noqa: F401 - a fixture
from tests.exchange import eventually

HOME = "/admin/django_mcp/playground/"


@pytest.fixture(autouse=True)
def people(policies: None) -> Iterator[None]:
    cache.clear()
    yield
    User.objects.filter(username="ada-who-tries").delete()


@pytest.fixture
def browser() -> Browser:
    user = User.objects.create_user("ada-who-tries", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename="try_tool", content_type__app_label="django_mcp"))
    browser = Browser()
    browser.force_login(user)
    return browser


@pytest.fixture
def city(server: MCPServer) -> Any:
    @tool(app="part.html", server=server, read_only=True)
    def city(name: str, pin: Annotated[str, Secret()] = "") -> dict[str, Any]:
        """A city."""
        if name == "Atlantis":
            msg = "There is no such city."
            raise ToolError(msg)
        return {"name": name}

    return city


def called(browser: Browser, key: str = "city", **fields: str) -> str:
    url = f"{HOME}call/?{urlencode({'endpoint': 'test', 'kind': 'tool', 'key': key})}"
    answer = browser.post(url, {"by": "fields", **{f"a.{name}": value for name, value in fields.items()}})
    assert answer.status_code == 200
    return answer.content.decode()


def sent(page: str) -> dict[str, Any]:
    """What the app is sent."""
    found = re.search(r'(?s)<script type="application/json">(.*?)</script>', page)
    assert found is not None
    value: dict[str, Any] = json.loads(found[1])
    return value


def frame(browser: Browser, page: str, **headers: str) -> Any:
    found = re.search(r'<iframe src="([^"]+)" sandbox="allow-scripts"', page)
    assert found is not None
    return browser.get(html.unescape(found[1]), headers=headers)


def test_a_result_is_shown_in_its_app_too_with_the_view_and_the_arguments(browser: Browser, city: Any) -> None:
    page = called(browser, name="<Oslo>")

    assert sent(page)["result"]["_meta"]["django-mcp/html"] == "<h1>&lt;Oslo&gt;</h1><p>&lt;Oslo&gt;</p>"
    assert sent(page)["arguments"] == {"name": "<Oslo>"}
    assert sent(page)["tool"]["name"] == "city"
    assert "<Oslo>" not in page
    assert "window.mcp = mcp" in frame(browser, page).content.decode()


def test_the_app_is_not_sent_a_secret(browser: Browser, city: Any) -> None:
    assert sent(called(browser, name="Oslo", pin="p1234"))["arguments"] == {"name": "Oslo", "pin": "***"}


def test_a_tool_error_is_shown_by_the_app_as_by_a_client(browser: Browser, city: Any) -> None:
    assert sent(called(browser, name="Atlantis"))["result"]["isError"] is True


def test_a_task_shows_its_result_in_the_app_on_both_of_its_pages(browser: Browser, server: MCPServer) -> None:
    @tool(app="part.html", server=server, read_only=True, task="required")
    def slow_city(name: str) -> dict[str, Any]:
        """A city, later."""
        return {"name": name}

    url = f"{HOME}call/?{urlencode({'endpoint': 'test', 'kind': 'tool', 'key': 'slow_city'})}"
    answer = browser.post(url, {"by": "fields", "a.name": "<Oslo>"})
    assert answer.status_code == 302
    eventually(lambda: not Task.objects.filter(status="working").exists(), "the task does not end")
    page = browser.get(answer["Location"]).content.decode()

    assert sent(page)["result"]["_meta"]["django-mcp/html"] == "<h1>&lt;Oslo&gt;</h1><p>&lt;Oslo&gt;</p>"
    assert "window.mcp = mcp" in frame(browser, page).content.decode()
    assert "Running as a task" not in page
    User.objects.filter(username="ada-who-tries").update(is_superuser=True)
    page = browser.get(f"/admin/django_mcp/task/{Task.objects.get().pk}/change/").content.decode()
    assert "&lt;Oslo&gt;" in page
    assert "<Oslo>" not in page


def test_the_size_of_a_result_is_that_of_what_the_model_sees(browser: Browser, server: MCPServer) -> None:
    for name, app in (("plain", None), ("shown", "part.html")):

        def city() -> dict[str, str]:
            """A city."""
            return {"name": "Oslo"}

        tool(server=server, name=name, app=app, read_only=True)(city)
    sizes = [re.findall(r"ms · (\d+).bytes", called(browser, name)) for name in ("plain", "shown")]
    text = {"type": "text", "text": '{"name":"Oslo"}'}
    seen = {"resultType": "complete", "content": [text], "structuredContent": {"name": "Oslo"}}
    size = len(json.dumps(seen, separators=(",", ":")))
    assert sizes == [[str(size)]] * 2


def test_a_tool_without_an_app_and_a_tool_before_its_call_have_no_frame(
    browser: Browser, server: MCPServer, city: Any
) -> None:
    @tool(server=server, read_only=True)
    def plain() -> str:
        """Without an app."""
        return "plain"

    assert "<iframe" not in called(browser, "plain")
    call = {"endpoint": "test", "kind": "tool", "key": "city"}
    assert "<iframe" not in browser.get(f"{HOME}call/?{urlencode(call)}").content.decode()
    answer = browser.get(f"{HOME}app/?{urlencode({'endpoint': 'test', 'key': 'plain'})}")
    assert answer.status_code == 404


def test_the_page_of_an_app_loads_only_what_it_declares_and_stays_sandboxed_when_opened_alone(
    browser: Browser, server: MCPServer
) -> None:
    card = ui(
        "ui://card",
        template="far.html",
        connect_domains=["https://api.example.com"],
        resource_domains=["https://images.example.com"],
        frame_domains=["https://maps.example.com"],
    )

    @tool(app=card, server=server, read_only=True)
    def far() -> dict[str, Any]:
        """Far."""
        return {}

    answer = frame(browser, called(browser, "far"))
    policy = dict(each.split(" ", 1) for each in answer["Content-Security-Policy"].split("; "))
    assert policy["sandbox"] == "allow-scripts"
    assert policy["default-src"] == "'none'"
    assert policy["img-src"].startswith("data: https://images.example.com http")  # and the origin of static files
    assert policy["connect-src"] == "https://api.example.com"
    assert policy["frame-src"] == "https://maps.example.com"
    assert policy["base-uri"] == "'none'"
    assert answer["X-Frame-Options"] == "SAMEORIGIN"
    assert frame(browser, called(browser, "far"), **{"Sec-Fetch-Dest": "document"}).status_code == 404


def test_an_origin_adds_no_directive_to_the_policy(browser: Browser, server: MCPServer) -> None:
    card = ui("ui://odd", template="part.html", connect_domains=["https://a;script-src", "https://b.example.com"])

    @tool(app=card, server=server, read_only=True)
    def odd() -> dict[str, Any]:
        """Odd."""
        return {}

    policy = frame(browser, called(browser, "odd"))["Content-Security-Policy"]
    assert "connect-src https://b.example.com;" in policy


def test_the_page_of_an_app_is_for_users_of_the_playground_who_may_call_its_tool(
    browser: Browser, server: MCPServer
) -> None:
    @tool(app="part.html", server=server, read_only=True, permission="auth.delete_user")
    def hidden() -> dict[str, Any]:
        """Hidden."""
        return {}

    url = f"{HOME}app/?{urlencode({'endpoint': 'test', 'key': 'hidden'})}"
    assert browser.get(url).status_code == 404
    assert Browser().get(url).status_code == 302
    User.objects.get(username="ada-who-tries").user_permissions.clear()
    assert browser.get(url).status_code == 403


def test_the_admin_page_has_no_script_of_its_own_that_a_policy_would_block(browser: Browser, city: Any) -> None:
    page = called(browser, name="Oslo")
    main = page[page.index('id="content-main"') :]
    scripts = [each for each in re.findall(r"<script([^>]*)>", main) if "application/json" not in each]
    assert scripts == [' src="/static/django_mcp/playground_app.js"']
    assert not re.search(r"<[^>]+ (style|on\w+)=", main[: main.index("</iframe>")])
