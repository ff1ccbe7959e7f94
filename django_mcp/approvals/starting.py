"""When calls meet decisions about calls, and when notices are delivered. What does it is imported then."""

from typing import Any

from django.core.signals import request_started

from django_mcp.conf import settings
from django_mcp.core import methods
from django_mcp.core.later import later

_look = later("django_mcp.approvals.background.look")


def is_wanted() -> bool:
    """Whether anybody is to be told of calls that wait."""
    return bool(settings.APPROVAL_EMAILS or settings.APPROVAL_WEBHOOK)


def connect() -> None:
    """Hear of the first request."""
    request_started.connect(_serves, dispatch_uid="django_mcp.approvals")


def start() -> None:
    """See to calls that have to be approved."""
    methods.approval_gate = later("django_mcp.approvals.admitting.admit")


def _serves(**_: Any) -> None:
    """The first request: this process serves, and may find what was left when another one ended."""
    request_started.disconnect(dispatch_uid="django_mcp.approvals")
    if is_wanted():
        _look()
