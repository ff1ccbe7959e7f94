"""Waiting for a decision, for clients that know no tasks."""

from functools import partial

from django.utils import timezone

from django_mcp.approvals import tickets, words
from django_mcp.core.context import Context
from django_mcp.core.policies import book
from django_mcp.core.resources import as_of_now
from django_mcp.models import Approval
from django_mcp.pubsub import event_store, publish
from django_mcp.pubsub.waiting import wait_for


async def wait(context: Context, approval: Approval, seconds: float) -> Approval:
    """The ticket when it is decided, or as it is when the time is up.

    Args:
        context: of who waits.
        approval: the ticket.
        seconds: how long.
    """
    # Hardly any progress: what the tool reports later has to be more.
    context.report_progress(0, message=words.short(context, approval))
    topic = tickets.topic(approval.ticket)
    return await wait_for(context, topic, partial(_look, approval), _is_decided, seconds)


def is_still_there(context: Context, since: int) -> bool:
    """Whether a caller who waited may still call. Their rights, and what was decided, are those of now from then on.

    Args:
        context: of who waited.
        since: the newest entry of the log when their call came.
    """
    principal = as_of_now(context.principal, context.server)
    if principal is None or (principal.expires is not None and principal.expires <= timezone.now()):
        return False
    if any(each.data == publish.REVOKED for each in event_store.after(since, publish.topics_of(principal))):
        return False
    context.principal = principal
    if book.is_due:
        book.bring_up_to_date()
    return True


def _look(approval: Approval) -> Approval:
    approval.refresh_from_db()
    return approval


def _is_decided(approval: Approval) -> bool:
    return approval.state != Approval.State.PENDING
