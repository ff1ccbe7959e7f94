"""System checks of the authorization server: clients, routes, settings.

Safe values are never repeated here: they come from the function itself, so the two cannot drift apart. A key without
a rule below is compared as it is.
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
from django.urls import ResolverMatch, URLResolver, get_resolver, get_script_prefix, resolve
from django.urls.exceptions import Resolver404
from django.utils.module_loading import import_string
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from django_mcp import conf
from django_mcp.auth.checks import external_issuers, is_loopback, made, split, takes_oauth, uses_oauth
from django_mcp.auth.protected_resource import WELL_KNOWN, path_of
from django_mcp.auth.session import SessionAuthentication
from django_mcp.conf import settings
from django_mcp.core.server import servers
from django_mcp.oauth.defaults import DAY, oauth_defaults

NO_TARGETS = {"javascript", "data", "vbscript", "file", "blob", "about"}
"""Schemes that run something in the browser instead of leading to a program."""

LONGEST_GRACE = 60 * 60
"""Seconds. Within the grace a stolen refresh token is not noticed; servers are known to allow up to an hour."""

MAX_NAMED = 20
"""Applications that are named."""


def check_redirects() -> Iterator[CheckMessage]:
    """Entries of ``EXTRA_REDIRECT_URIS`` that are no redirect URIs, or dangerous ones."""
    for uri in settings.EXTRA_REDIRECT_URIS:
        if problem := problem_of(uri):
            yield Error(
                _("DJANGO_MCP['EXTRA_REDIRECT_URIS'] has %(uri)r, which %(problem)s.")
                % {"uri": uri, "problem": problem},
                hint=_(
                    "Write the client's redirect URI exactly: 'cursor://anysphere.cursor-mcp/oauth/callback'."
                    " https and loopback ones need no entry."
                ),
                id="django_mcp.E018",
            )


def problem_of(uri: Any) -> str | None:
    """What speaks against an extra redirect URI."""
    parts = split(uri)
    if parts is None or not parts.scheme or not (parts.netloc or parts.path):
        return _("is no absolute URI")
    if "*" in uri or "#" in uri or "@" in parts.netloc:
        return _("has a wildcard, a fragment or user information; redirect URIs are compared as they are")
    if parts.scheme in NO_TARGETS:
        return _("runs in the browser instead of leading to a program")
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        return _("would send codes without encryption")
    return None


def check_ports() -> Iterator[CheckMessage]:
    """Ports that are none."""
    for port in settings.CLIENT_DOCUMENT_PORTS:
        if type(port) is not int or not 0 < port < 2**16:
            yield Error(
                _("DJANGO_MCP['CLIENT_DOCUMENT_PORTS'] has %(port)r, which is no port.") % {"port": port},
                hint=_("Write numbers from 1 to 65535: [443]."),
                id="django_mcp.E020",
            )


def check_grace() -> Iterator[CheckMessage]:
    """A grace so long that theft goes unnoticed."""
    if uses_oauth() and settings.REFRESH_TOKEN_GRACE_TTL > LONGEST_GRACE:
        yield Warning(
            _(
                "DJANGO_MCP['REFRESH_TOKEN_GRACE_TTL'] is %(seconds)s: for so long a stolen refresh token "
                "can be used beside its owner's without being noticed."
            )
            % {"seconds": settings.REFRESH_TOKEN_GRACE_TTL},
            hint=_("Write at most %(longest)s; 60 is enough for clients with several processes.")
            % {"longest": LONGEST_GRACE},
            id="django_mcp.W012",
        )


def check_applications(databases: Sequence[str]) -> list[CheckMessage]:
    """Applications somebody made by hand, with redirect URIs that clients of MCP would not be allowed.

    For ``manage.py check --database default`` and ``migrate``.

    Args:
        databases: aliases of those that may be asked.
    """
    if not uses_oauth() or not apps.is_installed("oauth2_provider"):
        return []
    try:
        found: list[CheckMessage] = [
            Warning(
                _(
                    "OAuth application %(name)r (%(client_id)s) may have people sent to %(uri)r, which is "
                    "neither https nor this computer."
                )
                % {"name": name, "client_id": client_id, "uri": uri},
                hint=_("Write https, or list the URI in DJANGO_MCP['EXTRA_REDIRECT_URIS'] if it is its program's own."),
                id="django_mcp.W011",
            )
            for name, client_id, uri in islice(_doubtful(databases), MAX_NAMED)
        ]
    except DatabaseError:  # before the first migrate
        return []
    return found


def _doubtful(databases: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Name, client id and redirect URI."""
    from django_mcp.auth.toolkit import get_application_model  # noqa: PLC0415
    from django_mcp.oauth.register import redirect_ok  # noqa: PLC0415 - needs the toolkit

    applications = get_application_model().objects.filter(registration_source="manual")
    if applications.db in databases:
        for name, client_id, uris in applications.values_list("name", "client_id", "redirect_uris").order_by("pk"):
            yield from ((name, client_id, uri) for uri in uris.split() if not redirect_ok(uri))


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


APPS = {
    "oauth2_provider": gettext_noop("it keeps clients and tokens"),
    "django.contrib.auth": gettext_noop("tokens are for its users"),
    "django.contrib.sessions": gettext_noop("people log in"),
}
MIDDLEWARE = {
    "django.contrib.sessions.middleware.SessionMiddleware": gettext_noop("people log in"),
    "django.contrib.auth.middleware.AuthenticationMiddleware": gettext_noop("it says who agrees"),
    "django.middleware.csrf.CsrfViewMiddleware": gettext_noop("without it another site can agree for them"),
}


def check_apps() -> Iterator[CheckMessage]:
    """Apps that OAuth needs, and sessions for those who call with one."""
    sessions = any(isinstance(each, SessionAuthentication) for server in servers() for each in made(server))
    for name, why in APPS.items():
        needed = uses_oauth() or (sessions and name == "django.contrib.sessions")
        if needed and not apps.is_installed(name):
            yield Error(
                _("%(name)r is not installed, and an endpoint needs it: %(why)s.") % {"name": name, "why": _(why)},
                hint=_("Add %(name)r to INSTALLED_APPS, then run manage.py migrate.") % {"name": name},
                id="django_mcp.E013",
            )


def check_reads() -> Iterator[CheckMessage]:
    """Tokens that are looked for where they may not have arrived yet."""
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
                    "A replica that lags does not know a code or token that was issued a moment ago, and signing in "
                    "fails: let db_for_read() of the router send 'oauth2_provider' where it is written."
                ),
                id="django_mcp.W036",
            )
            return


def check_middleware() -> Iterator[CheckMessage]:
    """Middleware that the consent page needs; a subclass is as good."""
    if not uses_oauth():
        return
    present = [_class_of(path) for path in django_settings.MIDDLEWARE]
    for name, why in MIDDLEWARE.items():
        wanted = _class_of(name)
        found = any(isinstance(each, type) and issubclass(each, wanted) for each in present if wanted is not None)
        if not found and name not in django_settings.MIDDLEWARE:
            yield Error(
                _("An endpoint takes OAuth tokens, and MIDDLEWARE has no %(short)s: %(why)s.")
                % {"short": name.rpartition(".")[2], "why": _(why)},
                hint=_("Add %(name)r to MIDDLEWARE.") % {"name": name},
                id="django_mcp.E014",
            )


def _class_of(path: Any) -> Any:
    """What a dotted path names; None for nothing, which Django reports by itself when it starts."""
    try:
        return import_string(path)
    except Exception:  # noqa: BLE001 - whatever that module raises
        return None


def check_login() -> Iterator[CheckMessage]:
    """A login page that is not there, or not for everybody."""
    if not uses_oauth():
        return
    given = django_settings.LOGIN_URL
    try:
        match = match_of(resolve_url(given))
    except Exception:  # noqa: BLE001 - unresolvable names and paths, and whatever the URLconf raises
        yield Error(
            _("LOGIN_URL is %(given)r, which leads nowhere, so nobody can log in to agree.") % {"given": str(given)},
            hint=_(
                "Write LOGIN_URL = 'login' and add path('accounts/', include('django.contrib.auth.urls'))"
                " with a template registration/login.html, or name the login page there is."
            ),
            id="django_mcp.E015",
        )
        return
    if match is not None and "admin" in match.app_names and match.url_name == "login":
        yield Warning(
            _("LOGIN_URL is %(given)r, the admin's login page, which lets only staff in.") % {"given": str(given)},
            hint=_("Write the address or name of a login page for all users, unless only staff are to connect."),
            id="django_mcp.W007",
        )


def match_of(url: str) -> ResolverMatch | None:
    """The view behind a URL of this site; None where the URL is another site's.

    Raises:
        Resolver404: there is none.
    """
    if "://" in url or url.startswith("//"):
        return None
    path = url.partition("?")[0].partition("#")[0]
    prefix = get_script_prefix()
    return resolve("/" + path.removeprefix(prefix).lstrip("/"))


def check_path() -> Iterator[CheckMessage]:
    """A path that makes addresses like ``/oauthorize/``."""
    path = settings.OAUTH_PATH
    if path and (path.startswith("/") or not path.endswith("/")):
        yield Error(
            _("DJANGO_MCP['OAUTH_PATH'] is %(path)r: addresses would be like %(address)r.")
            % {"path": path, "address": f"/{path}authorize/"},
            hint=_("Write %(right)r.") % {"right": path.strip("/") + "/"},
            id="django_mcp.E019",
        )


Weaker = Callable[[Any, Any], bool]


def differs(value: Any, safe: Any) -> bool:
    """Whether it is another value; the order of a list is none."""
    if isinstance(value, list | tuple) and isinstance(safe, list | tuple):
        return any(each not in safe for each in value) or any(each not in value for each in safe)
    return bool(value != safe)


def is_off(value: Any, safe: Any) -> bool:  # noqa: ARG001
    """Whether a switch is off."""
    return not value


def adds(value: Any, safe: Any) -> bool:
    """Whether a list has more in it."""
    return not isinstance(value, list | tuple | set) or any(each not in safe for each in value)


def lacks(value: Any, safe: Any) -> bool:
    """Whether something is missing."""
    return not isinstance(value, Mapping) or any(each not in value for each in safe)


def lasts(longest: int) -> Weaker:
    """Whether it lives longer than so many seconds, or for ever."""

    def weaker(value: Any, safe: Any) -> bool:  # noqa: ARG001
        seconds = value.total_seconds() if isinstance(value, timedelta) else value
        return isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= longest

    return weaker


def is_positive(value: Any, safe: Any) -> bool:  # noqa: ARG001
    """Whether it is anything but 0."""
    return bool(value != 0)


def is_no_subclass(value: Any, safe: Any) -> bool:
    """Whether a class is neither the safe one nor made from it."""
    try:
        given = import_string(value) if isinstance(value, str) else value
        wanted = import_string(safe) if isinstance(safe, str) else safe
    except Exception:  # noqa: BLE001 - whatever importing it raises, it is not usable
        return True
    return not isinstance(given, type) or not issubclass(given, wanted)


def is_no_validator(value: Any, safe: Any) -> bool:  # noqa: ARG001
    """Whether a validator does not hold clients to our rules."""
    from django_mcp.oauth.validator import MCPValidatorMixin  # noqa: PLC0415 - needs the toolkit

    return is_no_subclass(value, MCPValidatorMixin)


def has_no_such_class(value: Any, safe: Any) -> bool:
    """Whether none of the classes is one of the safe ones."""
    given = value if isinstance(value, list | tuple) else [value]
    return any(all(is_no_subclass(each, wanted) for each in given) for wanted in safe)


def never(value: Any, safe: Any) -> bool:  # noqa: ARG001
    """For what a site may choose."""
    return False


LONGEST = {"ACCESS_TOKEN_EXPIRE_SECONDS": 8 * 60 * 60, "REFRESH_TOKEN_EXPIRE_SECONDS": 90 * DAY}
"""Seconds up to which a longer life than the default's is a matter of taste: a working day for what opens everything
to a thief, and a quarter for a client that nobody used."""


class Rule(NamedTuple):
    """How a value may be weaker than the safe one.

    Attributes:
        weaker: takes the value and the safe one.
        why: what the weaker one does.
        is_error: it breaks OAuth 2.1, or the server.
    """

    weaker: Weaker
    why: str
    is_error: bool = False


OLD = gettext_noop("OAuth 2.1 has no such grant: it hands tokens or passwords to programs that should not see them")
METADATA = gettext_noop("clients would be told of what is refused, or not of what they need")
RULES: Mapping[str, Rule] = {
    "SCOPES": Rule(lacks, gettext_noop("no client can be given a scope that the toolkit does not know"), is_error=True),
    "DEFAULT_SCOPES": Rule(adds, gettext_noop("a client that asks for nothing would be given more than the default")),
    "ACCESS_TOKEN_EXPIRE_SECONDS": Rule(
        lasts(LONGEST["ACCESS_TOKEN_EXPIRE_SECONDS"]),
        gettext_noop("a stolen token opens the endpoint until it expires"),
    ),
    "REFRESH_TOKEN_EXPIRE_SECONDS": Rule(
        lasts(LONGEST["REFRESH_TOKEN_EXPIRE_SECONDS"]),
        gettext_noop("a client that nobody uses keeps its access for so long"),
    ),
    "REFRESH_TOKEN_GRACE_PERIOD_SECONDS": Rule(
        is_positive,
        gettext_noop(
            "the toolkit's grace answers HTTP 500 where tokens are hashed; "
            "DJANGO_MCP['REFRESH_TOKEN_GRACE_TTL'] replaces it"
        ),
        is_error=True,
    ),
    "ROTATE_REFRESH_TOKEN": Rule(
        is_off, gettext_noop("OAuth 2.1 wants refresh tokens of public clients replaced"), is_error=True
    ),
    "REFRESH_TOKEN_REUSE_PROTECTION": Rule(is_off, gettext_noop("a stolen refresh token would go unnoticed")),
    "PKCE_REQUIRED": Rule(is_off, gettext_noop("whoever intercepts a code could redeem it (RFC 7636)"), is_error=True),
    "REQUEST_APPROVAL_PROMPT": Rule(
        differs, gettext_noop("people would not be asked again before a client gets access")
    ),
    "ALLOW_LOCALHOST_LOOPBACK": Rule(is_off, gettext_noop("Claude Code, Cursor and Codex listen on http://localhost")),
    "ALLOWED_REDIRECT_URI_SCHEMES": Rule(
        differs,
        gettext_noop("codes would be sent to programs that are not meant, or not to those in EXTRA_REDIRECT_URIS"),
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
        is_off, gettext_noop("tokens in addresses end in logs (RFC 9700)")
    ),
    "COMPLIANT_BCP_RFC9700_AUTHZ_RESPONSE_ISS": Rule(
        is_off, gettext_noop("clients could not tell which server answered (RFC 9207), and some refuse")
    ),
    "COMPLIANT_BCP_RFC9700_TOKEN_STORAGE": Rule(
        is_off, gettext_noop("whoever reads the database could use the tokens in it"), is_error=True
    ),
    "DCR_ENABLED": Rule(never, ""),
    "CIMD_ENABLED": Rule(never, ""),
    "CIMD_METADATA_FETCHER": Rule(
        is_no_subclass, gettext_noop("documents of real clients would be refused, and private addresses fetched")
    ),
    "CIMD_REGISTRATION_PERMISSION_CLASSES": Rule(
        has_no_such_class, gettext_noop("nothing would limit how many are fetched")
    ),
    "OAUTH2_VALIDATOR_CLASS": Rule(
        is_no_validator,
        gettext_noop("tokens would not be bound to an endpoint, nor refused to who may not have them"),
        is_error=True,
    ),
    # Not among the defaults, for the toolkit's own are right.
    "ALLOW_URI_WILDCARDS": Rule(differs, gettext_noop("OAuth 2.1 wants redirect URIs compared exactly"), is_error=True),
    "AUTHORIZATION_CODE_EXPIRE_SECONDS": Rule(
        lasts(10 * 60), gettext_noop("a code should live ten minutes at most (RFC 6749)")
    ),
}
UNKNOWN = Rule(differs, gettext_noop("oauth_defaults() has another value"))


def check_toolkit_settings() -> Iterator[CheckMessage]:
    """Each value of ``OAUTH2_PROVIDER`` that is weaker than what ``oauth_defaults`` gives."""
    if uses_oauth() and not getattr(django_settings, "OAUTH2_PROVIDER", None):
        yield Error(
            _("OAUTH2_PROVIDER is missing, and the toolkit's own defaults are for sites older than OAuth 2.1."),
            hint=_(
                "Write, after DJANGO_MCP: from django_mcp.oauth import oauth_defaults; OAUTH2_PROVIDER = "
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
    longest = _(" %(longest)s is the most.") % {"longest": LONGEST[key]} if key in LONGEST else ""
    return _("Write OAUTH2_PROVIDER = oauth_defaults(DJANGO_MCP), which has %(safe)r.%(longest)s") % {
        "safe": safe,
        "longest": longest,
    }


def check_issuer() -> Iterator[CheckMessage]:
    """An issuer that is not the site, so that clients refuse the metadata (RFC 8414, section 3.3)."""
    for key, value, safe in compared():
        if key == "OIDC_ISS_ENDPOINT" and value != safe:
            yield Error(
                _("OAUTH2_PROVIDER['OIDC_ISS_ENDPOINT'] is %(value)r, and DJANGO_MCP['BASE_URL'] says %(safe)r.")
                % {"value": value, "safe": safe},
                hint=_("Write OAUTH2_PROVIDER = oauth_defaults(DJANGO_MCP) after DJANGO_MCP; they must be the same."),
                id="django_mcp.E017",
            )


def compared() -> Iterator[tuple[str, Any, Any]]:
    """Key, the site's value and the safe one; nothing where other checks say that OAuth cannot work at all."""
    given = getattr(django_settings, "OAUTH2_PROVIDER", None)
    if not uses_oauth() or not apps.is_installed("oauth2_provider") or not given or not isinstance(given, Mapping):
        return
    from django_mcp.auth.toolkit import oauth2_settings  # noqa: PLC0415 - needs the app registry

    stock: Mapping[str, Any] = oauth2_settings.defaults
    safe = {key: stock[key] for key in RULES if key in stock}
    try:
        safe |= oauth_defaults(conf.given())
    except Exception:  # noqa: BLE001 - no BASE_URL, or scopes that are none: both are reported
        return
    for key, right in safe.items():
        yield key, given.get(key, stock.get(key)), right


ALWAYS = (
    check_redirects,
    check_ports,
    check_grace,
    check_toolkit_views,
    check_well_known,
    check_apps,
    check_reads,
    check_middleware,
    check_login,
    check_path,
    check_toolkit_settings,
    check_issuer,
)
DATABASE = (check_applications,)
