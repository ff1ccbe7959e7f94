"""The official SDK's server with the same handful of tools, in its fastest setting."""

from mcp.server.mcpserver import MCPServer

from benchmarks.catalogue import TOOLS

server = MCPServer("bench", log_level="WARNING")
for function in TOOLS[:6]:
    server.add_tool(function)

application = server.streamable_http_app(json_response=True, stateless_http=True)
