"""The fifty tools, registered as a site registers its own: where anybody calls, and where all is known of who does."""

from benchmarks.catalogue import TOOLS
from django_mcp import APIKeyAuthentication, MCPServer, tool

full = MCPServer("full", authentication=[APIKeyAuthentication()], scopes=[], log_requests=True)

for function in TOOLS:
    tool(function)
    tool(function, server=full)
