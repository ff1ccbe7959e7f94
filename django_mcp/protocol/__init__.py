"""The wire format: JSON-RPC messages, content, errors, headers, URIs and cursors.

Values and pure functions that import only the standard library and pydantic-core.
"""
