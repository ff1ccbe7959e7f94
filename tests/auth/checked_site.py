"""A site that is as the documentation says, for tests that then break it at one place."""

import itertools
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.views import LoginView
from django.core.checks import CheckMessage, run_checks
from django.urls import clear_url_caches, path

from django_mcp import MCPServer, tool
from django_mcp.core import server
from django_mcp.oauth import oauth_defaults

DJANGO_MCP: dict[str, Any] = {
    "BASE_URL": "https://travel.example.com",
    "AUTHENTICATION": ["django_mcp.OAuth2Authentication", "django_mcp.APIKeyAuthentication"],
    "SCOPES": {
        "travel:read": "Look up your trips",
        "travel:write": {"text": "Change your trips", "implies": ["travel:read"]},
    },
    "DEFAULT_SCOPES": ["travel:read"],
}
OURS = "django_mcp."
UNDONE = (
    "ALLOWED_HOSTS",
    "CACHES",
    "DJANGO_MCP",
    "INSTALLED_APPS",
    "LOGIN_URL",
    "MIDDLEWARE",
    "OAUTH2_PROVIDER",
    "ROOT_URLCONF",
)
PREFIX = "tests.auth.checked_urls_"
_numbers = itertools.count(1)


def urlconf(
    before: Sequence[Any] = (), behind: Sequence[Any] = (), wrap: Callable[[list[Any]], list[Any]] = list
) -> str:
    """The name of a new URLconf as sites have it.

    Args:
        before: patterns before all others.
        behind: patterns behind them.
        wrap: what is done with the patterns of ``django_mcp.urls``.
    """
    from django_mcp.urls import build_urlpatterns

    module = types.ModuleType(f"{PREFIX}{next(_numbers)}")
    module.urlpatterns = [
        *before,
        path("admin/", admin.site.urls),
        path("accounts/login/", LoginView.as_view(template_name="admin/login.html"), name="login"),
        *wrap(build_urlpatterns()),
        *behind,
    ]
    sys.modules[module.__name__] = module
    clear_url_caches()
    return module.__name__


def forget_urlconfs(but: str | None = None) -> None:
    for name in [each for each in sys.modules if each.startswith(PREFIX) and each != but]:
        del sys.modules[name]
    clear_url_caches()


def findings(*, deploy: bool = False) -> list[CheckMessage]:
    """What our checks find, but for other packages of the same name, which depend on the machine."""
    found = run_checks(tags=["django_mcp"], include_deployment_checks=deploy)
    return [each for each in found if each.id != "django_mcp.W001"]


def ids(*, deploy: bool = False) -> set[str]:
    return {each.id for each in findings(deploy=deploy)}


def only(number: str, *, deploy: bool = False) -> CheckMessage:
    """The finding, which must be there once, and alone."""
    found = findings(deploy=deploy)
    assert [each.id for each in found] == [OURS + number], found
    assert found[0].hint
    return found[0]


class CheckedSite:
    """A site with one endpoint, which takes OAuth."""

    def __init__(self, settings: Any, make_server: Callable[..., MCPServer]) -> None:
        self.settings = settings
        settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": "redis:"}}
        settings.LOGIN_URL = "/accounts/login/"
        settings.DJANGO_MCP = DJANGO_MCP
        self.server = make_server("trips", authentication=None)
        tool(server=self.server, name="look_up", description="Look up.", read_only=True)(lambda: "looked up")
        tool(server=self.server, name="change", description="Change.", scopes=["travel:write"])(lambda: "changed")
        self.configure()

    def configure(self, **changes: Any) -> None:
        """Set ``DJANGO_MCP`` with these changes, and all that follows from it."""
        given = {**DJANGO_MCP, **changes}
        self.settings.DJANGO_MCP = {key: value for key, value in given.items() if value is not ...}
        self.settings.OAUTH2_PROVIDER = oauth_defaults(DJANGO_MCP)
        try:
            self.settings.OAUTH2_PROVIDER = oauth_defaults(self.settings.DJANGO_MCP)
            self.mount()
        except Exception:  # noqa: BLE001 - a site that is broken on purpose keeps what it had
            return

    @contextmanager
    def afresh(self) -> Iterator[None]:
        """Undo what happens within: settings, servers and what is on them."""
        before = {name: getattr(self.settings, name) for name in UNDONE}
        servers = server.snapshots()
        try:
            yield
        finally:
            server.restore_all(servers)
            for name, value in before.items():
                if getattr(self.settings, name) is not value:
                    setattr(self.settings, name, value)
            forget_urlconfs(before["ROOT_URLCONF"])

    def mount(self, **patterns: Any) -> None:
        """Set a URLconf with these arguments of ``urlconf``."""
        self.settings.ROOT_URLCONF = urlconf(**patterns)

    def toolkit(self, **changes: Any) -> None:
        """Change ``OAUTH2_PROVIDER``."""
        self.settings.OAUTH2_PROVIDER = {**self.settings.OAUTH2_PROVIDER, **changes}


def make_checked_site(
    settings: Any, make_server: Callable[..., MCPServer], monkeypatch: pytest.MonkeyPatch
) -> Iterator[CheckedSite]:
    """The site, and no endpoint but its own."""
    monkeypatch.setattr(server, "_servers", {})
    yield CheckedSite(settings, make_server)
    forget_urlconfs()
