"""The demo project's settings, but that it finds client ID metadata documents which the tests serve."""

import os

from demo_project.settings import *  # noqa: F403
from demo_project.settings import DJANGO_MCP as DEMO
from django_mcp.oauth import oauth_defaults

# What is judged are logins, not passwords, whose slow hash is most of the time that a login takes. The second one is of
# the sample users, until they log in.
PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.MD5PasswordHasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]
DJANGO_MCP = {
    **DEMO,
    "CLIENT_DOCUMENTS": True,
    "CLIENT_DOCUMENT_PORTS": [443, *map(int, os.environ.get("AUTH_CHECK_DOCUMENT_PORT", "").split())],
}
OAUTH2_PROVIDER = oauth_defaults(DJANGO_MCP, CIMD_METADATA_FETCHER="tests.auth_check.documents.LocalFetcher")
