"""System checks of the authorization server: clients, routes and settings.

Settings without an entry in ``RULES`` must equal ``oauth_defaults()``.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import islice
from typing import Any, NamedTuple

from django.apps import apps
from django.conf import settings as django_settings
from django.core.checks import CheckMessage, Error, Warning  # noqa: A004
from django.db import DatabaseError, router
from django.shortcuts import resolve_url
from django.urls import ResolverMatch, URLResolver, get_resolver, get_script_prefix, resolve, reverse
from django.urls.exceptions import Resolver404
from django.utils.module_loading import import_string
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from django_mcp import conf
from django_mcp.auth.base import authenticators
from django_mcp.auth.checks import external_issuers, is_loopback, split, takes_oauth, uses_oauth
from django_mcp.auth.protected_resource import WELL_KNOWN, path_of
from django_mcp.auth.session import SessionAuthentication
from django_mcp.conf import APPROVALS_SCOPE, settings
from django_mcp.core.server import servers
from django_mcp.oauth.consent import NO_TARGETS
from django_mcp.oauth.defaults import DAY, oauth_defaults

LONGEST_GRACE = 60 * 60
"""Seconds. Stolen refresh tokens go undetected in the grace period; some servers allow an hour."""

MAX_NAMED = 20
"""Maximum number of reported applications."""


def check_redirects() -> Iterator[CheckMessage]:
    """Check ``EXTRA_REDIRECT_URIS``."""
    for uri in settings.EXTRA_REDIRECT_URIS:
        if problem := problem_of(uri):
            yield Error(
                _("DJANGO_MCP['EXTRA_REDIRECT_URIS'] contains %(uri)r, which %(problem)s.")
                % {"uri": uri, "problem": problem},
                hint=_(
                    "Write the client's exact redirect URI, such as "
                    "'cursor://anysphere.cursor-mcp/oauth/callback'. https and loopback URIs need no entry."
                ),
                id="django_mcp.E018",
            )


def problem_of(uri: Any) -> str | None:
    """Return what is wrong with a redirect URI, or None."""
    parts = split(uri)
    if parts is None or not parts.scheme or not (parts.netloc or parts.path):
        return _("is not an absolute URI")
    if "*" in uri or "#" in uri or "@" in parts.netloc:
        return _("has a wildcard, a fragment or user information; redirect URIs are compared exactly")
    if parts.scheme in NO_TARGETS:
        return _("has a scheme that browsers handle themselves")
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        return _("would send authorization codes unencrypted")
    return None


def check_ports() -> Iterator[CheckMessage]:
    """Check ``CLIENT_DOCUMENT_PORTS``."""
    for port in settings.CLIENT_DOCUMENT_PORTS:
        if type(port) is not int or not 0 < port < 2**16:
            yield Error(
                _("DJANGO_MCP['CLIENT_DOCUMENT_PORTS'] contains %(port)r, which is not a port.") % {"port": port},
                hint=_("Use numbers from 1 to 65535, such as [443]."),
                id="django_mcp.E020",
            )


def check_grace() -> Iterator[CheckMessage]:
    """Check ``REFRESH_TOKEN_GRACE_TTL``."""
    if uses_oauth() and settings.REFRESH_TOKEN_GRACE_TTL > LONGEST_GRACE:
        yield Warning(
            _(
                "DJANGO_MCP['REFRESH_TOKEN_GRACE_TTL'] is %(seconds)s seconds. Use of a stolen refresh token is "
                "not detected during that time."
            )
            % {"seconds": settings.REFRESH_TOKEN_GRACE_TTL},
            hint=_("Use at most %(longest)s; 60 is enough for clients with several processes.")
            % {"longest": LONGEST_GRACE},
            id="django_mcp.W012",
        )


def check_applications(databases: Sequence[str]) -> list[CheckMessage]:
    """Check redirect URIs and ``skip_authorization`` of manually registered applications.

    Runs with ``migrate`` and ``manage.py check --database default``.
    """
    if not uses_oauth() or not apps.is_installed("oauth2_provider"):
        return []
    try:
        found: list[CheckMessage] = [
            Warning(
                _(
                    "OAuth application %(name)r (%(client_id)s) has the redirect URI %(uri)r, which is neither "
                    "https nor a loopback address."
                )
                % {"name": name, "client_id": client_id, "uri": uri},
                hint=_(
                    "Use https, or add the URI to DJANGO_MCP['EXTRA_REDIRECT_URIS'] if it opens the client's own app."
                ),
                id="django_mcp.W011",
            )
            for name, client_id, uri in islice(_doubtful(databases), MAX_NAMED)
        ]
        found += islice(_without_consent(databases), MAX_NAMED)
    except DatabaseError:  # before the first migrate
        return []
    return found


def _doubtful(databases: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    from django_mcp.auth.toolkit import get_application_model  # noqa: PLC0415
    from django_mcp.oauth.redirect_uris import is_allowed_redirect_uri  # noqa: PLC0415 - needs the toolkit

    applications = get_application_model().objects.filter(registration_source="manual")
    if applications.db in databases:
        for name, client_id, uris in applications.values_list("name", "client_id", "redirect_uris").order_by("pk"):
            yield from ((name, client_id, uri) for uri in uris.split() if not is_allowed_redirect_uri(uri))


def _without_consent(databases: Sequence[str]) -> Iterator[CheckMessage]:
    from django_mcp.auth.toolkit import get_application_model  # noqa: PLC0415
    from django_mcp.oauth.grants import skips_consent  # noqa: PLC0415 - needs the toolkit

    applications = get_application_model().objects.filter(skip_authorization=True).order_by("pk")
    if applications.db not in databases:
        return
    for application in applications:
        skipping = [uri for uri in application.redirect_uris.split() if skips_consent(application, uri)]
        params = {"name": application.name, "client_id": application.client_id, "uris": ", ".join(skipping)}
        yield Warning(
            _("OAuth application %(name)r (%(client_id)s) has skip_authorization: its users are not asked at %(uris)s.")
            % params
            if skipping
            else _(
                "OAuth application %(name)r (%(client_id)s) has skip_authorization, which is ignored: any program "
                "could pose as it."
            )
            % params,
            hint=_("Turn skip_authorization off, unless the application is your own and may have every scope."),
            id="django_mcp.W037",
        )


APPLICATIONS = gettext_noop("lets any logged-in user create clients")
DEVICES = gettext_noop("is device flow, which does not bind tokens to a resource and fails with current oauthlib")
REGISTRATION = gettext_noop("registers clients for any grant type, with a token that never expires")
MUST_NOT = {
    "IntrospectTokenView": gettext_noop("gives any client that an administrator made information about any token"),
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
    "OAuthProtectedResourceMetadataView": gettext_noop("responds for any path, with identifiers from the Host header"),
    "AuthorizationView": gettext_noop("is the toolkit's own view, which gives MCP clients nothing"),
    "TokenView": gettext_noop("is the toolkit's own view, which passes on unknown parameters"),
}
"""Unsafe views of the toolkit, with reasons."""


class Route(NamedTuple):
    """A view and the concatenated patterns of its path."""

    path: str
    view: Any


def routes(resolver: URLResolver, before: str = "/") -> Iterator[Route]:
    """Yield every view of a URLconf."""
    for entry in resolver.url_patterns:
        path = before + str(entry.pattern).removeprefix("^")
        if isinstance(entry, URLResolver):
            yield from routes(entry, path)
        else:
            yield Route(path, entry.callback)


def check_toolkit_views() -> Iterator[CheckMessage]:
    """Check the URLconf for unsafe views of the toolkit."""
    if not uses_oauth() or not apps.is_installed("oauth2_provider"):
        return
    found: dict[str, list[str]] = {}
    try:
        mounted = [*routes(get_resolver())]
    except Exception:  # noqa: BLE001 - Django's own check reports a broken URLconf
        return
    for path, view in mounted:
        kind = getattr(view, "view_class", None)
        if kind is None or not kind.__module__.startswith("oauth2_provider."):
            continue
        if kind.__name__ in MUST_NOT and is_reached(path, view):
            found.setdefault(MUST_NOT[kind.__name__], []).append(path)
    for why, paths in found.items():
        yield Warning(
            _("The URLconf has an unsafe view of django-oauth-toolkit: %(paths)s %(why)s.")
            % {"paths": ", ".join(paths), "why": _(why)},
            hint=_(
                "Remove include('oauth2_provider.urls') from the URLconf. django_mcp.urls has all that clients need."
            ),
            id="django_mcp.W009",
        )


def is_reached(path: str, view: Any) -> bool:
    # Another view may be served at the path before this one.
    return _view_at(path) in {view, None}


def check_authorize_view() -> Iterator[CheckMessage]:
    """Check that clients are sent to the package's consent page: codes for endpoints come from there alone."""
    if not uses_oauth() or not apps.is_installed("oauth2_provider"):
        return
    from django_mcp.auth.toolkit import AuthorizationView  # noqa: PLC0415
    from django_mcp.oauth.authorize import AuthorizeView  # noqa: PLC0415 - needs the toolkit

    try:
        path = reverse("oauth2_provider:authorize")
    except Exception:  # noqa: BLE001 - a site without the route, or with a broken URLconf, which Django reports
        return
    kind = getattr(_view_at("/" + path.removeprefix(get_script_prefix()).lstrip("/")), "view_class", None)
    if isinstance(kind, type) and issubclass(kind, AuthorizationView) and not issubclass(kind, AuthorizeView):
        yield Error(
            _("MCP clients are sent to %(path)s, which is %(view)s: nobody can sign in there.")
            % {"path": path, "view": f"{kind.__module__}.{kind.__qualname__}"},
            hint=_(
                "Add path(%(path)r, AuthorizeView.as_view(other_view=…)) before it, from django_mcp.oauth.authorize. "
                "It shows its consent page to MCP clients and leaves other requests to your view."
            )
            % {"path": path.lstrip("/")},
            id="django_mcp.E037",
        )


def check_well_known() -> Iterator[CheckMessage]:
    """Check that metadata is served at the well-known paths."""
    try:
        wrong = [path for path, right in well_known() if not right]
    except Exception:  # noqa: BLE001 - Django's own check reports a broken URLconf
        return
    for path in wrong:
        yield Warning(
            _("%(path)s is not served by django_mcp, but clients request their metadata there.") % {"path": path},
            hint=_(
                "Add path('', include('django_mcp.urls')) to the root URLconf, outside i18n_patterns and before "
                "catch-all patterns. To serve an endpoint below a path, use MCPServer(path='api/mcp')."
            ),
            id="django_mcp.W010",
        )


def well_known() -> Iterator[tuple[str, bool]]:
    """Yield metadata paths, and whether the package serves them."""
    for server in servers():
        if takes_oauth(server) or external_issuers(server):
            path = f"/{WELL_KNOWN}{path_of(server)}"
            yield path, _name_at(path) == f"django_mcp:{server.name}-metadata"
    if uses_oauth() and apps.is_installed("oauth2_provider"):
        from django_mcp.oauth.urls import well_known_patterns  # noqa: PLC0415 - needs the toolkit

        path = "/.well-known/oauth-authorization-server"
        yield path, _view_at(path) in [pattern.callback for pattern in well_known_patterns]


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


APPS = {
    "oauth2_provider": gettext_noop("it stores clients and tokens"),
    "django.contrib.auth": gettext_noop("tokens belong to its users"),
    "django.contrib.sessions": gettext_noop("users log in"),
}
MIDDLEWARE = {
    "django.contrib.sessions.middleware.SessionMiddleware": gettext_noop("users log in"),
    "django.contrib.auth.middleware.AuthenticationMiddleware": gettext_noop("it identifies the user who gives consent"),
    "django.middleware.csrf.CsrfViewMiddleware": gettext_noop(
        "without it another site could give consent for the user"
    ),
}


def check_approvals_app() -> Iterator[CheckMessage]:
    """Check that users can grant the scope of ``APPROVALS_APP``."""
    if settings.APPROVALS_APP and not uses_oauth():
        yield Warning(
            _("DJANGO_MCP['APPROVALS_APP'] is on, but no endpoint accepts OAuth tokens, so nobody can use the app."),
            hint=_(
                "Add 'django_mcp.OAuth2Authentication' to the authentication of an endpoint. Users agree to the scope "
                "%(scope)s when they sign in; API keys and sessions cannot have it."
            )
            % {"scope": APPROVALS_SCOPE},
            id="django_mcp.W038",
        )


def check_apps() -> Iterator[CheckMessage]:
    """Check for apps that OAuth or ``SessionAuthentication`` needs."""
    sessions = any(
        isinstance(authenticator, SessionAuthentication)
        for server in servers()
        for authenticator in authenticators(server)
    )
    for name, why in APPS.items():
        needed = uses_oauth() or (sessions and name == "django.contrib.sessions")
        if needed and not apps.is_installed(name):
            yield Error(
                _("%(name)r is not installed, but an endpoint needs it: %(why)s.") % {"name": name, "why": _(why)},
                hint=_("Add %(name)r to INSTALLED_APPS, then run manage.py migrate.") % {"name": name},
                id="django_mcp.E013",
            )


def check_reads() -> Iterator[CheckMessage]:
    """Check that tokens are read where they are written."""
    if not (uses_oauth() and apps.is_installed("oauth2_provider")):
        return
    from django_mcp.auth.toolkit import get_access_token_model, get_refresh_token_model  # noqa: PLC0415 - it needs them

    for model in (get_access_token_model(), get_refresh_token_model()):
        written, read = router.db_for_write(model), router.db_for_read(model)
        if written != read:
            yield Warning(
                _("%(model)s is written to the database %(written)r and read from %(read)r.")
                % {"model": model.__name__, "written": written, "read": read},
                hint=_(
                    "On a lagging replica new codes and tokens are missing, and signing in fails. Let the "
                    "router's db_for_read() return the database that 'oauth2_provider' is written to."
                ),
                id="django_mcp.W036",
            )
            return


def check_middleware() -> Iterator[CheckMessage]:
    """Check for middleware of the consent page, or subclasses."""
    if not uses_oauth():
        return
    present = [_class_of(path) for path in django_settings.MIDDLEWARE]
    for name, why in MIDDLEWARE.items():
        wanted = _class_of(name)
        found = any(isinstance(kind, type) and issubclass(kind, wanted) for kind in present if wanted is not None)
        if not found and name not in django_settings.MIDDLEWARE:
            yield Error(
                _("An endpoint accepts OAuth tokens, but MIDDLEWARE has no %(short)s: %(why)s.")
                % {"short": name.rpartition(".")[2], "why": _(why)},
                hint=_("Add %(name)r to MIDDLEWARE.") % {"name": name},
                id="django_mcp.E014",
            )


def _class_of(path: Any) -> Any:
    try:
        return import_string(path)
    except Exception:  # noqa: BLE001 - whatever that module raises
        return None


def check_login() -> Iterator[CheckMessage]:
    """Check that ``LOGIN_URL`` is a login page for all users."""
    if not uses_oauth():
        return
    given = django_settings.LOGIN_URL
    try:
        match = match_of(resolve_url(given))
    except Exception:  # noqa: BLE001 - unresolvable names and paths, and whatever the URLconf raises
        yield Error(
            _("LOGIN_URL is %(given)r, which does not resolve, so users cannot log in to give consent.")
            % {"given": str(given)},
            hint=_(
                "Set LOGIN_URL = 'login' and add path('accounts/', include('django.contrib.auth.urls')) with a "
                "template registration/login.html, or set it to your login page."
            ),
            id="django_mcp.E015",
        )
        return
    if match is not None and "admin" in match.app_names and match.url_name == "login":
        yield Warning(
            _("LOGIN_URL is %(given)r, the admin's login page, which only accepts staff users.")
            % {"given": str(given)},
            hint=_("Set it to a login page for all users, unless only staff should connect."),
            id="django_mcp.W007",
        )


def match_of(url: str) -> ResolverMatch | None:
    """Return the view behind a URL of this site, None for another site's.

    Raises:
        Resolver404: no view matches.
    """
    if "://" in url or url.startswith("//"):
        return None
    path = url.partition("?")[0].partition("#")[0]
    prefix = get_script_prefix()
    return resolve("/" + path.removeprefix(prefix).lstrip("/"))


def check_path() -> Iterator[CheckMessage]:
    """Check ``OAUTH_PATH``, which could produce URLs such as ``/oauthorize/``."""
    path = settings.OAUTH_PATH
    if path and (path.startswith("/") or not path.endswith("/")):
        yield Error(
            _("DJANGO_MCP['OAUTH_PATH'] is %(path)r, which gives URLs such as %(address)r.")
            % {"path": path, "address": f"/{path}authorize/"},
            hint=_("Write %(right)r.") % {"right": path.strip("/") + "/"},
            id="django_mcp.E019",
        )


Weaker = Callable[[Any, Any], bool]


def differs(value: Any, safe: Any) -> bool:
    # The order of lists is ignored.
    if isinstance(value, list | tuple) and isinstance(safe, list | tuple):
        return any(item not in safe for item in value) or any(item not in value for item in safe)
    return bool(value != safe)


def is_off(value: Any, safe: Any) -> bool:  # noqa: ARG001
    return not value


def adds(value: Any, safe: Any) -> bool:
    return not isinstance(value, list | tuple | set) or any(item not in safe for item in value)


def lacks(value: Any, safe: Any) -> bool:
    return not isinstance(value, Mapping) or any(item not in value for item in safe)


def lasts(longest: int) -> Weaker:
    """Return a function that is True for lifetimes over *longest* seconds, or unlimited ones."""

    def weaker(value: Any, safe: Any) -> bool:  # noqa: ARG001
        seconds = value.total_seconds() if isinstance(value, timedelta) else value
        return isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= longest

    return weaker


def is_positive(value: Any, safe: Any) -> bool:  # noqa: ARG001
    return bool(value != 0)


def is_no_subclass(value: Any, safe: Any) -> bool:
    try:
        given = import_string(value) if isinstance(value, str) else value
        wanted = import_string(safe) if isinstance(safe, str) else safe
    except Exception:  # noqa: BLE001 - whatever importing it raises, it is not usable
        return True
    return not isinstance(given, type) or not issubclass(given, wanted)


def is_no_validator(value: Any, safe: Any) -> bool:  # noqa: ARG001
    from django_mcp.oauth.validator import MCPValidatorMixin  # noqa: PLC0415 - needs the toolkit

    return is_no_subclass(value, MCPValidatorMixin)


def never(value: Any, safe: Any) -> bool:  # noqa: ARG001
    return False


LONGEST = {"ACCESS_TOKEN_EXPIRE_SECONDS": 8 * 60 * 60, "REFRESH_TOKEN_EXPIRE_SECONDS": 90 * DAY}
"""Lifetimes in seconds accepted without warning."""


class Rule(NamedTuple):
    """When and why a value is weaker than the safe one.

    Attributes:
        is_error: whether it violates OAuth 2.1 or breaks the server.
    """

    weaker: Weaker
    why: str
    is_error: bool = False


OLD = gettext_noop("OAuth 2.1 removed this grant, because it exposes tokens or passwords")
METADATA = gettext_noop("the metadata would list unsupported values or lack required ones")
RULES: Mapping[str, Rule] = {
    "SCOPES": Rule(lacks, gettext_noop("scopes that the toolkit does not know cannot be granted"), is_error=True),
    "DEFAULT_SCOPES": Rule(adds, gettext_noop("clients that request no scope would get more than the default")),
    "ACCESS_TOKEN_EXPIRE_SECONDS": Rule(
        lasts(LONGEST["ACCESS_TOKEN_EXPIRE_SECONDS"]),
        gettext_noop("a stolen token works until it expires"),
    ),
    "REFRESH_TOKEN_EXPIRE_SECONDS": Rule(
        lasts(LONGEST["REFRESH_TOKEN_EXPIRE_SECONDS"]),
        gettext_noop("an unused client keeps its access that long"),
    ),
    "REFRESH_TOKEN_GRACE_PERIOD_SECONDS": Rule(
        is_positive,
        gettext_noop(
            "the toolkit's grace period fails with HTTP 500 if tokens are hashed; use "
            "DJANGO_MCP['REFRESH_TOKEN_GRACE_TTL']"
        ),
        is_error=True,
    ),
    "ROTATE_REFRESH_TOKEN": Rule(
        is_off, gettext_noop("OAuth 2.1 requires refresh tokens of public clients to rotate"), is_error=True
    ),
    "REFRESH_TOKEN_REUSE_PROTECTION": Rule(is_off, gettext_noop("use of a stolen refresh token would not be detected")),
    "PKCE_REQUIRED": Rule(is_off, gettext_noop("an intercepted code could be redeemed (RFC 7636)"), is_error=True),
    "REQUEST_APPROVAL_PROMPT": Rule(differs, gettext_noop("clients could get access again without the user's consent")),
    "ALLOW_LOCALHOST_LOOPBACK": Rule(is_off, gettext_noop("Claude Code, Cursor and Codex listen on http://localhost")),
    "ALLOWED_REDIRECT_URI_SCHEMES": Rule(
        differs,
        gettext_noop("codes could reach unintended apps, or redirect URIs in EXTRA_REDIRECT_URIS would be rejected"),
    ),
    "OAUTH2_RESPONSE_TYPES_SUPPORTED": Rule(differs, METADATA),
    "OAUTH2_GRANT_TYPES_SUPPORTED": Rule(differs, METADATA),
    "OAUTH2_TOKEN_ENDPOINT_AUTH_METHODS_SUPPORTED": Rule(differs, METADATA),
    "COMPLIANT_BCP_RFC9700_IMPLICIT_GRANT": Rule(is_off, OLD),
    "COMPLIANT_BCP_RFC9700_PASSWORD_GRANT": Rule(is_off, OLD),
    "COMPLIANT_BCP_RFC9700_PKCE_METHOD": Rule(
        is_off, gettext_noop("PKCE with 'plain' protects nothing"), is_error=True
    ),
    "COMPLIANT_BCP_RFC9700_ACCESS_TOKEN_TRANSPORT": Rule(
        is_off, gettext_noop("tokens in URLs end up in logs (RFC 9700)")
    ),
    "COMPLIANT_BCP_RFC9700_AUTHZ_RESPONSE_ISS": Rule(
        is_off, gettext_noop("clients could not tell which server responded (RFC 9207), and some reject such responses")
    ),
    "COMPLIANT_BCP_RFC9700_TOKEN_STORAGE": Rule(
        is_off, gettext_noop("tokens leaked from the database could be used"), is_error=True
    ),
    "DCR_ENABLED": Rule(never, ""),
    "CIMD_ENABLED": Rule(never, ""),
    "CIMD_METADATA_FETCHER": Rule(
        is_no_subclass,
        gettext_noop("documents of common clients would be rejected, and private addresses could be fetched"),
    ),
    "OAUTH2_VALIDATOR_CLASS": Rule(
        is_no_validator,
        gettext_noop("tokens would not be bound to an endpoint, and blocked clients could get them"),
        is_error=True,
    ),
    # Not in oauth_defaults(): the toolkit's own defaults are safe.
    "ALLOW_URI_WILDCARDS": Rule(
        differs, gettext_noop("OAuth 2.1 requires exact comparison of redirect URIs"), is_error=True
    ),
    "AUTHORIZATION_CODE_EXPIRE_SECONDS": Rule(
        lasts(10 * 60), gettext_noop("a code should expire within ten minutes (RFC 6749)")
    ),
}
UNKNOWN = Rule(differs, gettext_noop("oauth_defaults() has a different value"))


def check_toolkit_settings() -> Iterator[CheckMessage]:
    """Check ``OAUTH2_PROVIDER`` for values weaker than ``oauth_defaults()``."""
    if uses_oauth() and not getattr(django_settings, "OAUTH2_PROVIDER", None):
        yield Error(
            _("OAUTH2_PROVIDER is missing, and the toolkit's defaults do not meet OAuth 2.1."),
            hint=_(
                "Add after DJANGO_MCP: from django_mcp.oauth import oauth_defaults; OAUTH2_PROVIDER = "
                "oauth_defaults(DJANGO_MCP)"
            ),
            id="django_mcp.E016",
        )
    for key, value, safe in compared():
        rule = RULES.get(key, UNKNOWN)
        if key != "OIDC_ISS_ENDPOINT" and rule.weaker(value, safe):
            kind, number = (Error, "django_mcp.E016") if rule.is_error else (Warning, "django_mcp.W008")
            yield kind(
                _("OAUTH2_PROVIDER[%(key)r] is %(value)r: %(why)s.") % {"key": key, "value": value, "why": _(rule.why)},
                hint=_advice(key, safe),
                id=number,
            )


def _advice(key: str, safe: Any) -> str:
    longest = _(" The maximum is %(longest)s.") % {"longest": LONGEST[key]} if key in LONGEST else ""
    return _("Use OAUTH2_PROVIDER = oauth_defaults(DJANGO_MCP), which has %(safe)r.%(longest)s") % {
        "safe": safe,
        "longest": longest,
    }


def check_issuer() -> Iterator[CheckMessage]:
    """Check that the issuer is the site (RFC 8414, section 3.3)."""
    for key, value, safe in compared():
        if key == "OIDC_ISS_ENDPOINT" and value != safe:
            yield Error(
                _("OAUTH2_PROVIDER['OIDC_ISS_ENDPOINT'] is %(value)r, but DJANGO_MCP['BASE_URL'] is %(safe)r.")
                % {"value": value, "safe": safe},
                hint=_("They must be the same. Use OAUTH2_PROVIDER = oauth_defaults(DJANGO_MCP) after DJANGO_MCP."),
                id="django_mcp.E017",
            )


def compared() -> Iterator[tuple[str, Any, Any]]:
    """Yield key, value and safe value, unless other checks report that OAuth cannot work."""
    given = getattr(django_settings, "OAUTH2_PROVIDER", None)
    if not uses_oauth() or not apps.is_installed("oauth2_provider") or not given or not isinstance(given, Mapping):
        return
    from django_mcp.auth.toolkit import oauth2_settings  # noqa: PLC0415 - needs the app registry

    stock: Mapping[str, Any] = oauth2_settings.defaults
    safe = {key: stock[key] for key in RULES if key in stock}
    try:
        safe |= oauth_defaults(conf.given())
    except Exception:  # noqa: BLE001 - missing BASE_URL or invalid scopes, which other checks report
        return
    for key, right in safe.items():
        yield key, given.get(key, stock.get(key)), right


ALWAYS = (
    check_redirects,
    check_ports,
    check_grace,
    check_toolkit_views,
    check_authorize_view,
    check_well_known,
    check_approvals_app,
    check_apps,
    check_reads,
    check_middleware,
    check_login,
    check_path,
    check_toolkit_settings,
    check_issuer,
)
DATABASE = (check_applications,)
