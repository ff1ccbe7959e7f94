"""What is more open than it may be meant to be."""

from collections.abc import Iterator
from typing import Any

from django.conf import settings as django_settings
from django.core.cache import caches
from django.core.cache.backends.dummy import DummyCache
from django.core.cache.backends.locmem import LocMemCache
from django.core.checks import CheckMessage, Warning  # noqa: A004
from django.core.exceptions import ImproperlyConfigured
from django.utils.translation import gettext as _

from django_mcp import conf
from django_mcp.auth.checks.base import lets_everybody_in, lets_only_strangers_in, made, uses_oauth
from django_mcp.auth.public import Public
from django_mcp.core.server import servers


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
        for exposed in server.exposed.values():
            if exposed.is_sound and not _is_for_anybody(exposed.resource):
                yield Warning(
                    _(
                        "%(resource)r exists for nobody: %(server)r lets everybody in without knowing who they "
                        "are, and it takes a permission to view the model."
                    )
                    % {"resource": exposed.resource, "server": server},
                    hint=_("Write view_permission = None if everybody may see its rows; else let users sign in there."),
                    obj=server,
                    id="django_mcp.W013",
                )


def _is_for_anybody(resource: Any) -> bool:
    from django.contrib.auth.models import AnonymousUser  # noqa: PLC0415 - needs the app registry

    try:
        return bool(resource.has_view_permission(AnonymousUser()))
    except Exception:  # noqa: BLE001 - a site's own code; its traceback comes with the first request
        return True


def check_public() -> Iterator[CheckMessage]:
    """Endpoints that let everybody in."""
    for server in servers():
        if any(isinstance(each, Public) for each in made(server)):
            tools = server.tools.values()
            writing = [each for each in tools if not each.annotations.get("readOnlyHint")]
            yield Warning(
                _("%(server)r lets everybody in and offers %(tools)s tools, %(writing)s of which are not read_only.")
                % {"server": server, "tools": len(tools), "writing": len(writing)},
                hint=_(
                    "Give it authentication=['django_mcp.OAuth'] unless all of it is for everybody; then say "
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
