"""Signal receivers and hooks that connect approvals and notices to the rest of the package. Imports are lazy."""

from typing import Any

from django.core.signals import request_started

from django_mcp.conf import settings
from django_mcp.core import dispatch
from django_mcp.protocol.jsonrpc import Result


def is_wanted() -> bool:
    """Return True if the settings name recipients of notices."""
    return bool(settings.APPROVAL_EMAILS or settings.APPROVAL_WEBHOOK)


def connect() -> None:
    """Connect to the first request."""
    request_started.connect(_serves, dispatch_uid="django_mcp.approvals")


def start() -> None:
    """Install the approval gate."""
    dispatch.approval_gate = _admit


async def _admit(*given: Any) -> Result | None:
    from django_mcp.approvals.gate import admit  # noqa: PLC0415 - most calls need no approval

    return await admit(*given)


def _serves(**_: Any) -> None:
    """Deliver notices left by stopped processes, at the first request of this one."""
    request_started.disconnect(dispatch_uid="django_mcp.approvals")
    if is_wanted():
        from django_mcp.approvals.notices import look  # noqa: PLC0415 - most sites send no notices

        look()
