"""REST framework's tutorial, published in five lines."""

from django_mcp.contrib.drf import api_tools
from tests.contrib.drf.snippets.views import SnippetViewSet, UserViewSet

api_tools(SnippetViewSet)
api_tools(UserViewSet)
