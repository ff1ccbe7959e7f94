"""Fixtures of the authorization server's tests."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from django_mcp import MCPServer
from tests.oauth.site import Site, forget_urlconfs, make_site


@pytest.fixture
def site(settings: Any, make_server: Callable[..., MCPServer], db: None) -> Iterator[Site]:
    """A site in a transaction that is undone after the test."""
    yield make_site(settings, make_server)
    forget_urlconfs()


@pytest.fixture
def live_site(settings: Any, make_server: Callable[..., MCPServer], transactional_db: None) -> Iterator[Site]:
    """The same in a database that other threads see too."""
    yield make_site(settings, make_server)
    forget_urlconfs()
