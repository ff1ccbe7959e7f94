"""The pages of tools in Django's admin, as a browser shows them, and an endpoint with some tools."""

import html
import re
from collections.abc import Callable
from typing import Any

from django.contrib.auth.models import Permission, User
from django.test import Client as Browser

from django_mcp import AllowAny, MCPServer, tool
from django_mcp.models import ToolSnapshot

TOOLS = "/admin/django_mcp/tools/"
PAY = f"{TOOLS}desk.pay/change/"
HISTORY = f"{TOOLS}desk.pay/history/"
CLIENT = "https://client.example.com/app.json"


def furnished(make_server: Callable[..., MCPServer]) -> MCPServer:
    desk = make_server("desk", authentication=[AllowAny()], scopes=[])

    @tool(server=desk, title="Pay somebody", destructive=True, permission="travel.add_booking", groups=["Office"])
    def pay(amount: int, to: str = "me") -> str:
        """Pay money.

        It is gone then, <b>really</b>.
        """
        return f"paid {amount} to {to}"

    tool(server=desk, name="look", read_only=True, open_world=False)(lambda: "seen")
    tool(server=desk, name="hide", policy="block", scopes=["travel:write"])(lambda: "hidden")
    return desk


def staff(*permissions: str) -> Browser:
    user = User.objects.create_user("somebody-of-the-staff", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions, content_type__app_label="django_mcp"))
    browser = Browser()
    browser.force_login(user)
    return browser


def page(browser: Browser, url: str = TOOLS) -> str:
    answer = browser.get(url)
    assert answer.status_code == 200, answer.status_code
    return answer.content.decode()


def words(text: str) -> str:
    """What is read on a page."""
    return html.unescape(" ".join(re.sub(r"<[^>]+>", " ", text).split()))


def names(text: str) -> list[str]:
    """The tools that are listed, by endpoint and name."""
    return re.findall(r'name="seen:([^"]+)"', text)


def line(text: str, key: str) -> str:
    """What is read of one tool."""
    (found,) = (each for each in re.findall(r"<tr>.*?</tr>", text, re.DOTALL) if f'name="seen:{key}"' in each)
    return words(found)


HIDDEN = r'<input type="hidden" name="([^"]+)" value="([^"]*)"'


def shown_by(browser: Browser, url: str) -> dict[str, str]:
    """What a page sends of the decisions that it shows."""
    found = re.findall(HIDDEN, browser.get(url).content.decode())
    return {name: value for name, value in found if name == "shown" or name.startswith("seen:")}


def send(browser: Browser, url: str, given: dict[str, Any], *, shown: dict[str, str] | None = None) -> str:
    """The page after a form was sent as *shown*, by default now; if it asks whether to loosen, that is said."""
    before = shown_by(browser, url) if shown is None else shown
    return browser.post(url, {**before, **given}, follow=True).content.decode()


def told(browser: Browser, url: str, *, loosen: bool = False, shown: dict[str, str] | None = None, **given: Any) -> str:
    """What is read on that page; with *loosen*, after its question was answered."""
    html = send(browser, url, given, shown=shown)
    if loosen:
        assert "Allow more than now?" in html
        html = send(browser, url, dict(re.findall(HIDDEN, html)), shown={})
    return words(html)


def row_of(name: str) -> int:
    """The key of a tool's row, which its box sends."""
    return ToolSnapshot.objects.get(server="desk", tool=name).pk
