"""System checks in a language that the package is translated into."""

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.checks import CheckMessage
from django.urls import include, path
from django.utils.translation import override

from django_mcp import (
    AllowAny,
    JWTAuthentication,
    MCPServer,
    ModelResource,
    OAuth2Authentication,
    conf,
    register,
    tool,
    view_tool,
)
from django_mcp.contrib.drf import drf_tools
from tests.auth.checked_site import DJANGO_MCP, CheckedSite, findings, make_checked_site
from tests.contrib.drf import shop
from tests.model_resources.conftest import registering
from tests.model_resources.library.models import Author, Book
from tests.translations.catalogs import PACKAGE

CHINESE = "zh-hans"
HAN = re.compile(r"[\u4e00-\u9fff]")


@pytest.fixture
def site(
    settings: Any, make_server: Callable[..., MCPServer], monkeypatch: pytest.MonkeyPatch
) -> Iterator[CheckedSite]:
    yield from make_checked_site(settings, make_server, monkeypatch)


def in_both(site: CheckedSite) -> list[CheckMessage]:
    """What is found in Chinese: the same as in English, and nothing of it in English."""
    english = findings(deploy=True)
    with override(CHINESE):
        chinese = findings(deploy=True)
    assert [(each.id, each.level, each.obj) for each in chinese] == [
        (each.id, each.level, each.obj) for each in english
    ]
    assert [each for each in english if HAN.search(f"{each.msg}{each.hint}")] == []
    assert [each for each in chinese if not HAN.search(each.msg) or (each.hint and not HAN.search(each.hint))] == []
    return chinese


def told(found: list[CheckMessage], number: str) -> str:
    return " ".join(each.msg for each in found if each.id == f"django_mcp.{number}")


WRONG: dict[str, tuple[Any, str, str]] = {
    "AUTHENTICATION": ([], "E002", "没有认证方式，因此不会提供服务。"),
    "BASE_URL": ("http://travel.example.com", "E011", "令牌和授权码将以未加密的方式传输。"),
    "SCOPES": ({"a": {"text": "", "implies": 5, "b": 5}}, "E008", "DJANGO_MCP['SCOPES']['a'] 有一个未知的键 'b'。"),
    "DEFAULT_SCOPES": (["lost"], "E007", "DJANGO_MCP['DEFAULT_SCOPES'] 中有授权范围 'lost'"),
    "NAME": (5, "E003", "DJANGO_MCP['NAME'] 必须是字符串，而不是 5。"),
    "WORKER_THREADS": (0, "E003", "DJANGO_MCP['WORKER_THREADS'] 必须是正整数，而不是 0。"),
    "THREAD": (8, "E001", "DJANGO_MCP 没有键 'THREAD'。"),
    "RATE_LIMIT": ("often", "E005", "DJANGO_MCP['RATE_LIMIT']：'often' 不是有效的速率"),
    "ALLOWED_ORIGINS": (["*"], "E004", "'*' 不是有效的源"),
    "CLIENT_ADDRESS_HEADER": ("X Real", "E009", "它不是有效的标头名称。"),
    "CLIENT_DOCUMENT_PORTS": ([0], "E020", "它不是端口。"),
    "EXTRA_REDIRECT_URIS": (["callback"], "E018", "中有 'callback'，它不是绝对 URI。"),
    "REFRESH_TOKEN_GRACE_TTL": (9000, "W012", "被盗刷新令牌的使用不会被发现"),
    "OAUTH_PATH": ("/o", "E019", "会产生 '//oauthorize/' 这样的 URL。"),
    "API_KEYS_IN_URL": (True, "W003", "已开启：代理、浏览器和日志"),
    "APPROVAL_WEBHOOK": ("ftp://a", "E032", "缺少 DJANGO_MCP['APPROVAL_WEBHOOK_SECRET']。"),
    "APPROVAL_EMAILS": (["nobody"], "E033", "'nobody' 不是有效的电子邮件地址。"),
    "TASK_BACKEND": ("lost", "E030", "它不是 TASKS 中的别名。"),
}


def test_what_is_wrong_in_our_setting_is_told_in_chinese_under_the_same_id(
    site: CheckedSite, make_server: Callable[..., MCPServer], subtests: pytest.Subtests
) -> None:
    for key, (value, number, words) in WRONG.items():
        with subtests.test(key):
            make_server(key.lower())  # one that has read nothing of the setting yet
            site.settings.DJANGO_MCP = {**DJANGO_MCP, key: value}
            assert words in told(in_both(site), number)


def test_what_is_wrong_in_other_settings_is_told_in_chinese(site: CheckedSite) -> None:
    site.mount(before=[path("", include("oauth2_provider.urls"))])
    site.toolkit(PKCE_REQUIRED=False, ACCESS_TOKEN_EXPIRE_SECONDS=None, OIDC_ISS_ENDPOINT="")
    site.settings.ALLOWED_HOSTS = ["*"]
    site.settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
    site.settings.LOGIN_URL = "/nowhere/"
    site.settings.MIDDLEWARE = []
    found = in_both(site)
    assert {each.id.removeprefix("django_mcp.") for each in found} == {
        *("E014", "E015", "E016", "E017", "E037", "W005", "W006", "W008", "W009", "W010")
    }
    assert "OAUTH2_PROVIDER['PKCE_REQUIRED'] 为 False：被截获的授权码可以用来换取令牌" in told(found, "E016")
    assert "MIDDLEWARE 中没有 SessionMiddleware：用户需要登录。" in told(found, "E014")
    assert "/register/" in told(found, "W009")
    assert "可为任何授权方式注册客户端" in told(found, "W009")


def test_what_is_wrong_with_endpoints_is_told_in_chinese(
    site: CheckedSite, make_server: Callable[..., MCPServer]
) -> None:
    elsewhere = JWTAuthentication("https://login.example.com", user=lambda claims: None)
    make_server("ordered", authentication=[OAuth2Authentication(), elsewhere])
    make_server("broken", authentication=["django_mcp.Publik"])
    strange = make_server("strange", authentication=[5])
    tool(server=strange, name="mute", scopes=["lost"])(lambda: "")
    make_server("open", authentication=[AllowAny()])
    view_tool("nowhere", server=site.server, name="view")
    drf_tools(shop.Nameless, server=site.server)
    found = in_both(site)
    assert "OAuth2Authentication 排在它之前，会先作出决定。" in told(found, "E021")
    assert "无法加载 <MCPServer 'broken'" in told(found, "E006")
    assert "的认证类：5 is not an authentication class" in told(found, "E006")
    assert "需要授权范围 'lost'，但它不在 DJANGO_MCP['SCOPES'] 中。" in told(found, "E007")
    assert "模型只能以其名称为依据。" in told(found, "W014")
    assert "允许匿名访问 0 个工具" in told(found, "W004")
    assert "工具 'view'：" in told(found, "E029")
    assert "URLconf 中没有（在命名空间中，URL 需要名称）。" in told(found, "E028")


DECLARED: list[tuple[Any, dict[str, Any], str, str]] = [
    (Book, {}, "E065", "没有声明 fields。"),
    (Book, {"fields": ["titel"]}, "E022", "'titel'：library.Book 没有字段 'titel'；它有 "),
    (Book, {"fields": ["title"], "filterset_fields": {"title": ["regex"]}}, "E022", "'title' 不能用 'regex' 过滤"),
    (Book, {"fields": ["title"], "title_field": "internal"}, "E072", "并且保存普通的值。"),
    (Author, {"fields": ["password"]}, "E023", "fields 中的 'password' 看起来像机密信息。"),
    (
        Book,
        {"fields": ["title"], "filterset_fields": ["shelf"]},
        "E024",
        "filterset_fields 中的 'shelf' 不在 fields 中",
    ),
    (Book, {"fields": ["title"], "lookup_field": "isbn"}, "E025", "不是该模型的列。"),
    (Book, {"fields": ["title"], "actions": ["create", "update"]}, "E027", "actions 中有 'create' 和 'update'，但"),
    (
        Book,
        {"fields": ["title"], "actions": ["create"], "writable_fields": ["cover"]},
        "E027",
        "writable_fields：'cover' 保存的是文件或字节，因此不能写入。",
    ),
]


def test_what_is_wrong_with_a_declaration_is_told_in_the_language_of_the_start(
    site: CheckedSite, subtests: pytest.Subtests
) -> None:
    for model, declared, number, words in DECLARED:
        with subtests.test(words=words), registering(site.server):
            with override(CHINESE):
                register(model, type("Declared", (ModelResource,), declared), server=site.server)
            (found,) = [each for each in findings() if each.id == f"django_mcp.{number}"]
            assert words in found.msg
            assert HAN.search(found.hint)


def test_what_is_raised_about_a_setting_is_in_english(settings: Any) -> None:
    settings.DJANGO_MCP = {"WORKER_THREADS": 0, "RATE_LIMIT": "often"}
    with override(CHINESE):
        assert conf.faults() == ["django_mcp.E003: DJANGO_MCP['WORKER_THREADS'] must be a positive integer, not 0."]


def test_a_wrong_setting_is_told_before_there_are_translations() -> None:
    """Settings may be read while apps are loaded, when ``gettext`` raises an error of its own."""
    code = (
        "from django.conf import settings; settings.configure(DJANGO_MCP={'WORKER_THREADS': 0})\n"
        "from django_mcp import conf; print(*conf.faults())"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=PACKAGE.parent, capture_output=True, text=True)  # noqa: PLW1510 - it fails
    assert done.stdout == "django_mcp.E003: DJANGO_MCP['WORKER_THREADS'] must be a positive integer, not 0.\n"


# Sources

IDS = re.compile(r'"django_mcp\.[EW]\d{3}"')
WORDS = re.compile(r"[A-Za-z]{2,}.*\s|\s.*[A-Za-z]{2,}")
GETTEXT = {"_", "gettext_lazy", "gettext_noop"}
SHOWN = {"Error", "Warning", "Info", "CheckMessage", "Problem", "PathError", "UnwritableError"}
"""What takes texts of checks; the last two are raised, and a check tells what they say."""


def name_of(call: ast.Call) -> str:
    return getattr(call.func, "id", getattr(call.func, "attr", ""))


def untranslated(node: ast.AST) -> Iterator[str]:
    """Texts with words that go through no function of gettext, and are no docstrings."""
    if isinstance(node, ast.Call) and name_of(node) in GETTEXT:
        return
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and WORDS.search(node.value):
        yield node.value
    for each in ast.iter_child_nodes(node):
        yield from untranslated(each)


def test_every_text_in_a_module_of_checks_is_marked_for_translation(subtests: pytest.Subtests) -> None:
    for module in [each for each in sorted(PACKAGE.rglob("*.py")) if IDS.search(each.read_text())]:
        with subtests.test(module=module):
            assert [*untranslated(ast.parse(module.read_text()))] == []


def test_texts_of_checks_that_are_made_elsewhere_are_marked_too() -> None:
    trees = [ast.parse(each.read_text()) for each in sorted(PACKAGE.glob("model_resources/*.py"))]
    calls = [each for tree in trees for each in ast.walk(tree) if isinstance(each, ast.Call) and name_of(each) in SHOWN]
    assert len(calls) > 40
    assert [text for each in calls for text in untranslated(each)] == []
