"""System checks of what nobody guards."""

from collections.abc import Iterator

from django.apps import apps
from django.core.checks import CheckMessage, Error, Warning  # noqa: A004
from django.utils.translation import gettext as _

from django_mcp.auth.checks import lets_everybody_in, lets_only_strangers_in
from django_mcp.core.policies import Decision
from django_mcp.core.server import MCPServer, servers
from django_mcp.policies.defaults import default_decision


def check_destruction() -> Iterator[CheckMessage]:
    """Tools with which anybody on the internet may destroy something, where nobody decided otherwise."""
    for server in servers():
        if lets_everybody_in(server) and (names := list(destructive(server))):
            yield Error(
                _("%(server)r lets everybody in, and runs destructive tools without asking: %(tools)s.")
                % {"server": server, "tools": ", ".join(names)},
                hint=_(
                    "Give it authentication=['django_mcp.OAuth'], or the tools a permission. With policy='ask' only "
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
                    "Let callers sign in there: authentication=['django_mcp.OAuth']; or write policy='allow' or "
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
