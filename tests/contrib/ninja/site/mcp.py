"""The API, published in one line."""

from django_mcp.contrib.ninja import ninja_tools
from tests.contrib.ninja.site.api import api

ninja_tools(api, with_tags=["books"])
