"""The shared settings, with django-mcp-server."""

from benchmarks.peers.settings import *  # noqa: F403

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "mcp_server",
    "benchmarks.peers.django_mcp_server",
]
ROOT_URLCONF = "benchmarks.peers.django_mcp_server.urls"

# Without Django's sessions, which would each be a row or a cookie.
DJANGO_MCP_GLOBAL_SERVER_CONFIG = {"name": "bench", "stateless": True}
# Its own tool stays out of the list: the catalogue's fifty are compared.
DJANGO_MCP_GET_SERVER_INSTRUCTIONS_TOOL = False
# The SDK beneath it writes four lines for each request at the level that it sets; the others write none.
LOGGING = {"version": 1, "disable_existing_loggers": False, "loggers": {"mcp": {"level": "WARNING"}}}
