"""System checks of who may call. What one finds is described in ``docs/checks.md``."""

from django_mcp.auth.checks import addresses, asking, openness, scopes

__all__ = ["addresses", "asking", "openness", "scopes"]
