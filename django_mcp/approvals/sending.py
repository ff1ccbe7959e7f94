"""Trying notices until they are delivered, or their ticket waits no longer. Any process may try any notice."""

import datetime
import logging
import random

from django.db.models import F, Q, QuerySet
from django.utils import timezone

from django_mcp.approvals import mails, webhooks
from django_mcp.core import database
from django_mcp.core.redaction import redact, visible
from django_mcp.models import Approval, Notice

logger = logging.getLogger("django_mcp")

WEBHOOK, EMAIL = "webhook", "email"
DELAYS = (5, 30, 2 * 60, 10 * 60, 60 * 60)
"""Seconds after each failure until the next attempt; the last one again and again."""
JITTER = 0.2
"""By which part of it a delay is longer or shorter, so that not all are tried at once."""
CLAIM = datetime.timedelta(minutes=2)
"""How long a notice is left alone once somebody tries it; longer than an attempt takes."""
LONGEST_ERROR = 500
_AT_ONCE = 500


class _Undelivered(Exception):
    """There is nobody to tell."""


def deliver_due() -> int:
    """Try all notices that are due; how many were delivered.

    Several processes may do so at once: each notice is tried by one of them.
    """
    _give_up()
    delivered = 0
    while (notice := _claim()) is not None:
        delivered += _try(notice)
    return delivered


def seconds_left() -> float | None:
    """In how many seconds the next notice is due; None where none is left."""
    first = _waiting().order_by("next_attempt").values_list("next_attempt", flat=True).first()
    return None if first is None else max((first - timezone.now()).total_seconds(), 0.0)


def _waiting() -> "QuerySet[Notice]":
    now = timezone.now()
    return Notice.objects.filter(
        next_attempt__isnull=False, approval__state=Approval.State.PENDING, approval__expires__gt=now
    )


def _give_up() -> None:
    """Those of tickets that wait no longer are of no use."""
    over = ~Q(approval__state=Approval.State.PENDING) | Q(approval__expires__lte=timezone.now())
    useless = Notice.objects.filter(over, next_attempt__isnull=False)
    if keys := list(useless.values_list("pk", flat=True)[:_AT_ONCE]):
        Notice.objects.filter(pk__in=keys).update(next_attempt=None)


def _claim() -> Notice | None:
    """The notice to be tried now. New ones come before those that failed."""
    while True:
        now = timezone.now()
        due = _waiting().filter(next_attempt__lte=now).select_related("approval__user")
        found = due.order_by("attempts", "-kind", "next_attempt", "pk").first()
        if found is None:
            return None
        unclaimed = Notice.objects.filter(pk=found.pk, attempts=found.attempts, next_attempt__lte=now)
        if unclaimed.update(attempts=F("attempts") + 1, next_attempt=now + CLAIM):
            found.attempts += 1
            return found


def _try(notice: Notice) -> bool:
    try:
        if notice.target == mails.APPROVERS:
            _spread(notice)
            return False
        if notice.kind == WEBHOOK:
            webhooks.send(notice.approval)
        else:
            mails.send(notice)
    except Exception as error:  # noqa: BLE001 - whatever networks, mail backends and templates raise
        _failed(notice, error)
        return False
    _only(notice).update(delivered=timezone.now(), next_attempt=None, error="")
    return True


def _spread(notice: Notice) -> None:
    """Make one notice for each of those who may decide of the one for all of them."""
    addresses = mails.approvers(notice.approval)
    if not addresses:
        raise _Undelivered("Nobody who may approve it has an e-mail address.")
    told = {each.casefold() for each in notice.approval.notices.values_list("target", flat=True)}
    new = [each for each in addresses if each.casefold() not in told]
    with database.atomic():
        now = timezone.now()
        Notice.objects.bulk_create(
            Notice(approval=notice.approval, kind=EMAIL, target=each, next_attempt=now) for each in new
        )
        _only(notice).delete()


def _failed(notice: Notice, error: Exception) -> None:
    delay = DELAYS[min(notice.attempts, len(DELAYS)) - 1] * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - no secret
    following = timezone.now() + datetime.timedelta(seconds=delay)
    words = visible(redact(f"{type(error).__name__}: {error}"))[:LONGEST_ERROR]
    logger.warning("a notice of a call that waits was not delivered (%s to %s): %s", notice.kind, notice.target, words)
    # By then it is refused, where it was not decided.
    is_last = following >= notice.approval.expires
    _only(notice).filter(attempts=notice.attempts).update(next_attempt=None if is_last else following, error=words)


def _only(notice: Notice) -> "QuerySet[Notice]":
    return Notice.objects.filter(pk=notice.pk)
