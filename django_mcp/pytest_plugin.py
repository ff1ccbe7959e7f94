"""Fixtures for pytest, which finds them by itself. Nothing of Django is imported before a test wants one."""

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture(params=["modern", "legacy"])
def mcp_revision(request: pytest.FixtureRequest) -> str:
    """The revision of the clients that ``mcp_client`` makes: each test that uses it is run in both."""
    revision: str = request.param
    return revision


@pytest.fixture
def mcp_client(mcp_revision: str, request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Makes clients: ``mcp_client(user)`` is ``MCPClient(user, protocol_version=…)``, with its other options.

    The test is run once in each revision, with a database of its own, so nothing happens twice within it.
    """
    if request.config.pluginmanager.hasplugin("django"):
        request.getfixturevalue("db")
    from django_mcp.test.client import MCPClient  # noqa: PLC0415 - settings may not be there yet when plugins are loaded

    def make(user: Any = None, **options: Any) -> MCPClient:
        return MCPClient(user, **{"protocol_version": mcp_revision, **options})

    return make
