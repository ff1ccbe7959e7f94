"""URL patterns of the authorization server.

Left out: the toolkit's management of applications, where any user creates clients; introspection, which informs any
client about any token; device flow; OpenID Connect.
"""

from django.urls import URLPattern, path

from django_mcp.oauth.authorize import AuthorizeView
from django_mcp.oauth.connected_apps import AccessView
from django_mcp.oauth.metadata import metadata_view
from django_mcp.oauth.register import registration_view
from django_mcp.oauth.token import RevokeView, TokenView

# Paths without slash are served because the redirect of ``APPEND_SLASH`` would lose a POST. They have no name:
# ``reverse`` would prefer them.
oauth_patterns: list[URLPattern] = [
    path("authorize/", AuthorizeView.as_view(), name="authorize"),
    path("authorize", AuthorizeView.as_view()),
    path("token/", TokenView.as_view(), name="token"),
    path("token", TokenView.as_view()),
    path("revoke_token/", RevokeView.as_view(), name="revoke-token"),
    path("revoke_token", RevokeView.as_view()),
    path("register/", registration_view, name="dcr-register"),
    path("register", registration_view),
]
account_patterns: list[URLPattern] = [path("access/", AccessView.as_view(), name="access")]
well_known_patterns: list[URLPattern] = [path(".well-known/oauth-authorization-server", metadata_view)]
