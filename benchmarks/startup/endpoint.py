"""The same site with an endpoint that anybody may call. It keeps its log of calls, as it does unless told otherwise."""

from benchmarks.startup.bare import *  # noqa: F403
from benchmarks.startup.bare import INSTALLED_APPS as OF_STARTPROJECT

INSTALLED_APPS = [*OF_STARTPROJECT, "django_mcp", "benchmarks.startup"]
DJANGO_MCP = {"AUTHENTICATION": ["django_mcp.AllowAny"]}
