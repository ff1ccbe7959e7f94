"""System checks of what nobody guards."""

from collections.abc import Iterator

from django.core.checks import CheckMessage, Error
from django.utils.translation import gettext as _

from django_mcp.auth.checks.base import check, lets_everybody_in
from django_mcp.core.policies import Decision
from django_mcp.core.registry import MCPServer, servers
from django_mcp.policies.defaults import default_decision


@check(deploy=True)
def check_destruction() -> Iterator[CheckMessage]:
    """Tools with which anybody on the internet may destroy something, where nobody decided otherwise."""
    for server in servers():
        if lets_everybody_in(server) and (names := list(destructive(server))):
            yield Error(
                _("%(server)r lets everybody in, and runs destructive tools without asking: %(tools)s.")
                % {"server": server, "tools": ", ".join(names)},
                hint=_(
                    "Give it authentication=['django_mcp.OAuth'], or the tools policy='ask', or a permission. If "
                    "really everybody may, say so with SILENCED_SYSTEM_CHECKS."
                ),
                obj=server,
                id="django_mcp.E035",
            )


def destructive(server: MCPServer) -> Iterator[str]:
    """Tools that say they are, exist for everybody, and wait for nobody."""
    for tool in server.tools.values():
        hint = tool.definition.get("annotations", {}).get("destructiveHint")
        if hint and not tool.is_guarded and default_decision(tool) is Decision.ALLOW:
            yield tool.name
