"""The official SDK's server with the fifty tools, behind the package's view."""

from django.urls import path
from django_stateless_mcp import mcp_view  # type: ignore[import-not-found]
from mcp.server.mcpserver import MCPServer

from benchmarks.catalogue import TOOLS

server = MCPServer("bench", log_level="WARNING")
for function in TOOLS:
    server.add_tool(function)

urlpatterns = [path("mcp/", mcp_view(server))]
