"""One tool, in the package's own form: it takes the request and a struct, and only sync functions."""

import msgspec  # type: ignore[import-not-found]
from django.http import HttpRequest
from django.urls import path
from django_mcpz.server import MCPServer, public  # type: ignore[import-not-found]

server = MCPServer(name="bench", version="1", auth=public)


class AddParams(msgspec.Struct):  # type: ignore[misc]
    """The arguments of ``add``."""

    a: int
    b: int


@server.tool(description="Add two integers.")  # type: ignore[untyped-decorator]
def add(request: HttpRequest, params: AddParams) -> int:  # noqa: ARG001
    """Add two integers."""
    total: int = params.a + params.b
    return total


urlpatterns = [path("mcp/", server)]
