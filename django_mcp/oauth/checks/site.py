"""What the rest of the site's settings must have for people to log in and agree."""

from collections.abc import Iterator
from typing import Any

from django.apps import apps
from django.conf import settings as django_settings
from django.core.checks import CheckMessage, Error, Warning  # noqa: A004
from django.db import router
from django.shortcuts import resolve_url
from django.urls import ResolverMatch, get_script_prefix, resolve
from django.utils.module_loading import import_string
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from django_mcp.auth.checks.base import made, uses_oauth
from django_mcp.auth.session import SiteSession
from django_mcp.conf import settings
from django_mcp.core.server import servers

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
    sessions = any(isinstance(each, SiteSession) for server in servers() for each in made(server))
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
    from django_mcp.oauth.toolkit import get_access_token_model, get_refresh_token_model  # noqa: PLC0415 - it needs them

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
