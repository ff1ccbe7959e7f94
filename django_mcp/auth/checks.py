"""System checks of authentication: addresses, authenticators, openness and scopes.

A site's settings are input: a check that raises hides all others, so nothing in them may make one raise.
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
from django_mcp.auth.base import AllowAny, BaseAuthentication, authenticators
from django_mcp.auth.jwt import JWTAuthentication, is_safe_address
from django_mcp.auth.oauth import OAuth2Authentication
from django_mcp.auth.protected_resource import canonical
from django_mcp.core.server import MCPServer, servers


def made(server: MCPServer) -> tuple[Any, ...]:
    """An endpoint's authenticators; none where one of them cannot be made, which a check of its own reports."""
    try:
        return authenticators(server)
    except Exception:  # noqa: BLE001 - whatever a site's own class raises
        return ()


def lets_everybody_in(server: MCPServer) -> bool:
    """Whether nobody needs a credential there."""
    return any(isinstance(each, AllowAny) for each in made(server))


def lets_only_strangers_in(server: MCPServer) -> bool:
    """Return True if nobody can be recognised there, credential or not."""
    found = made(server)
    return bool(found) and all(isinstance(each, AllowAny) for each in found)


def takes_oauth(server: MCPServer) -> bool:
    """Whether it takes tokens of this site's authorization server."""
    return any(isinstance(each, OAuth2Authentication) for each in made(server))


def uses_oauth() -> bool:
    """Whether any endpoint does."""
    return any(takes_oauth(server) for server in servers())


def split(uri: Any) -> SplitResult | None:
    """The parts of a URI, with a port that is a number; None for what is none."""
    try:
        parts = urlsplit(uri)
        parts.port  # noqa: B018 - reading it is the test
    except (ValueError, TypeError, AttributeError):
        return None
    return parts if isinstance(uri, str) and not re.search(r"[\s\\\x00-\x1f\x7f]", uri) else None


def is_loopback(host: str | None) -> bool:
    """Whether a host is this machine (RFC 8252, section 7.3)."""
    try:
        return host == "localhost" or ip_address(host or "").is_loopback
    except ValueError:
        return False


def external_issuers(server: MCPServer) -> list[Any]:
    """Issuers of authorization servers that are not this site."""
    found: list[Any] = []
    for each in made(server):
        if isinstance(each, BaseAuthentication) and not isinstance(each, OAuth2Authentication):
            try:
                found += each.authorization_servers(server)
            except Exception:  # noqa: BLE001, S112 - a site's own class; its traceback comes with the first request
                continue
    return found


def check_base_url() -> Iterator[CheckMessage]:
    """A ``BASE_URL`` that is missing where identifiers are made from it, or is no origin."""
    url = conf.settings.BASE_URL
    needing = next((each for each in servers() if takes_oauth(each) or external_issuers(each)), None)
    if url is None and needing is None:
        return
    if not url:
        yield Error(
            _("DJANGO_MCP['BASE_URL'] is missing, and %(needing)r takes tokens.") % {"needing": needing}
            if needing
            else _("BASE_URL is empty."),
            hint=_("Write the site's public address: 'BASE_URL': 'https://travel.example.com'."),
            id="django_mcp.E010",
        )
    elif not is_origin(url):
        yield Error(
            _("DJANGO_MCP['BASE_URL'] is %(url)r, which is no origin.") % {"url": url},
            hint=_(
                "Write scheme, host and, where it is not the usual one, port, in lower case, and nothing "
                "after it, not even a slash: 'https://travel.example.com'."
            ),
            id="django_mcp.E010",
        )
    elif url.startswith("http:") and not is_loopback(urlsplit(url).hostname):
        kind, number = (Warning, "django_mcp.W002") if django_settings.DEBUG else (Error, "django_mcp.E011")
        yield kind(
            _("DJANGO_MCP['BASE_URL'] is %(url)r: tokens and codes would travel without encryption.") % {"url": url},
            hint=_("Write 'https:%(rest)s' and serve the site over https; http is for this machine alone.")
            % {"rest": url[5:]},
            id=number,
        )


def is_origin(url: str) -> bool:
    """Whether it is an http or https origin, written as clients write it."""
    try:
        return url.isascii() and re.fullmatch(r"https?://[^/?#*]+", url) is not None and canonical(url) == url
    except ValueError:
        return False


def check_issuers() -> Iterator[CheckMessage]:
    """Authorization servers elsewhere whose keys anybody on the way could replace."""
    for server in servers():
        for issuer in external_issuers(server):
            if not isinstance(issuer, str) or not is_safe_address(issuer):
                yield Error(
                    _("%(server)r takes tokens of %(issuer)r, which is no https URL.")
                    % {"server": server, "issuer": issuer},
                    hint=_(
                        "Write the issuer as it calls itself, like 'https://login.example.com/realms/staff'; over"
                        " http anybody on the way can replace its keys."
                    ),
                    obj=server,
                    id="django_mcp.E012",
                )


def check_address_header() -> Iterator[CheckMessage]:
    """A header's name that no request can have."""
    name = conf.settings.CLIENT_ADDRESS_HEADER
    if name is not None and not re.fullmatch(r"[A-Za-z0-9-]+", name):
        meant = name.removeprefix("HTTP_").replace("_", "-").title()
        yield Error(
            _("DJANGO_MCP['CLIENT_ADDRESS_HEADER'] is %(name)r, which is no header's name.") % {"name": name},
            hint=_("Write it as the proxy sends it: %(meant)r.") % {"meant": meant}
            if re.fullmatch(r"[A-Za-z0-9-]+", meant)
            else _("Write letters, digits and hyphens: 'X-Real-IP'."),
            id="django_mcp.E009",
        )


def check_authenticators() -> Iterator[CheckMessage]:
    """Authenticators that cannot be made, or are none."""
    for server in servers():
        try:
            wrong = [each for each in authenticators(server) if not isinstance(each, BaseAuthentication)]
        except Exception as error:  # noqa: BLE001 - whatever a site's own class raises
            yield Error(
                _("An authenticator of %(server)r cannot be made: %(error)s") % {"server": server, "error": error},
                hint=_(
                    "Write objects, classes or dotted paths of django_mcp.BaseAuthentication, "
                    "like 'django_mcp.OAuth2Authentication'."
                ),
                obj=server,
                id="django_mcp.E006",
            )
            continue
        for each in wrong:
            yield Error(
                _("%(each)r among the authenticators of %(server)r is none.") % {"each": each, "server": server},
                hint=_("Make its class a subclass of django_mcp.BaseAuthentication."),
                obj=server,
                id="django_mcp.E006",
            )


def check_order() -> Iterator[CheckMessage]:
    """Authenticators that are never asked, for one before them has an answer to everything."""
    for server in servers():
        given = made(server)
        for place, each in enumerate(given):
            behind = [other for other in given[:place] if _answers_for(other, each)]
            if behind:
                yield Error(
                    _("%(behind)s of %(server)r is never asked: %(first)s stands before it and answers first.")
                    % {"behind": type(each).__name__, "server": server, "first": type(behind[0]).__name__},
                    hint=_("Put %(first)s behind it: they are asked in order.") % {"first": type(behind[0]).__name__},
                    obj=server,
                    id="django_mcp.E021",
                )


def check_sign_in() -> Iterator[CheckMessage]:
    """Endpoints that take OAuth tokens and ask nobody for one."""
    for server in servers():
        if takes_oauth(server) and lets_everybody_in(server):
            yield Warning(
                _(
                    "%(server)r lets everybody in, so no client is ever asked to sign in with OAuth: clients do that "
                    "only when a request without a token is refused."
                )
                % {"server": server},
                hint=_(
                    "Make two endpoints: one with 'django_mcp.OAuth2Authentication', and one "
                    "with 'django_mcp.AllowAny'."
                ),
                obj=server,
                id="django_mcp.W021",
            )


def _answers_for(first: object, second: object) -> bool:
    """Return True if *first* leaves nothing for *second*: ``AllowAny`` takes all, OAuth denies unknown tokens."""
    return isinstance(first, AllowAny) or (
        isinstance(first, OAuth2Authentication) and isinstance(second, JWTAuthentication)
    )


def check_keys_in_urls() -> Iterator[CheckMessage]:
    """API keys in addresses."""
    if conf.settings.API_KEYS_IN_URL:
        yield Warning(
            _("DJANGO_MCP['API_KEYS_IN_URL'] is on: proxies, browsers and logs keep addresses, and the keys in them."),
            hint=_(
                "Remove it unless a client can be given nothing but a URL; give such keys few scopes and "
                "a short life, and keep the query out of the proxy's log."
            ),
            id="django_mcp.W003",
        )


def check_models_nobody_may_view() -> Iterator[CheckMessage]:
    """Models that take a permission where nobody is signed in."""
    for server in servers():
        if not lets_only_strangers_in(server):
            continue
        for bound in server.model_resources.values():
            if bound.is_sound and not _is_for_anybody(bound.resource):
                yield Warning(
                    _(
                        "%(resource)r exists for nobody: %(server)r lets everybody in without knowing who they "
                        "are, and it takes a permission to view the model."
                    )
                    % {"resource": bound.resource, "server": server},
                    hint=_("Write view_permission = None if everybody may see its rows; else let users sign in there."),
                    obj=server,
                    id="django_mcp.W013",
                )


def _is_for_anybody(resource: Any) -> bool:
    """Return True unless it takes a permission that an anonymous user lacks; a site's own method needs a call."""
    from django.contrib.auth.models import AnonymousUser  # noqa: PLC0415 - needs the app registry

    permission = resource.permission_for("view")
    return resource.checks_each_row or permission is None or AnonymousUser().has_perm(permission)


def check_public() -> Iterator[CheckMessage]:
    """Endpoints that let everybody in."""
    for server in servers():
        if any(isinstance(each, AllowAny) for each in made(server)):
            tools = server.tools.values()
            writing = [each for each in tools if not each.annotations.get("readOnlyHint")]
            yield Warning(
                _("%(server)r lets everybody in and offers %(tools)s tools, %(writing)s of which are not read_only.")
                % {"server": server, "tools": len(tools), "writing": len(writing)},
                hint=_(
                    "Give it authentication=['django_mcp.OAuth2Authentication'] unless all of it is "
                    "for everybody; then say "
                    "so with SILENCED_SYSTEM_CHECKS."
                ),
                obj=server,
                id="django_mcp.W004",
            )


def check_open_forms() -> Iterator[CheckMessage]:
    """Forms of models through which anybody on the internet may write rows."""
    for server in servers():
        tools = server.tools.values() if lets_everybody_in(server) else ()
        if names := [tool.name for tool in tools if tool.waives_permission and not tool.is_guarded]:
            yield Warning(
                _("%(server)r lets everybody in, and anybody may write rows through forms of models: %(tools)s.")
                % {"server": server, "tools": ", ".join(names)},
                hint=_(
                    "Remove permission=None, so that they take the model's permission. If really everybody may, say so "
                    "with SILENCED_SYSTEM_CHECKS."
                ),
                obj=server,
                id="django_mcp.W019",
            )


def check_hosts() -> Iterator[CheckMessage]:
    """A site that answers to every name."""
    if "*" in django_settings.ALLOWED_HOSTS:
        yield Warning(
            _("ALLOWED_HOSTS has '*': a page under any name that is pointed at this server can send it requests."),
            hint=_("Write the site's own names: ALLOWED_HOSTS = ['travel.example.com']."),
            id="django_mcp.W005",
        )


def check_cache() -> Iterator[CheckMessage]:
    """Limits that are counted by each process for itself, or by none."""
    limited = [*limits()]
    try:
        cache = caches["default"]
    except Exception:  # noqa: BLE001 - Django's own checks and the first use say what is wrong with it
        return
    if limited and isinstance(cache, LocMemCache | DummyCache):
        counts = _("by each process for itself") if isinstance(cache, LocMemCache) else _("by nobody")
        yield Warning(
            _("The default cache is %(cache)s, so limits are counted %(counts)s: %(limited)s.")
            % {"cache": type(cache).__name__, "counts": counts, "limited": ", ".join(limited)},
            hint=_("Share one: CACHES = {'default': {'BACKEND': 'django.core.cache.backends.redis.RedisCache', …}}."),
            id="django_mcp.W006",
        )


def limits() -> Iterator[str]:
    """What is counted in the cache, in words."""
    if uses_oauth():
        yield _("registration of OAuth clients")
    for server in servers():
        try:
            rated = server.rate or any(tool.rate for tool in server.tools.values())
        except ImproperlyConfigured:  # reported as the setting's own fault
            continue
        if rated:
            yield _("calls of %(server)r") % {"server": server}


TOKEN = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
"""A scope's name: printable ASCII without space, quote and backslash (RFC 6749, section 3.3)."""


def check_declared() -> Iterator[CheckMessage]:
    """Entries of ``SCOPES`` that are no scopes."""
    for name, value in conf.settings.SCOPES.items():
        for problem, hint in _problems(name, value):
            text = _("DJANGO_MCP['SCOPES'][%(name)r] %(problem)s.") % {"name": name, "problem": problem}
            yield Error(text, hint=hint, id="django_mcp.E008")


def _problems(name: Any, value: Any) -> Iterator[tuple[str, str]]:
    """What is wrong with an entry, and what to write."""
    if not isinstance(name, str) or not TOKEN.fullmatch(name):
        yield (
            _("is no scope's name"),
            _("Use ASCII letters, digits and marks without space, quote or backslash: 'mcp:read'."),
        )
    right = _(
        "Write what it lets a client do: 'Read your notes', or {'text': 'Read your notes', 'implies': ['mcp:list']}."
    )
    if not isinstance(value, Mapping):
        value = {"text": value}
    if not isinstance(value.get("text"), str | Promise) or not str(value["text"]).strip():
        yield _("says nothing for the person who is asked to agree"), right
    if strange := [key for key in value if key not in {"text", "implies"}]:
        yield (
            _("has a key %(key)r that nobody reads") % {"key": strange[0]},
            _(
                "Write what it lets a client do: 'Read your notes', or {'text': 'Read your notes', 'implies': "
                "['mcp:list']}; there are no other keys."
            ),
        )
    implied = value.get("implies", ())
    if not isinstance(implied, list | tuple | set | frozenset):
        yield _("implies %(implied)r, which is no list") % {"implied": implied}, right
        return
    for each in implied:
        if not _is_declared(each):
            yield _("implies %(each)r, which is not declared") % {"each": each}, _nearest(each)


def check_needed() -> Iterator[CheckMessage]:
    """Scopes that are needed somewhere, and which no client can be given, for they are not declared."""
    yield from _undeclared(_("DJANGO_MCP['DEFAULT_SCOPES'] has"), conf.settings.DEFAULT_SCOPES)
    for server in servers():
        try:
            own = sorted(server.scopes - set(conf.settings.DEFAULT_SCOPES), key=str)
        except TypeError:  # not all of them can be scopes, which is reported above for the setting
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
    """Which scope was probably meant."""
    known = [each for each in conf.settings.SCOPES if isinstance(each, str)]
    if close := difflib.get_close_matches(str(name), known, n=1):
        return _("Did you mean %(meant)r?") % {"meant": close[0]}
    return _("Add it: 'SCOPES': {%(name)r: 'What it lets a client do'}. There are: %(known)s.") % {
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
