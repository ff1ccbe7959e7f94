"""System checks of approvals: notices, webhooks, the admin, and destructive tools without approval."""

import warnings
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import SplitResult, urlsplit

from django.apps import apps
from django.conf import settings as django_settings
from django.contrib.auth import get_backends, get_user_model
from django.core.checks import CheckMessage, Error, Warning  # noqa: A004 - Django's name
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.urls import get_resolver
from django.utils.translation import gettext as _

from django_mcp import conf
from django_mcp.approvals.notices import APPROVERS, key_of
from django_mcp.approvals.receivers import is_wanted
from django_mcp.approvals.tool_policies import default_decision
from django_mcp.auth.api_keys import APIKeyAuthentication
from django_mcp.auth.base import authenticators
from django_mcp.auth.checks import is_loopback, lets_everybody_in, lets_only_strangers_in
from django_mcp.auth.session import SessionAuthentication
from django_mcp.core.policies import Decision
from django_mcp.core.server import MCPServer, servers
from django_mcp.primitives.tool import Tool

TO_NOBODY = ("console", "dummy", "filebased", "locmem")
"""Django's mail backends that deliver nothing."""


def check_webhook() -> Iterator[CheckMessage]:
    """Check that the webhook has a valid URL and a usable signing secret."""
    url, secret = conf.settings.APPROVAL_WEBHOOK, conf.settings.APPROVAL_WEBHOOK_SECRET
    if url is None:
        return
    if _parts(url) is None:
        yield Error(
            _("DJANGO_MCP['APPROVAL_WEBHOOK'] is %(url)r, which is not a valid http or https URL.") % {"url": url},
            hint=_("Set a URL with a host and without user information: 'https://hooks.example.com/approvals'."),
            id="django_mcp.E031",
        )
    if not secret or not _is_usable(secret):
        yield Error(
            _("DJANGO_MCP['APPROVAL_WEBHOOK_SECRET'] is not valid Base64 after 'whsec_'.")
            if secret
            else _("DJANGO_MCP['APPROVAL_WEBHOOK_SECRET'] is missing."),
            hint=_(
                'Set a secret shared with the receiver. To generate one: python -c "import base64, secrets; '
                "print('whsec_' + base64.b64encode(secrets.token_bytes(32)).decode())\""
            ),
            id="django_mcp.E032",
        )


def check_addresses() -> Iterator[CheckMessage]:
    """Check the addresses of ``APPROVAL_EMAILS``."""
    for address in conf.settings.APPROVAL_EMAILS:
        if address != APPROVERS and not _is_address(address):
            yield Error(
                _("%(each)r in DJANGO_MCP['APPROVAL_EMAILS'] is not a valid e-mail address.") % {"each": address},
                hint=_("List bare addresses without display names, or 'approvers' for all users who may approve."),
                id="django_mcp.E033",
            )
    if APPROVERS in conf.settings.APPROVAL_EMAILS and not _can_tell():
        yield Error(
            _(
                "DJANGO_MCP['APPROVAL_EMAILS'] contains 'approvers', but no backend in AUTHENTICATION_BACKENDS"
                " can list the users with a permission."
            ),
            hint=_("Use a backend with a with_perm() method, such as ModelBackend, or list addresses."),
            id="django_mcp.E034",
        )


def check_page() -> Iterator[CheckMessage]:
    """Check that notices can link to the page of the decision."""
    if is_wanted() and not conf.settings.BASE_URL:
        yield Warning(
            _("DJANGO_MCP['BASE_URL'] is missing, so approval notices cannot link to the approval page."),
            hint=_("Write the site's public address: 'BASE_URL': 'https://travel.example.com'."),
            id="django_mcp.W016",
        )


def check_transport() -> Iterator[CheckMessage]:
    """Check that the webhook uses TLS and that the mail backend delivers."""
    parts = _parts(conf.settings.APPROVAL_WEBHOOK or "")
    if parts is not None and parts.scheme == "http" and not is_loopback(parts.hostname):
        yield Warning(
            _("DJANGO_MCP['APPROVAL_WEBHOOK'] uses http, so call arguments are sent unencrypted."),
            hint=_("Use https. Plain http is accepted only for loopback addresses."),
            id="django_mcp.W017",
        )
    if conf.settings.APPROVAL_EMAILS:
        setting, backend = _mail_backend()
        if backend in {f"django.core.mail.backends.{name}.EmailBackend" for name in TO_NOBODY}:
            yield Warning(
                _("DJANGO_MCP['APPROVAL_EMAILS'] is set, but %(setting)s is %(backend)r, which delivers no mail.")
                % {"setting": setting, "backend": backend},
                hint=_("Use a backend that delivers e-mail."),
                id="django_mcp.W018",
            )


def _mail_backend() -> tuple[str, str]:
    mailers = getattr(django_settings, "MAILERS", None)
    if mailers is not None:  # since Django 6.1
        return "MAILERS['default']", str(mailers.get("default", {}).get("BACKEND", ""))
    with warnings.catch_warnings():
        # EMAIL_BACKEND is deprecated since 6.1; Django itself warns the site.
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        return "EMAIL_BACKEND", str(getattr(django_settings, "EMAIL_BACKEND", ""))


def _parts(url: str) -> SplitResult | None:
    """Return the parts of a URL, or None if it cannot be posted to."""
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0 and parts.username is None
    except ValueError:
        return None
    return parts if is_good and url.isascii() and url.isprintable() and " " not in url else None


def _is_usable(secret: str) -> bool:
    try:
        return bool(key_of(secret))
    except ValueError:
        return False


def _is_address(address: Any) -> bool:
    try:
        validate_email(address)
    except (ValidationError, TypeError):
        return False
    return True


def _can_tell() -> bool:
    try:
        return any(hasattr(backend, "with_perm") for backend in get_backends())
    except Exception:  # noqa: BLE001 - a backend that cannot be made is found at the first login
        return True


def check_destruction() -> Iterator[CheckMessage]:
    """Find destructive tools that anonymous callers may run without approval."""
    for server in servers():
        if lets_everybody_in(server) and (names := list(destructive(server))):
            yield Error(
                _("%(server)r accepts anonymous requests and runs destructive tools without approval: %(tools)s.")
                % {"server": server, "tools": ", ".join(names)},
                hint=_(
                    "Set authentication=['django_mcp.OAuth2Authentication'], or require a permission for the tools. "
                    "policy='ask' is not enough: only calls of authenticated callers can be approved. If anonymous "
                    "callers may run them, add django_mcp.E035 to SILENCED_SYSTEM_CHECKS."
                ),
                obj=server,
                id="django_mcp.E035",
            )


def check_approvals() -> Iterator[CheckMessage]:
    """Find tools that require approval at endpoints without authentication, where no call can be approved."""
    for server in servers():
        if lets_only_strangers_in(server) and (names := list(_asking(server))):
            yield Warning(
                _(
                    "%(server)r accepts only anonymous requests, and only calls of authenticated callers can be "
                    "approved, so these tools never run: %(tools)s."
                )
                % {"server": server, "tools": ", ".join(names)},
                hint=_(
                    "Set authentication=['django_mcp.OAuth2Authentication'], or policy='allow' or policy='block' on "
                    "the tools."
                ),
                obj=server,
                id="django_mcp.W020",
            )


def check_admin() -> Iterator[CheckMessage]:
    """Find tools that require approval on a site without the admin, or with one that no user can open."""
    is_installed = apps.is_installed("django.contrib.admin")
    if is_installed and not asks_for_staff():
        return
    if conf.settings.APPROVALS_APP and not is_installed:
        yield Error(
            _("DJANGO_MCP['APPROVALS_APP'] has no effect without the admin."),
            hint=_("Add 'django.contrib.admin' to INSTALLED_APPS, or remove the setting."),
            id="django_mcp.E036",
        )
    for server in servers():
        names = [tool.name for tool in server.tools.values() if default_decision(tool) is Decision.ASK]
        if names and is_installed:
            yield Warning(
                _(
                    "Calls are approved in the admin, which asks for is_staff, and %(model)s has no such attribute, so "
                    "these tools of %(server)r never run: %(tools)s."
                )
                % {"model": get_user_model()._meta.label, "tools": ", ".join(names), "server": server},  # noqa: SLF001
                hint=_(
                    "Say in the URLconf who may open the admin: admin.site.has_permission = lambda request: "
                    "request.user.is_active and request.user.is_superuser."
                ),
                obj=server,
                id="django_mcp.W064",
            )
        elif names:
            yield Warning(
                _(
                    "Calls are approved in the admin, which is not installed, so these tools of %(server)r never run: "
                    "%(tools)s."
                )
                % {"tools": ", ".join(names), "server": server},
                hint=_(
                    "Add 'django.contrib.admin' to INSTALLED_APPS and its URLs to the URLconf, or set policy='allow' "
                    "or policy='block' on the tools."
                ),
                obj=server,
                id="django_mcp.W022",
            )


def asks_for_staff() -> bool:
    from django.contrib import admin  # noqa: PLC0415 - not installed on every site

    with suppress(Exception):  # Django's own check reports a broken URLconf
        _ = get_resolver().url_patterns  # the URLconf may set has_permission, and checks may run before it is imported
    # The default reads is_staff, which the site's users may lack: its pages fail then.
    is_default = getattr(admin.site.has_permission, "__func__", None) is admin.AdminSite.has_permission
    return is_default and not hasattr(get_user_model(), "is_staff")


def _asking(server: MCPServer) -> Iterator[str]:
    for tool in server.tools.values():
        if not tool.is_guarded and default_decision(tool) is Decision.ASK:
            yield tool.name


def destructive(server: MCPServer) -> Iterator[str]:
    """Yield the names of destructive tools that require neither a permission nor an approval."""
    for tool in server.tools.values():
        hint = tool.annotations.get("destructiveHint")
        if hint and not tool.is_guarded and default_decision(tool) is Decision.ALLOW:
            yield tool.name


VERBS = frozenset({"delete", "destroy", "empty", "erase", "purge", "remove", "truncate", "wipe"})


def check_verbs() -> Iterator[CheckMessage]:
    """Report tools of requests that seem to destroy something by POST, which says nothing about it."""
    if conf.settings.REQUIRE_APPROVAL_FOR != "destructive":
        return
    for server in servers():
        for tool in server.tools.values():
            says_nothing = tool.annotations.get("readOnlyHint") is False and "destructiveHint" not in tool.annotations
            if says_nothing and tool.policy is None and (found := _verbs(tool)):
                yield Warning(
                    _("%(tool)s runs without approval, and may destroy something: %(words)s.")
                    % {"tool": tool.label, "words": ", ".join(sorted(found))},
                    hint=_("Set destructive=True or policy='ask'; or destructive=False if it destroys nothing."),
                    obj=server,
                    id="django_mcp.W063",
                )


def _verbs(tool: Tool) -> set[str]:
    found = VERBS.intersection(tool.name.lower().split("_"))
    if tool.find_failure() is None:
        for name, schema in tool.definition["inputSchema"].get("properties", {}).items():
            values = {word for value in schema.get("enum", ()) for word in str(value).lower().split("_")}
            found |= {f"{name}={verb}" for verb in VERBS & values}
    return set(found)


def check_requesters() -> Iterator[CheckMessage]:
    """Report requesters who decide their own calls, although no sign-in connects their clients to them."""
    for server in servers():
        kinds = [type(authenticator) for authenticator in authenticators(server)]
        names = [
            tool.name for tool in server.tools.values() if tool.self_approval and default_decision(tool) is Decision.ASK
        ]
        if names and kinds and all(issubclass(kind, APIKeyAuthentication | SessionAuthentication) for kind in kinds):
            yield Warning(
                _(
                    "%(server)r accepts %(kinds)s only, and callers of %(count)s tools decide their own calls "
                    "(approval='self'): a key is passed on, and with a browser's cookie a client can decide itself."
                )
                % {
                    "server": server,
                    "kinds": ", ".join(sorted({kind.__name__ for kind in kinds})),
                    "count": len(names),
                },
                hint=_(
                    "Let clients sign in with 'django_mcp.OAuth2Authentication'; or admin_tools(approval='other'), or "
                    "write=False."
                ),
                obj=server,
                id="django_mcp.W067",
            )


ALWAYS = (check_webhook, check_addresses, check_page, check_approvals, check_admin, check_verbs)
DEPLOY = (check_transport, check_destruction, check_requesters)
