"""Approvers: who may decide a call, and in which place (decision 78)."""

import logging
from typing import Any

from django_mcp.conf import settings
from django_mcp.core.policies import OTHER_PERSON
from django_mcp.core.server import server_named
from django_mcp.models import Approval
from django_mcp.primitives.tool import Tool

logger = logging.getLogger("django_mcp")

APPROVE = "django_mcp.approve_tool_call"
"""The permission to approve and deny calls."""


def may_approve(user: Any, server: str) -> bool:
    """Return True if a user may approve or deny calls of others at an endpoint. May query the database.

    A user needs the permission ``APPROVE``, and the endpoint's ``can_approve``, if set, must return True. An error
    there counts as False.
    """
    return bool(user.has_perm(APPROVE)) and _is_accepted(user, server)


def _is_accepted(user: Any, server: str) -> bool:
    endpoint = server_named(server)
    test = None if endpoint is None else endpoint.can_approve
    try:
        return test is None or bool(test(user))
    # An error of the site must not let anybody approve.
    except Exception:
        logger.exception("can_approve() of %r raised an error; approval is refused", server)
        return False


def is_own(approval: Approval, user: Any) -> bool:
    # The user counts, not the credential: a call with a key is as much their own as one with a token.
    return approval.user_id is not None and approval.user_id == user.pk


def may_decide(approval: Approval, user: Any, *, in_admin: bool = True) -> bool:
    """Return True if a user may decide this call. May query the database.

    Requesters decide their own call in the admin only, where their browser is signed in: their client acts in their
    name everywhere else. They need the permission ``APPROVE``, unless the tool itself says that they decide
    (``self_approval=True``).

    Args:
        approval: the approval request.
        user: the user.
        in_admin: False for any place but the pages of the admin.
    """
    if not is_own(approval, user):
        return may_approve(user, approval.server)
    if not in_admin or _needs_other_person(approval):
        return False
    tool = _tool_of(approval.server, approval.tool)
    if tool is not None and tool.self_approval:
        return _is_accepted(user, approval.server)
    return _is_left_to_requester(tool) and may_approve(user, approval.server)


def may_add_rule(user: Any, server: str, tool: str, requester: Any) -> bool:
    """Return True if rules of this user approve further calls, which they do not see. May query the database.

    Args:
        user: the author of the rule.
        server: name of the endpoint.
        tool: key of the tool.
        requester: key of the user in whose name the calls are made; None if there is none.
    """
    is_others = requester is None or requester != user.pk
    return may_approve(user, server) and (is_others or _is_left_to_requester(_tool_of(server, tool)))


def is_decided_by_requester(approval: Approval) -> bool:
    """Return True if requesters of this tool decide without a permission, as far as the endpoint accepts them."""
    tool = _tool_of(approval.server, approval.tool)
    return approval.user_id is not None and tool is not None and bool(tool.self_approval)


def _needs_other_person(approval: Approval) -> bool:
    return isinstance(approval.preview, dict) and approval.preview.get(OTHER_PERSON) is True


def _is_left_to_requester(tool: Tool | None) -> bool:
    if tool is None:  # another process may serve it, where it may want another person
        return False
    return settings.SELF_APPROVAL if tool.self_approval is None else tool.self_approval


def _tool_of(server: str, key: str) -> Tool | None:
    found = server_named(server)
    return None if found is None else found.tools.get(key)
