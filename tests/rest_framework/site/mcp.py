"""REST framework's tutorial, published in five lines."""

from django_mcp.contrib.rest_framework import api_tools
from tests.rest_framework.snippets.views import SnippetViewSet, UserViewSet

api_tools(SnippetViewSet)
api_tools(UserViewSet)
