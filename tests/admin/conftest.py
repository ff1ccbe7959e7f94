"""Who looks at the pages of the admin, and an endpoint with some tools to look at."""

from collections.abc import Callable, Iterator

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.test import Client as Browser

from django_mcp import AllowAny, MCPServer
from django_mcp.auth.toolkit import get_application_model
from django_mcp.core import server
from tests.admin.tools_page import CLIENT, furnished


@pytest.fixture
def browser() -> Browser:
    browser = Browser()
    browser.force_login(User.objects.create_superuser("owner-of-the-site"))
    return browser


@pytest.fixture
def nothing_counted() -> Iterator[None]:
    cache.clear()
    yield
    cache.clear()


@pytest.fixture
def registered(db: None) -> None:
    get_application_model().objects.create(client_id=CLIENT, client_type="public")


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The site is not the demo, whose tools would be shown, and remembered, on every page."""
    monkeypatch.setattr(server, "_servers", {})
    MCPServer("default", path="mcp", authentication=[AllowAny()])


@pytest.fixture
def desk(alone: None, make_server: Callable[..., MCPServer]) -> MCPServer:
    """An endpoint with some tools."""
    return furnished(make_server)


@pytest.fixture
def desk_of_demo(make_server: Callable[..., MCPServer]) -> MCPServer:
    """The same beside those of the demo."""
    return furnished(make_server)
