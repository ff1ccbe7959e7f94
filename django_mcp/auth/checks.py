"""System checks of authentication: addresses, authentication classes, anonymous access and scopes.

No setting may make a check raise, which would hide the results of all others.
"""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from ipaddress import ip_address
from typing import Any
from urllib.parse import SplitResult, urlsplit

from django.conf import settings as django_settings
from django.core.cache import caches
from django.core.cache.backends.dummy import DummyCache
from django.core.cache.backends.locmem import LocMemCache
from django.core.checks import CheckMessage, Error, Warning  # noqa: A004
from django.core.exceptions import ImproperlyConfigured
from django.utils.functional import Promise
from django.utils.translation import gettext as _

from django_mcp import conf
from django_mcp.auth.base import AllowAny, BaseAuthentication, Misconfigured, authenticators, load_authenticators
from django_mcp.auth.jwt import JWTAuthentication, is_safe_address
from django_mcp.auth.oauth import OAuth2Authentication
from django_mcp.auth.protected_resource import canonical
from django_mcp.core.server import MCPServer, servers


def lets_everybody_in(server: MCPServer) -> bool:
    return any(isinstance(authenticator, AllowAny) for authenticator in authenticators(server))


def lets_only_strangers_in(server: MCPServer) -> bool:
    found = authenticators(server)
    return bool(found) and all(isinstance(authenticator, AllowAny) for authenticator in found)


def takes_oauth(server: MCPServer) -> bool:
    return any(isinstance(authenticator, OAuth2Authentication) for authenticator in authenticators(server))


def uses_oauth() -> bool:
    return any(takes_oauth(server) for server in servers())


def split(uri: Any) -> SplitResult | None:
    try:
        parts = urlsplit(uri)
        parts.port  # noqa: B018 - reading it is the test
    except (ValueError, TypeError, AttributeError):
        return None
    return parts if isinstance(uri, str) and not re.search(r"[\s\\\x00-\x1f\x7f]", uri) else None


def is_loopback(host: str | None) -> bool:
    """Return True for a loopback host (RFC 8252, section 7.3)."""
    try:
        return host == "localhost" or ip_address(host or "").is_loopback
    except ValueError:
        return False


def external_issuers(server: MCPServer) -> list[Any]:
    """Return issuers other than this site."""
    found: list[Any] = []
    for authenticator in authenticators(server):
        if isinstance(authenticator, BaseAuthentication) and not isinstance(authenticator, OAuth2Authentication):
            try:
                found += authenticator.authorization_servers(server)
            except Exception:  # noqa: BLE001, S112 - a site's class may raise anything; the first request shows it
                continue
    return found


def check_base_url() -> Iterator[CheckMessage]:
    """Check that ``BASE_URL`` is an https origin, and present where it is needed."""
    url = conf.settings.BASE_URL
    needing = next((server for server in servers() if takes_oauth(server) or external_issuers(server)), None)
    if url is None and needing is None:
        return
    if not url:
        yield Error(
            _("DJANGO_MCP['BASE_URL'] is missing, but %(needing)r accepts tokens.") % {"needing": needing}
            if needing
            else _("DJANGO_MCP['BASE_URL'] is empty."),
            hint=_("Write the site's public address: 'BASE_URL': 'https://travel.example.com'."),
            id="django_mcp.E010",
        )
    elif not is_origin(url):
        yield Error(
            _("DJANGO_MCP['BASE_URL'] is %(url)r, which is not an origin.") % {"url": url},
            hint=_(
                "Use scheme, host and any non-default port, in lower case and without a trailing slash: "
                "'https://travel.example.com'."
            ),
            id="django_mcp.E075",
        )
    elif url.startswith("http:") and not is_loopback(urlsplit(url).hostname):
        kind, number = (Warning, "django_mcp.W002") if django_settings.DEBUG else (Error, "django_mcp.E011")
        yield kind(
            _("DJANGO_MCP['BASE_URL'] is %(url)r: tokens and codes would be sent unencrypted.") % {"url": url},
            hint=_("Use 'https:%(rest)s' and serve the site over https. http is only for the local machine.")
            % {"rest": url[5:]},
            id=number,
        )


def is_origin(url: str) -> bool:
    """Return True for a canonical http or https origin."""
    try:
        return url.isascii() and re.fullmatch(r"https?://[^/?#*]+", url) is not None and canonical(url) == url
    except ValueError:
        return False


def check_issuers() -> Iterator[CheckMessage]:
    """Check that issuers use https, so that their keys cannot be replaced in transit."""
    for server in servers():
        for issuer in external_issuers(server):
            if not isinstance(issuer, str) or not is_safe_address(issuer):
                yield Error(
                    _("%(server)r accepts tokens of %(issuer)r, which is not an https URL.")
                    % {"server": server, "issuer": issuer},
                    hint=_(
                        "Use the exact issuer identifier, such as 'https://login.example.com/realms/staff'. Over "
                        "http its keys could be replaced in transit."
                    ),
                    obj=server,
                    id="django_mcp.E012",
                )


def check_address_header() -> Iterator[CheckMessage]:
    name = conf.settings.CLIENT_ADDRESS_HEADER
    if name is not None and not re.fullmatch(r"[A-Za-z0-9-]+", name):
        meant = name.removeprefix("HTTP_").replace("_", "-").title()
        yield Error(
            _("DJANGO_MCP['CLIENT_ADDRESS_HEADER'] is %(name)r, which is not a header name.") % {"name": name},
            hint=_("Use the name that the proxy sends: %(meant)r.") % {"meant": meant}
            if re.fullmatch(r"[A-Za-z0-9-]+", meant)
            else _("Use letters, digits and hyphens, such as 'X-Real-IP'."),
            id="django_mcp.E009",
        )


def check_authenticators() -> Iterator[CheckMessage]:
    """Check that authentication classes load and are subclasses of ``BaseAuthentication``."""
    for server in servers():
        try:
            load_authenticators(server)
        except Misconfigured as error:
            yield Error(
                _("An authentication class of %(server)r cannot be loaded: %(error)s")
                % {"server": server, "error": error},
                hint=error.hint
                or _(
                    "Use subclasses of django_mcp.BaseAuthentication, instances of them or dotted paths, such as "
                    "'django_mcp.OAuth2Authentication'."
                ),
                obj=server,
                id="django_mcp.E006",
            )


def check_order() -> Iterator[CheckMessage]:
    """Check for authentication classes an earlier one makes unreachable."""
    for server in servers():
        given = authenticators(server)
        for place, authenticator in enumerate(given):
            behind = [other for other in given[:place] if _answers_for(other, authenticator)]
            if behind:
                yield Error(
                    _("%(behind)s of %(server)r is never used: %(first)s is listed before it and decides first.")
                    % {"behind": type(authenticator).__name__, "server": server, "first": type(behind[0]).__name__},
                    hint=_("List %(first)s after it. Authentication classes are tried in order.")
                    % {"first": type(behind[0]).__name__},
                    obj=server,
                    id="django_mcp.E021",
                )


def check_sign_in() -> Iterator[CheckMessage]:
    """Check for endpoints whose clients never sign in with OAuth."""
    for server in servers():
        if takes_oauth(server) and lets_everybody_in(server):
            yield Warning(
                _(
                    "%(server)r allows anonymous access, so clients never sign in with OAuth. They only do so "
                    "when a request without a token is denied."
                )
                % {"server": server},
                hint=_(
                    "Create two endpoints: one with 'django_mcp.OAuth2Authentication', and one with "
                    "'django_mcp.AllowAny'."
                ),
                obj=server,
                id="django_mcp.W021",
            )


def _answers_for(first: object, second: object) -> bool:
    # OAuth2Authentication rejects tokens that it does not know.
    return isinstance(first, AllowAny) or (
        isinstance(first, OAuth2Authentication) and isinstance(second, JWTAuthentication)
    )


def check_keys_in_urls() -> Iterator[CheckMessage]:
    """Warn of API keys in URLs."""
    if conf.settings.API_KEYS_IN_URL:
        yield Warning(
            _(
                "DJANGO_MCP['API_KEYS_IN_URL'] is on: proxies, browsers and logs store URLs, including the keys in "
                "them."
            ),
            hint=_(
                "Remove it unless a client can only be configured with a URL. Give such keys few scopes and a "
                "short lifetime, and exclude the query from the proxy's log."
            ),
            id="django_mcp.W003",
        )


def check_models_nobody_may_view() -> Iterator[CheckMessage]:
    """Check for models that anonymous endpoints cannot show."""
    for server in servers():
        if not lets_only_strangers_in(server):
            continue
        for bound in server.model_resources.values():
            if bound.is_sound and not _is_for_anybody(bound.resource):
                yield Warning(
                    _(
                        "No caller can view %(resource)r: %(server)r only has anonymous access, and viewing the "
                        "model requires a permission."
                    )
                    % {"resource": bound.resource, "server": server},
                    hint=_("Set view_permission = None if its rows are public. Otherwise let users sign in there."),
                    obj=server,
                    id="django_mcp.W013",
                )


def _is_for_anybody(resource: Any) -> bool:
    # A site's method may decide per call.
    from django.contrib.auth.models import AnonymousUser  # noqa: PLC0415 - needs the app registry

    permission = resource.permission_for("view")
    return resource.checks_each_row or permission is None or AnonymousUser().has_perm(permission)


def check_public() -> Iterator[CheckMessage]:
    """Warn of anonymous access."""
    for server in servers():
        if any(isinstance(authenticator, AllowAny) for authenticator in authenticators(server)):
            tools = server.tools.values()
            writing = [tool for tool in tools if not tool.annotations.get("readOnlyHint")]
            yield Warning(
                _("%(server)r allows anonymous access to %(tools)s tools, %(writing)s of which are not read_only.")
                % {"server": server, "tools": len(tools), "writing": len(writing)},
                hint=_(
                    "Set authentication=['django_mcp.OAuth2Authentication'], or add this check to "
                    "SILENCED_SYSTEM_CHECKS if all of it is public."
                ),
                obj=server,
                id="django_mcp.W004",
            )


def check_open_forms() -> Iterator[CheckMessage]:
    """Warn of anonymous access to model forms without permission."""
    for server in servers():
        tools = server.tools.values() if lets_everybody_in(server) else ()
        if names := [tool.name for tool in tools if tool.waives_permission and not tool.is_guarded]:
            yield Warning(
                _(
                    "%(server)r allows anonymous access, and these model forms write rows without a permission: "
                    "%(tools)s."
                )
                % {"server": server, "tools": ", ".join(names)},
                hint=_(
                    "Remove permission=None to require the model's permission, or add this check to "
                    "SILENCED_SYSTEM_CHECKS if anyone may write."
                ),
                obj=server,
                id="django_mcp.W019",
            )


def check_hosts() -> Iterator[CheckMessage]:
    """Warn of ``ALLOWED_HOSTS = ["*"]``."""
    if "*" in django_settings.ALLOWED_HOSTS:
        yield Warning(
            _(
                "ALLOWED_HOSTS has '*': a web page of any domain that resolves to this server can send it requests "
                "(DNS rebinding)."
            ),
            hint=_("Use the site's host names: ALLOWED_HOSTS = ['travel.example.com']."),
            id="django_mcp.W005",
        )


def check_cache() -> Iterator[CheckMessage]:
    """Check that limits are counted in a shared cache."""
    limited = [*limits()]
    try:
        cache = caches["default"]
    except Exception:  # noqa: BLE001 - reported by Django's checks and at first use
        return
    if limited and isinstance(cache, LocMemCache | DummyCache):
        counts = _("counted per process") if isinstance(cache, LocMemCache) else _("not enforced")
        yield Warning(
            _("The default cache is %(cache)s, so these limits are %(counts)s: %(limited)s.")
            % {"cache": type(cache).__name__, "counts": counts, "limited": ", ".join(limited)},
            hint=_(
                "Use a shared cache: CACHES = {'default': {'BACKEND': 'django.core.cache.backends.redis.RedisCache', "
                "…}}."
            ),
            id="django_mcp.W006",
        )


def limits() -> Iterator[str]:
    if uses_oauth():
        yield _("registration of OAuth clients")
    for server in servers():
        try:
            rated = server.rate or any(tool.rate for tool in server.tools.values())
        except ImproperlyConfigured:  # reported by the check of the setting
            continue
        if rated:
            yield _("calls to %(server)r") % {"server": server}


TOKEN = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
"""A scope name: printable ASCII without space, quote and backslash (RFC 6749, section 3.3)."""


def check_declared() -> Iterator[CheckMessage]:
    """Check ``SCOPES``."""
    for name, value in conf.settings.SCOPES.items():
        for problem, hint in _problems(name, value):
            text = _("DJANGO_MCP['SCOPES'][%(name)r] %(problem)s.") % {"name": name, "problem": problem}
            yield Error(text, hint=hint, id="django_mcp.E008")


def _problems(name: Any, value: Any) -> Iterator[tuple[str, str]]:
    if not isinstance(name, str) or not TOKEN.fullmatch(name):
        yield (
            _("is not a scope name"),
            _("Use ASCII letters, digits and marks without space, quote or backslash: 'mcp:read'."),
        )
    right = _(
        "Describe what it lets a client do: 'Read your notes', or {'text': 'Read your notes', 'implies': ['mcp:list']}."
    )
    if not isinstance(value, Mapping):
        value = {"text": value}
    if not isinstance(value.get("text"), str | Promise) or not str(value["text"]).strip():
        yield _("has no description for the consent page"), right
    if strange := [key for key in value if key not in {"text", "implies"}]:
        yield (
            _("has the unknown key %(key)r") % {"key": strange[0]},
            _(
                "Describe what it lets a client do: 'Read your notes', or {'text': 'Read your notes', 'implies': "
                "['mcp:list']}. There are no other keys."
            ),
        )
    implied = value.get("implies", ())
    if not isinstance(implied, list | tuple | set | frozenset):
        yield _("implies %(implied)r, which is not a list") % {"implied": implied}, right
        return
    for scope in implied:
        if not _is_declared(scope):
            yield _("implies %(each)r, which is not declared") % {"each": scope}, _nearest(scope)


def check_needed() -> Iterator[CheckMessage]:
    """Check that required scopes are declared and so can be granted."""
    yield from _undeclared(_("DJANGO_MCP['DEFAULT_SCOPES'] has"), conf.settings.DEFAULT_SCOPES)
    for server in servers():
        try:
            own = sorted(server.scopes - set(conf.settings.DEFAULT_SCOPES), key=str)
        except TypeError:  # reported by check_declared
            continue
        yield from _undeclared(_("%(server)r needs") % {"server": server}, own, server)
        for registry in (server.tools, server.resources, server.templates, server.prompts):
            for primitive in registry.values():
                yield from _undeclared(
                    _("%(primitive)s on %(server)r needs") % {"primitive": primitive.label, "server": server},
                    sorted(primitive.scopes, key=str),
                )


def _undeclared(who: str, needed: Iterable[Any], server: MCPServer | None = None) -> Iterator[CheckMessage]:
    for name in needed:
        if not _is_declared(name):
            yield Error(
                _("%(who)s the scope %(name)r, which is not in DJANGO_MCP['SCOPES'].") % {"who": who, "name": name},
                hint=_nearest(name),
                obj=server,
                id="django_mcp.E007",
            )


def _is_declared(name: Any) -> bool:
    return isinstance(name, str) and name in conf.settings.SCOPES


def _nearest(name: Any) -> str:
    known = [scope for scope in conf.settings.SCOPES if isinstance(scope, str)]
    if close := difflib.get_close_matches(str(name), known, n=1):
        return _("Did you mean %(meant)r?") % {"meant": close[0]}
    return _("Add it: 'SCOPES': {%(name)r: 'What it lets a client do'}. Declared scopes: %(known)s.") % {
        "name": str(name),
        "known": ", ".join(known) or _("none"),
    }


ALWAYS = (
    check_base_url,
    check_issuers,
    check_address_header,
    check_authenticators,
    check_order,
    check_sign_in,
    check_keys_in_urls,
    check_models_nobody_may_view,
    check_declared,
    check_needed,
)
DEPLOY = (check_public, check_open_forms, check_hosts, check_cache)
