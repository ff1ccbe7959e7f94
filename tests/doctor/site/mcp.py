"""What the endpoint offers."""

from django_mcp import MCPServer, server, tool

staff = MCPServer("staff", path="staff/mcp", user_passes_test=lambda user: user.is_staff)


@tool(read_only=True, server=[server, staff])
def greet(name: str) -> str:
    """Say hello to somebody."""
    return f"Hello, {name}."
