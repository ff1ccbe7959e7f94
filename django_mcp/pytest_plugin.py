"""Pytest fixtures, found through the entry point. Django is imported only when a test uses one."""

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture(params=["modern", "legacy"])
def mcp_revision(request: pytest.FixtureRequest) -> str:
    """Return the protocol revision of ``mcp_client``'s clients. Tests that use it run once in each."""
    revision: str = request.param
    return revision


@pytest.fixture
def mcp_client(mcp_revision: str, request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Return a client factory: ``mcp_client(user)`` is ``MCPClient(user, protocol_version=…)`` and takes its options.

    The test runs once in each revision, each time with a database of its own.
    """
    if request.config.pluginmanager.hasplugin("django"):
        request.getfixturevalue("db")
    from django_mcp.test.client import MCPClient  # noqa: PLC0415 - settings may not exist when plugins are loaded

    def make(user: Any = None, **options: Any) -> MCPClient:
        return MCPClient(user, **{"protocol_version": mcp_revision, **options})

    return make
