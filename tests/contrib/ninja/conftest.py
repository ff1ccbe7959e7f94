"""An endpoint beside an API of django-ninja, whose callers are known by their names to both."""

import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.test import Client as Browser
from django.test import override_settings
from django.urls import clear_url_caches, path, re_path
from ninja import NinjaAPI

import tests.clients
from django_mcp import MCPServer
from django_mcp.transports.view import mcp_view
from tests.contrib.ninja.shelf import make_api
from tests.model_resources.conftest import ByName, Reader, reader, version  # noqa: F401 - fixtures

Mount = Callable[..., None]


@pytest.fixture
def mount(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mount]:
    """Puts APIs at URLs, whichever way the endpoint is called: ``mount(api, at="api/")``."""
    name = "tests.urlconf_of_shelves"
    module: Any = types.ModuleType(name)
    module.urlpatterns = []
    sys.modules[name] = module

    def add(api: NinjaAPI, at: str = "api/") -> None:
        module.urlpatterns.append(path(at, api.urls))
        clear_url_caches()

    @contextmanager
    def urls(server: MCPServer) -> Iterator[None]:
        module.urlpatterns.append(re_path(rf"^{server.path}/?$", mcp_view(server)))
        clear_url_caches()
        yield
        module.urlpatterns.pop()

    monkeypatch.setattr(tests.clients, "urls", urls)
    with override_settings(ROOT_URLCONF=name):
        clear_url_caches()
        yield add
    clear_url_caches()
    cache.clear()


@pytest.fixture
def server(make_server: Callable[..., MCPServer], db: None) -> MCPServer:
    return make_server(authentication=[ByName()])


@pytest.fixture
def api() -> NinjaAPI:
    return make_api()


@pytest.fixture
def users(db: None) -> dict[str, User]:
    return {name: User.objects.create_user(name, is_staff=name == "boss") for name in ("ann", "boss")}


@pytest.fixture
def ann(reader: Callable[..., Reader], users: dict[str, User]) -> Reader:  # noqa: F811
    return reader("ann")


@pytest.fixture
def boss(reader: Callable[..., Reader], users: dict[str, User]) -> Reader:  # noqa: F811
    return reader("boss")


@pytest.fixture
def nobody(reader: Callable[..., Reader]) -> Reader:  # noqa: F811
    return reader()


@pytest.fixture
def browser() -> Browser:
    return Browser()
