"""Pages and mails in a language that the package is translated into."""

import datetime
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.core.cache import cache
from django.test import Client
from django.utils import timezone, translation
from django.utils.translation import override

from django_mcp import AllowAny, MCPServer, tool
from django_mcp.approvals import notices
from django_mcp.models import Approval, Notice, RequestLog
from tests.oauth.site import Browser, Site, forget_urlconfs, make_site
from tests.translations.catalogs import catalog_file, read

pytestmark = pytest.mark.django_db

CHINESE = "zh-hans"
DATA = {"default"}  # words of a page that are names of endpoints
ENGLISH = {each.key[1] for each in read(catalog_file("zh_Hans")) if each.key[1] not in {*DATA, *each.translations}}
ADMIN = "/admin/django_mcp/"


class Texts(HTMLParser):
    """The texts of a page that are there to be translated, those of attributes too."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: set[str] = set()
        self._left_out = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        if not self._left_out and (tag in {"script", "style"} or (given.get("translate") == "no")):
            self._left_out = tag
        names = [
            "title",
            "placeholder",
            "aria-label",
            "data-label",
            *(["value"] if given.get("type") == "submit" else []),
        ]
        self.found.update(given.get(name) or "" for name in names)

    def handle_endtag(self, tag: str) -> None:
        if tag == self._left_out:
            self._left_out = ""

    def handle_data(self, text: str) -> None:
        if not self._left_out:
            self.found.add(" ".join(text.split()))


def texts_of(answer: Any) -> set[str]:
    """The texts of a page; none of them is a message that has a translation."""
    assert answer.status_code == 200, answer.status_code
    page = answer.content.decode()
    assert f'lang="{CHINESE}"' in page
    found = Texts(page).found
    assert sorted(found & ENGLISH) == []
    return found


@pytest.fixture(autouse=True)
def _languages(settings: Any) -> Iterator[None]:
    """The site speaks the language of each request, as Django's documentation says it is set up."""
    ours = "django.contrib.sessions.middleware.SessionMiddleware"
    place = settings.MIDDLEWARE.index(ours) + 1
    locale = "django.middleware.locale.LocaleMiddleware"
    settings.MIDDLEWARE = [*settings.MIDDLEWARE[:place], locale, *settings.MIDDLEWARE[place:]]
    cache.clear()
    before = translation.get_language()
    yield
    translation.activate(before)  # a request in this thread leaves its own
    cache.clear()


@pytest.fixture
def browser() -> Client:
    browser = Client(HTTP_ACCEPT_LANGUAGE=CHINESE)
    browser.force_login(User.objects.create_superuser("owner-of-the-site"))
    return browser


@pytest.fixture
def desk(make_server: Callable[..., MCPServer]) -> MCPServer:
    desk = make_server("desk", authentication=[AllowAny()], scopes=[])
    tool(server=desk, name="pay", destructive=True, groups=["Office"])(lambda amount: f"paid {amount}")
    tool(server=desk, name="look", read_only=True)(lambda place: f"seen {place}")
    return desk


@pytest.fixture
def approval(db: None) -> Approval:
    now = timezone.now()
    return Approval.objects.create(
        public_id="ticket-1",
        server="desk",
        tool="pay",
        principal_kind="oauth",
        principal_id="1:7",
        user=User.objects.create_user("ada-the-caller"),
        client={"name": "The Desk", "version": "2"},
        arguments={"amount": 5},
        parts={"amount": "a" * 64},
        digest="d" * 64,
        version="v",
        created=now,
        expires=now + datetime.timedelta(days=1),
    )


@pytest.fixture
def site(settings: Any, make_server: Callable[..., MCPServer]) -> Iterator[Site]:
    site = make_site(settings, make_server)
    browser = site.browsers[site.user.pk] = Browser(HTTP_ACCEPT_LANGUAGE=CHINESE)
    browser.force_login(site.user)
    yield site
    forget_urlconfs()


def test_the_page_of_tools_is_in_chinese(browser: Client, desk: MCPServer) -> None:
    found = texts_of(browser.get(f"{ADMIN}tools/"))
    assert {"工具", "允许的调用者", "策略", "需审批", "破坏性", "保存策略"} <= found
    found = texts_of(browser.get(f"{ADMIN}tools/desk.pay/change/"))
    assert {"pay 的策略", "破坏性工具的默认值", "针对组和客户端的覆盖规则", "尚无调用。"} <= found


def test_the_page_of_approvals_is_in_chinese(browser: Client, approval: Approval) -> None:
    found = texts_of(browser.get(f"{ADMIN}approval/"))
    assert {"1 个请求待审批。", "批准", "拒绝", "请求者", "参数（原样）"} <= found
    assert {"历史", "审批请求"} <= texts_of(browser.get(f"{ADMIN}approval/{approval.pk}/change/"))


def test_the_other_pages_of_the_admin_are_too(browser: Client, desk: MCPServer, subtests: pytest.Subtests) -> None:
    for path, title in [
        ("overview/", "MCP 概览"),
        ("requestlog/", "请求日志"),
        ("task/", "任务"),
        ("session/", "会话（2025-11-25 及更早版本）"),
        ("autoapprovalrule/", "自动审批规则"),
        ("clientpolicy/", "客户端策略"),
        ("clientpolicy/add/", "客户端策略"),
        ("apikey/", "API 密钥"),
        ("apikey/add/", "API 密钥"),
        ("oauthclient/", "OAuth 客户端"),
        ("playground/", "试验场"),
        ("playground/call/?endpoint=desk&kind=tool&key=look", "试验场"),
        ("", "审批"),
    ]:
        with subtests.test(path=path, title=title):
            assert title in texts_of(browser.get(f"{ADMIN}{path}"))


def test_what_was_called_is_told_in_chinese_with_its_units(browser: Client, desk: MCPServer) -> None:
    told = {"server": "desk", "method": "tools/call", "principal_kind": "oauth", "principal_id": "1:7"}
    RequestLog.objects.create(**told, name="pay", started_at=timezone.now(), outcome="error", duration=12.5)
    found = texts_of(browser.get(f"{ADMIN}requestlog/"))
    assert "工具错误" in found
    assert any(each.endswith(" · 12 毫秒") for each in found)  # after the time
    assert {"出错的工具", "较慢的工具", "请求"} <= texts_of(browser.get(f"{ADMIN}overview/"))
    assert {"工具错误", "12 毫秒"} <= texts_of(browser.get(f"{ADMIN}tools/desk.pay/change/"))


def test_what_somebody_does_in_the_admin_is_told_in_chinese(browser: Client, approval: Approval) -> None:
    page = browser.get(f"{ADMIN}approval/").content.decode()
    seen = page.partition('name="seen" value="')[2].partition('"')[0]
    decided = {"seen": seen, "back": "list", "decision": "deny"}
    found = texts_of(browser.post(f"{ADMIN}approval/{approval.pk}/decide/", decided, follow=True))
    assert "您已拒绝 pay 的调用。请求者会看到您的理由。" in found


def test_the_page_of_consent_is_in_chinese_but_for_the_words_of_the_site(site: Site) -> None:
    found = texts_of(site.ask())
    assert {"允许此应用代表您执行操作吗？", "重定向至", "此计算机上的程序", "允许", "拒绝"} <= found
    assert "Look up your trips" in found


def test_a_site_that_names_no_scopes_has_even_those_in_chinese(site: Site) -> None:
    without = {key: value for key, value in site.settings.DJANGO_MCP.items() if "SCOPES" not in key}
    site.settings.DJANGO_MCP = without
    site.configure()
    assert "代表您使用本站的工具和数据" in texts_of(site.ask(scope="mcp"))


def test_what_cannot_be_agreed_to_is_said_in_chinese(site: Site) -> None:
    answer = site.ask(redirect_uri="https://evil.example.com/")
    assert answer.status_code == 400
    assert "无法连接此应用" in Texts(answer.content.decode()).found


def test_the_page_of_applications_with_access_is_in_chinese(site: Site) -> None:
    site.tokens_for()
    found = texts_of(site.browser().get("/o/access/"))
    assert {"有访问权限的应用", "撤销访问权限", "上次续期"} <= found


def test_a_mail_about_a_call_that_waits_is_in_the_language_of_the_site(approval: Approval) -> None:
    with override(CHINESE):
        notices.send_mail(Notice(approval=approval, target="cleo@example.com"))
    assert mail.outbox[0].subject == "待审批：pay，请求者：ada-the-caller"
    assert "有一个调用需要您审批。" in mail.outbox[0].body
    assert "工具： pay (desk)" in mail.outbox[0].body
    assert [line for line in mail.outbox[0].body.splitlines() if line in ENGLISH] == []
