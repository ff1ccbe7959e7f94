"""System checks of the authorization server, asked where an endpoint takes OAuth tokens of this site."""

from django_mcp.oauth.checks import clients, routes, site, toolkit_settings

__all__ = ["clients", "routes", "site", "toolkit_settings"]
