"""System checks of approvals: who is notified, and what nobody guards."""

import warnings
from collections.abc import Iterator
from typing import Any
from urllib.parse import SplitResult, urlsplit

from django.apps import apps
from django.conf import settings as django_settings
from django.contrib.auth import get_backends
from django.core.checks import CheckMessage, Error, Warning  # noqa: A004 - Django's name
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.utils.translation import gettext as _

from django_mcp import conf
from django_mcp.approvals.notices import APPROVERS, key_of
from django_mcp.approvals.receivers import is_wanted
from django_mcp.approvals.tool_policies import default_decision
from django_mcp.auth.checks import is_loopback, lets_everybody_in, lets_only_strangers_in
from django_mcp.core.policies import Decision
from django_mcp.core.server import MCPServer, servers

TO_NOBODY = ("console", "dummy", "filebased", "locmem")
"""Mail backends of Django that send nothing."""


def check_webhook() -> Iterator[CheckMessage]:
    """A webhook that cannot be sent, or that nobody could tell from a forged one."""
    url, secret = conf.settings.APPROVAL_WEBHOOK, conf.settings.APPROVAL_WEBHOOK_SECRET
    if url is None:
        return
    if _parts(url) is None:
        yield Error(
            _("DJANGO_MCP['APPROVAL_WEBHOOK'] is %(url)r, which is no http or https URL of a host.") % {"url": url},
            hint=_("Write it without user information: 'https://hooks.example.com/approvals'."),
            id="django_mcp.E031",
        )
    if not secret or not _is_usable(secret):
        yield Error(
            _("DJANGO_MCP['APPROVAL_WEBHOOK_SECRET'] is no Base64 behind whsec_.")
            if secret
            else _("DJANGO_MCP['APPROVAL_WEBHOOK_SECRET'] is missing."),
            hint=_(
                "Write one that the receiver knows too; python -c \"import base64, secrets; print('whsec_'"
                ' + base64.b64encode(secrets.token_bytes(32)).decode())" makes one.'
            ),
            id="django_mcp.E032",
        )


def check_addresses() -> Iterator[CheckMessage]:
    """Addresses that are none."""
    for each in conf.settings.APPROVAL_EMAILS:
        if each != APPROVERS and not _is_address(each):
            yield Error(
                _("%(each)r in DJANGO_MCP['APPROVAL_EMAILS'] is no e-mail address.") % {"each": each},
                hint=_("Write addresses without names, and 'approvers' for all who may decide."),
                id="django_mcp.E033",
            )
    if APPROVERS in conf.settings.APPROVAL_EMAILS and not _can_tell():
        yield Error(
            _(
                "DJANGO_MCP['APPROVAL_EMAILS'] has 'approvers', and no backend of AUTHENTICATION_BACKENDS"
                " can say who holds a permission."
            ),
            hint=_("Give one of them the method with_perm, as ModelBackend has it, or name addresses."),
            id="django_mcp.E034",
        )


def check_page() -> Iterator[CheckMessage]:
    """Notices that cannot say where the decision is made."""
    if is_wanted() and not conf.settings.BASE_URL:
        yield Warning(
            _("Notices of calls that wait for approval have no address of the page where they are decided."),
            hint=_("Write the site's public address: 'BASE_URL': 'https://travel.example.com'."),
            id="django_mcp.W016",
        )


def check_transport() -> Iterator[CheckMessage]:
    """Notices that others could read on their way, or that nobody reads."""
    parts = _parts(conf.settings.APPROVAL_WEBHOOK or "")
    if parts is not None and parts.scheme == "http" and not is_loopback(parts.hostname):
        yield Warning(
            _("DJANGO_MCP['APPROVAL_WEBHOOK'] is http: arguments of calls travel without encryption."),
            hint=_("Use https; http is for this machine alone."),
            id="django_mcp.W017",
        )
    if conf.settings.APPROVAL_EMAILS:
        setting, backend = _mail_backend()
        if backend in {f"django.core.mail.backends.{each}.EmailBackend" for each in TO_NOBODY}:
            yield Warning(
                _("DJANGO_MCP['APPROVAL_EMAILS'] names addresses, and %(setting)s is %(backend)r, which sends nothing.")
                % {"setting": setting, "backend": backend},
                hint=_("Use a backend that sends e-mail."),
                id="django_mcp.W018",
            )


def _mail_backend() -> tuple[str, str]:
    """The setting by which mail is sent, and what it says."""
    mailers = getattr(django_settings, "MAILERS", None)
    if mailers is not None:  # since Django 6.1
        return "MAILERS['default']", str(mailers.get("default", {}).get("BACKEND", ""))
    with warnings.catch_warnings():
        # From then on it is deprecated, which is for Django to say to the site.
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        return "EMAIL_BACKEND", str(getattr(django_settings, "EMAIL_BACKEND", ""))


def _parts(url: str) -> SplitResult | None:
    """The parts of a URL that can be posted to."""
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
    """Whether anybody can say who holds a permission."""
    try:
        return any(hasattr(each, "with_perm") for each in get_backends())
    except Exception:  # noqa: BLE001 - a backend that cannot be made is found at the first login
        return True


def check_destruction() -> Iterator[CheckMessage]:
    """Tools with which anybody on the internet may destroy something, where nobody decided otherwise."""
    for server in servers():
        if lets_everybody_in(server) and (names := list(destructive(server))):
            yield Error(
                _("%(server)r lets everybody in, and runs destructive tools without asking: %(tools)s.")
                % {"server": server, "tools": ", ".join(names)},
                hint=_(
                    "Give it authentication=['django_mcp.OAuth2Authentication'], or the tools a permission. "
                    "With policy='ask' only "
                    "callers who signed in can have them approved. If really everybody may, say so with "
                    "SILENCED_SYSTEM_CHECKS."
                ),
                obj=server,
                id="django_mcp.E035",
            )


def check_approvals() -> Iterator[CheckMessage]:
    """Find tools whose calls need approval at endpoints where nobody signs in: those calls cannot be approved."""
    for server in servers():
        if lets_only_strangers_in(server) and (names := list(_asking(server))):
            yield Warning(
                _(
                    "%(server)r lets everybody in without knowing who they are, and a call can be approved only for a "
                    "caller who is signed in, so these tools never run: %(tools)s."
                )
                % {"server": server, "tools": ", ".join(names)},
                hint=_(
                    "Let callers sign in there: authentication=['django_mcp.OAuth2Authentication']; or "
                    "write policy='allow' or "
                    "policy='block'."
                ),
                obj=server,
                id="django_mcp.W020",
            )


def check_admin() -> Iterator[CheckMessage]:
    """Tools that ask for an approval where there is no page on which it could be given."""
    if apps.is_installed("django.contrib.admin"):
        return
    for server in servers():
        names = [tool.name for tool in server.tools.values() if default_decision(tool) is Decision.ASK]
        if names:
            yield Warning(
                _(
                    "Calls are approved in the admin, which is not installed, so these tools of %(server)r never run: "
                    "%(tools)s."
                )
                % {"tools": ", ".join(names), "server": server},
                hint=_(
                    "Add 'django.contrib.admin' to INSTALLED_APPS and its URLs to the URLconf; or write policy='allow' "
                    "or policy='block'."
                ),
                obj=server,
                id="django_mcp.W022",
            )


def _asking(server: MCPServer) -> Iterator[str]:
    for tool in server.tools.values():
        if not tool.is_guarded and default_decision(tool) is Decision.ASK:
            yield tool.name


def destructive(server: MCPServer) -> Iterator[str]:
    """Tools that say they are, exist for everybody, and wait for nobody."""
    for tool in server.tools.values():
        hint = tool.annotations.get("destructiveHint")
        if hint and not tool.is_guarded and default_decision(tool) is Decision.ALLOW:
            yield tool.name


ALWAYS = (check_webhook, check_addresses, check_page, check_approvals, check_admin)
DEPLOY = (check_transport, check_destruction)
