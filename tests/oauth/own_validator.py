"""The validator of a site that had an authorization server before it had MCP."""

from django_mcp.auth.toolkit import OAuth2Validator
from django_mcp.oauth.validator import MCPValidatorMixin


class OwnValidator(OAuth2Validator):
    """What such a site had."""


class MixedValidator(MCPValidatorMixin, OwnValidator):
    """What it has now."""
