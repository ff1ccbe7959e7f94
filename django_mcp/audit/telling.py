"""The signal ``call_logged``."""

from functools import partial

from django_mcp.audit.facts import Facts
from django_mcp.core.concurrency import Runner, shared_pool
from django_mcp.core.server import MCPServer
from django_mcp.core.signals import call_logged
from django_mcp.models import ToolCall


def tell(runner: Runner, server: MCPServer, facts: Facts) -> None:
    """Send the signal, where somebody receives it. At the ASGI edge the caller does not wait for that."""
    if not call_logged.receivers:
        return
    send = partial(_send, server, facts)
    if runner.is_inline:
        send()
    else:
        shared_pool().begin(send)


def _send(server: MCPServer, facts: Facts) -> None:
    call_logged.send_robust(sender=server, call=ToolCall(**facts))
