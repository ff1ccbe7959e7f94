"""The authorization server: django-oauth-toolkit, held to OAuth 2.1 and to what MCP asks for beyond it."""

from django_mcp.oauth.defaults import oauth_defaults

__all__ = ["oauth_defaults"]
