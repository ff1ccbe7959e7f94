"""URL patterns of all endpoints, with and without a trailing slash: ``path("", include("django_mcp.urls"))``.

Include them at the root: OAuth requires its metadata under ``/.well-known/`` there.
"""

import re
from typing import Any

from django.apps import apps
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import URLPattern, URLResolver, include, path, re_path

from django_mcp.auth.base import authenticators
from django_mcp.auth.oauth import OAuth2Authentication
from django_mcp.conf import settings
from django_mcp.core.server import servers
from django_mcp.core.signals import urls_made
from django_mcp.listing.documents import document_patterns
from django_mcp.transports.http import http_sse_endpoints
from django_mcp.transports.resource_metadata import metadata_patterns
from django_mcp.transports.view import event_loop_view, mcp_view

APP_NAME = "django_mcp"


def build_urlpatterns() -> list[URLPattern | URLResolver]:
    """Return the patterns of all endpoints, their approval pages and, if needed, the authorization server."""
    urls_made.send(sender=None)
    patterns: list[URLPattern | URLResolver] = [path("", include((_endpoint_patterns(), APP_NAME)))]
    if apps.is_installed("django.contrib.admin"):  # approvals are decided there
        patterns.append(path("", include((_approval_patterns(), "django_mcp_approvals"))))
    takes_oauth = any(
        isinstance(authenticator, OAuth2Authentication)
        for server in servers()
        for authenticator in authenticators(server)
    )
    if takes_oauth and apps.is_installed("oauth2_provider"):  # if it is not, a system check says so
        patterns += _oauth_patterns()
    return patterns


def _endpoint_patterns() -> list[URLPattern]:
    endpoints = [re_path(rf"^{re.escape(server.path)}/?$", mcp_view(server), name=server.name) for server in servers()]
    beside = [
        re_path(rf"^{re.escape(server.path + suffix)}/?$", event_loop_view(endpoint))
        for server in servers()
        for suffix, endpoint in http_sse_endpoints(server).items()
    ]
    return [*endpoints, *beside, *metadata_patterns(), *document_patterns()]


def _approval_patterns() -> list[URLPattern]:
    return [
        re_path(
            rf"^{re.escape(f'{server.path}/approvals/'.lstrip('/'))}(?P<approval_id>[-\w]+)/$",
            requester_view,
            {"endpoint": server.name},
            name="requester",
        )
        for server in servers()
    ]


def requester_view(request: HttpRequest, **captured: Any) -> HttpResponseBase:
    from django_mcp.admin.requester_page import RequesterView  # noqa: PLC0415 - few sites need it at start

    return RequesterView.as_view()(request, **captured)


def _oauth_patterns() -> list[URLPattern | URLResolver]:
    from django_mcp.oauth.urls import account_patterns, oauth_patterns, well_known_patterns  # noqa: PLC0415 - needs apps

    patterns: list[URLPattern | URLResolver] = [*well_known_patterns]
    if settings.OAUTH_PATH is not None:
        patterns.append(path(settings.OAUTH_PATH, include((oauth_patterns, "oauth2_provider"))))
        patterns.append(path(settings.OAUTH_PATH, include((account_patterns, "django_mcp_oauth"))))
    return patterns


urlpatterns = build_urlpatterns()
