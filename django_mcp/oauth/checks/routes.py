"""What is mounted: views that must not be, and documents that clients look for at the root."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from django.apps import apps
from django.core.checks import CheckMessage, Warning  # noqa: A004
from django.urls import URLResolver, get_resolver, resolve
from django.urls.exceptions import Resolver404
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from django_mcp.auth.checks.base import external_issuers, takes_oauth, uses_oauth
from django_mcp.auth.identifiers import WELL_KNOWN, path_of
from django_mcp.core.server import servers

APPLICATIONS = gettext_noop("lets every user who can log in create clients")
DEVICES = gettext_noop("is device flow, which knows no resource and fails with current oauthlib")
REGISTRATION = gettext_noop("registers clients for any grant, with a token that never expires")
STOCK = gettext_noop(
    "is the toolkit's own, without this package's rules: it neither shows where people are sent nor binds resources"
)
MUST_NOT = {
    "IntrospectTokenView": gettext_noop("tells any confidential client of any token"),
    "ApplicationList": APPLICATIONS,
    "ApplicationRegistration": APPLICATIONS,
    "ApplicationDetail": APPLICATIONS,
    "ApplicationDelete": APPLICATIONS,
    "ApplicationUpdate": APPLICATIONS,
    "DeviceAuthorizationView": DEVICES,
    "DeviceUserCodeView": DEVICES,
    "DeviceConfirmView": DEVICES,
    "DeviceGrantStatusView": DEVICES,
    "DynamicClientRegistrationView": REGISTRATION,
    "DynamicClientRegistrationManagementView": REGISTRATION,
    "OAuthProtectedResourceMetadataView": gettext_noop("answers for any path, with identifiers from the Host header"),
    "AuthorizationView": STOCK,
    "TokenView": STOCK,
}
"""Views of the toolkit, and what each does that it should not."""


class Route(NamedTuple):
    """Where a view is mounted: the patterns that lead to it, one behind the other."""

    path: str
    view: Any


def routes(resolver: URLResolver, before: str = "/") -> Iterator[Route]:
    """Every view of a URLconf."""
    for each in resolver.url_patterns:
        path = before + str(each.pattern).removeprefix("^")
        if isinstance(each, URLResolver):
            yield from routes(each, path)
        else:
            yield Route(path, each.callback)


def check_toolkit_views() -> Iterator[CheckMessage]:
    """Views of the toolkit that undo what ours keep to."""
    if not uses_oauth() or not apps.is_installed("oauth2_provider"):
        return
    found: dict[str, list[str]] = {}
    try:
        mounted = [*routes(get_resolver())]
    except Exception:  # noqa: BLE001 - Django's own check reports a broken URLconf
        return
    for path, view in mounted:
        kind = getattr(view, "view_class", None)
        if kind and kind.__module__.startswith("oauth2_provider.") and kind.__name__ in MUST_NOT:
            found.setdefault(MUST_NOT[kind.__name__], []).append(path)
    for why, paths in found.items():
        yield Warning(
            _("A view of django-oauth-toolkit is mounted that should not be: %(paths)s %(why)s.")
            % {"paths": ", ".join(paths), "why": _(why)},
            hint=_(
                "Take include('oauth2_provider.urls') out of the URLconf: django_mcp.urls mounts what clients need."
            ),
            id="django_mcp.W009",
        )


def check_well_known() -> Iterator[CheckMessage]:
    """Metadata that clients would not find, or find another view's answer in its place."""
    try:
        wrong = [path for path, right in well_known() if not right]
    except Exception:  # noqa: BLE001 - Django's own check reports a broken URLconf
        return
    for path in wrong:
        yield Warning(
            _("%(path)s is not served by django_mcp, and clients look for it there.") % {"path": path},
            hint=_(
                "Put path('', include('django_mcp.urls')) into the root URLconf, outside i18n_patterns "
                "and before patterns that match everything; where an endpoint should be below a path, "
                "write MCPServer(path='api/mcp')."
            ),
            id="django_mcp.W010",
        )


def well_known() -> Iterator[tuple[str, bool]]:
    """Paths of metadata, and whether our view answers there."""
    for server in servers():
        if takes_oauth(server) or external_issuers(server):
            path = f"/{WELL_KNOWN}{path_of(server)}"
            yield path, _name_at(path) == f"django_mcp:{server.name}-metadata"
    if uses_oauth() and apps.is_installed("oauth2_provider"):
        from django_mcp.oauth.urls import well_known_patterns  # noqa: PLC0415 - needs the toolkit

        path = "/.well-known/oauth-authorization-server"
        yield path, _view_at(path) in [each.callback for each in well_known_patterns]


def _name_at(path: str) -> str | None:
    try:
        return resolve(path).view_name
    except Resolver404:
        return None


def _view_at(path: str) -> Any:
    try:
        return resolve(path).func
    except Resolver404:
        return None
