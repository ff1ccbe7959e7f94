"""fastmcp's streamable HTTP application: stateless, with plain JSON answers, and without what costs time."""

import os

# Both are read when the package is imported. No line of its log and no span has a reader here.
os.environ.setdefault("FASTMCP_LOG_LEVEL", "WARNING")
os.environ.setdefault("FASTMCP_TELEMETRY_MODE", "off")

from fastmcp import FastMCP  # type: ignore[import-not-found]

from benchmarks.catalogue import TOOLS

# No schema has a reference to resolve, and for the newest protocol version every call goes through the whole list.
server = FastMCP("bench", dereference_schemas=False)
for function in TOOLS:
    # A thread for each call of a sync function would only make these slower.
    server.tool(function, run_in_thread=False)

application = server.http_app(path="/mcp", json_response=True, stateless_http=True)
