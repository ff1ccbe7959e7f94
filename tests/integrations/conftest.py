"""Fixtures for what a site has already."""

from collections.abc import Callable, Iterator

import pytest
from django.contrib.auth.models import Group
from django.core.cache import cache

from django_mcp import MCPServer
from tests.clients import MODERN
from tests.integrations.visitors import ByHeader, Visitor, site_of


@pytest.fixture
def site(make_server: Callable[..., MCPServer], monkeypatch: pytest.MonkeyPatch) -> Iterator[MCPServer]:
    """An endpoint of the site with pages, which knows its callers by a header."""
    server = make_server("site", authentication=[ByHeader()])
    with site_of(server, monkeypatch):
        yield server


@pytest.fixture
def visitor(site: MCPServer, edge: str, open_database: None) -> Iterator[Visitor]:
    """A client at each edge, of nobody at first."""
    yield Visitor(site, MODERN, edge)
    cache.clear()
    Group.objects.filter(name__startswith="seat").delete()
