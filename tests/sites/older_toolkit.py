"""The site is an OAuth provider already, with a django-oauth-toolkit older than OAuth2Authentication needs.

``SWAPPED`` in the environment says that its tokens are models of its own.
"""

import os

from tests.sites.base import *  # noqa: F403
from tests.sites.base import DJANGO_MCP, INSTALLED_APPS

LEFT_OUT = {"a_token_opens_and_says_where_to_get_one"}
ROOT_URLCONF = "tests.sites.older_toolkit_urls"
OAUTH2_PROVIDER = {"SCOPES": {"read": "Read"}, "PKCE_REQUIRED": False}
DJANGO_MCP = {
    **{key: value for key, value in DJANGO_MCP.items() if key not in {"SCOPES", "DEFAULT_SCOPES"}},
    "AUTHENTICATION": ["django_mcp.APIKeyAuthentication", "django_mcp.SessionAuthentication"],
}
if "SWAPPED" in os.environ:
    INSTALLED_APPS = [*INSTALLED_APPS, "tests.sites.provider"]
    OAUTH2_PROVIDER_APPLICATION_MODEL = "provider.Program"
    OAUTH2_PROVIDER_ACCESS_TOKEN_MODEL = "provider.Token"
    OAUTH2_PROVIDER_ID_TOKEN_MODEL = "provider.IdToken"
    OAUTH2_PROVIDER_GRANT_MODEL = "provider.Grant"
    OAUTH2_PROVIDER_REFRESH_TOKEN_MODEL = "provider.Refresh"
    MIGRATION_MODULES = {"oauth2_provider": None}  # some of its migrations read tables that the site's make
