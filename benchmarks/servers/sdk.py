"""The yardstick: the official SDK's high-level server, in its fastest setting.

Stateless and with plain JSON answers, which is what our endpoint does for the same requests. The log level
keeps it from writing a line per request, as uvicorn's access log is off for every server under test.
"""

from mcp.server.mcpserver import MCPServer

from benchmarks.catalogue import TOOLS

server = MCPServer("bench", log_level="WARNING")
for function in TOOLS:
    server.add_tool(function)

application = server.streamable_http_app(json_response=True, stateless_http=True)
