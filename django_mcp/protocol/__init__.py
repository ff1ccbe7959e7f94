"""The wire: JSON-RPC messages, content, errors, headers, URIs and cursors, and nothing of Django or HTTP servers.

Modules here import the standard library and pydantic-core only; everything is a value or a pure function.
"""
