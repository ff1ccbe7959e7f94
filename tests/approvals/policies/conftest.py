"""Fixtures for decisions about tools."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Group

from django_mcp import BaseAuthentication, MCPServer, Principal, RequestHead
from django_mcp.models import ToolSnapshot
from django_mcp.primitives.tool import Tool
from tests.behaviour.conftest import make_user  # noqa: F401 - a fixture
from tests.behaviour.users import ByName

Make = Callable[..., Any]


class Callers(BaseAuthentication):
    """``X-User`` says who calls, ``X-Client`` through which OAuth client, and ``X-Scopes`` what that may do."""

    def authenticate(self, head: RequestHead, server: object) -> Principal:
        found = ByName().authenticate(head, server)
        client, scopes = head.headers.get("x-client"), head.headers.get("x-scopes")
        return Principal(
            found.kind,
            found.id,
            found.user,
            client_id=client,
            scopes=None if scopes is None else frozenset(scopes.split()),
            steps_up=scopes is not None,
        )


@pytest.fixture(autouse=True)
def _seen_by_nobody(policies: None) -> Iterator[None]:
    """Each test begins and ends without tools that somebody accepted, and leaves no group."""
    ToolSnapshot.objects.all().delete()
    yield
    ToolSnapshot.objects.all().delete()
    Group.objects.all().delete()


@pytest.fixture
def server(make_server: Make, policies: None) -> MCPServer:
    """An endpoint at which everybody says who they are."""
    return make_server(authentication=[Callers()], scopes=[])


def tool_of(server: MCPServer, name: str) -> Tool:
    """A tool by its name."""
    return server.tools[name]
