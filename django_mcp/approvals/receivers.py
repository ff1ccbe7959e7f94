"""When calls meet decisions about calls, and when notices are delivered. What does it is imported then."""

from typing import Any

from django.core.signals import request_started

from django_mcp.conf import settings
from django_mcp.core import dispatch
from django_mcp.protocol.jsonrpc import Result


def is_wanted() -> bool:
    """Whether anybody is to be told of calls that wait."""
    return bool(settings.APPROVAL_EMAILS or settings.APPROVAL_WEBHOOK)


def connect() -> None:
    """Hear of the first request."""
    request_started.connect(_serves, dispatch_uid="django_mcp.approvals")


def start() -> None:
    """See to calls that have to be approved."""
    dispatch.approval_gate = _admit


async def _admit(*given: Any) -> Result | None:
    """See ``gate.admit``."""
    from django_mcp.approvals.gate import admit  # noqa: PLC0415 - most calls need no approval

    return await admit(*given)


def _serves(**_: Any) -> None:
    """The first request: this process serves, and may find what was left when another one ended."""
    request_started.disconnect(dispatch_uid="django_mcp.approvals")
    if is_wanted():
        from django_mcp.approvals.notices import look  # noqa: PLC0415 - most sites send no notices

        look()
