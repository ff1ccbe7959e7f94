"""What the endpoint offers."""

from django_mcp import tool


@tool(read_only=True)
def greet(name: str) -> str:
    """Say hello to somebody."""
    return f"Hello, {name}."
