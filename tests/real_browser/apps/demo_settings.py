"""The demo's settings, for pages of ``HOST_ORIGIN``."""

import os

from demo_project.settings import *  # noqa: F403
from demo_project.settings import DJANGO_MCP as DEMO
from django_mcp.oauth import oauth_defaults

DJANGO_MCP = {
    **DEMO,
    "ALLOWED_ORIGINS": [os.environ["HOST_ORIGIN"]],
    "APPROVALS_APP": True,
    "APPROVAL_WAIT_TIMEOUT": 0.5,
}
OAUTH2_PROVIDER = oauth_defaults(DJANGO_MCP)
