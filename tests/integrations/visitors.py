"""Callers of a site's pages, at every edge, and the site itself."""

import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.test import override_settings
from django.urls import clear_url_caches, re_path

from django_mcp import BaseAuthentication, MCPServer, Principal, RequestHead
from django_mcp.transports.view import mcp_view
from tests.clients import Client
from tests.integrations import views_site


class ByHeader(BaseAuthentication):
    """Users that no database has, by the name in ``X-User``; ``root`` may do everything."""

    blocking = False

    def authenticate(self, head: RequestHead, server: object) -> Principal:
        name = head.headers.get("x-user", "")
        user: Any = AnonymousUser()
        if name:
            user = User(pk=sum(map(ord, name)), username=name, is_superuser=name == "root")
        return Principal(kind="header", id=name, user=user)


class Visitor(Client):
    """A client of one user."""

    user = ""
    sends: dict[str, str] = {}

    def compose(self, method: str, params: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
        body, headers = super().compose(method, params)
        return body, {**headers, **({"x-user": self.user} if self.user else {}), **self.sends}

    def data(self, tool: str, /, **arguments: Any) -> Any:
        """The structured content of a result that is no error."""
        result = self.call(tool, **arguments).result
        assert not result.get("isError"), result
        return result["structuredContent"]

    def text(self, tool: str, /, **arguments: Any) -> str:
        """The text of a result that is no error."""
        answer = self.call(tool, **arguments)
        assert not answer.result.get("isError"), answer.text
        return answer.text

    def problem(self, tool: str, /, **arguments: Any) -> str:
        """The text of an error."""
        answer = self.call(tool, **arguments)
        assert answer.result.get("isError"), answer.result
        return answer.text


@contextmanager
def site_of(server: MCPServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The site, with an endpoint in its URLconf."""
    module = types.ModuleType("tests.integrations.urlconf")
    module.urlpatterns = [*views_site.urlpatterns, re_path(rf"^{server.path}/?$", mcp_view(server))]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr("tests.clients.urls", lambda _: nullcontext())
    with override_settings(ROOT_URLCONF=module.__name__, LOGIN_URL="login"):
        clear_url_caches()
        yield
    clear_url_caches()
