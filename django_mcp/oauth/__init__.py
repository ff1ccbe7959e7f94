"""The authorization server: django-oauth-toolkit with the rules of OAuth 2.1 and MCP."""

from django_mcp.oauth.defaults import oauth_defaults

__all__ = ["oauth_defaults"]
