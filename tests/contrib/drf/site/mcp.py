"""REST framework's tutorial, published in five lines."""

from django_mcp.contrib.drf import drf_tools
from tests.contrib.drf.snippets.views import SnippetViewSet, UserViewSet

drf_tools(SnippetViewSet)
drf_tools(UserViewSet)
