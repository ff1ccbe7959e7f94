"""What ``mcp_inspect`` tells."""
