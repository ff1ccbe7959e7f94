"""Who may approve or deny a call."""

import logging
from typing import Any

from django_mcp.core.server import every_server

logger = logging.getLogger("django_mcp")

APPROVE = "django_mcp.approve_toolcall"
"""The permission of those who decide."""


def may_approve(user: Any, server: str) -> bool:
    """Return True if a user may approve or deny calls at an endpoint. It may make queries.

    A user needs the permission ``APPROVE``, and the endpoint's ``can_approve`` has to return True, if it has one. If
    that raises, the answer is False.

    Args:
        user: a Django user.
        server: the endpoint's name.
    """
    if not user.has_perm(APPROVE):
        return False
    test = next((each.can_approve for each in every_server() if each.name == server), None)
    try:
        return test is None or bool(test(user))
    except Exception:
        logger.exception("can_approve() of %r raised, so nobody may approve its calls", server)
        return False
