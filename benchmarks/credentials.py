"""What the load generator calls the full endpoint with. It opens nothing but a benchmark's own database."""

KEY = "mcp_key_Hypq4kPkILF5Lryrk0pkOnpM6iSJdNSvXX4N5OCrq5y0KJu8V"
SESSION = "benchmark-session-0123456789abcdef"
