"""The demo, open to everybody, so that clients can be driven that nobody logs in."""

from demo_project.settings import *  # noqa: F403
from demo_project.settings import DJANGO_MCP as DEMO

DJANGO_MCP = {**DEMO, "AUTHENTICATION": ["django_mcp.AllowAny"]}
