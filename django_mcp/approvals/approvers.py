"""Who decides about calls that wait."""

import logging
from typing import Any

from django_mcp.core.registry import every_server

logger = logging.getLogger("django_mcp")

APPROVE = "django_mcp.approve_toolcall"
"""The permission of those who decide."""


def may_approve(user: Any, server: str) -> bool:
    """Return True if a user may decide about calls at the endpoint of that name. May be queries.

    They need the permission, and the endpoint's ``can_approve`` says the rest; one that fails lets nobody decide.
    """
    if not user.has_perm(APPROVE):
        return False
    test = next((each.can_approve for each in every_server() if each.name == server), None)
    try:
        return test is None or bool(test(user))
    except Exception:
        logger.exception("nobody may approve calls at %r, for its can_approve() failed", server)
        return False
