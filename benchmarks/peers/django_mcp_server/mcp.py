"""The fifty tools. The package imports this module when Django starts."""

from mcp_server import mcp_server  # type: ignore[import-not-found]

from benchmarks.catalogue import TOOLS

for function in TOOLS:
    mcp_server.add_tool(function)
