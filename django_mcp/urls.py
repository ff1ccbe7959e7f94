"""``path("", include("django_mcp.urls"))``: every endpoint, with and without a final slash, never a redirect."""

import re

from django.urls import re_path

from django_mcp.core.registry import servers
from django_mcp.endpoint.http_sse import http_sse_endpoints
from django_mcp.endpoint.views import event_loop_view, mcp_view

app_name = "django_mcp"
urlpatterns = [re_path(rf"^{re.escape(server.path)}/?$", mcp_view(server), name=server.name) for server in servers()]
urlpatterns += [
    re_path(rf"^{re.escape(server.path + suffix)}/?$", event_loop_view(endpoint))
    for server in servers()
    for suffix, endpoint in http_sse_endpoints(server).items()
]
