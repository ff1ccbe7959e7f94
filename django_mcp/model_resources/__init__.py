"""Models as MCP resources and tools, declared by ``ModelResource``."""
