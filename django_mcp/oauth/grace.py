"""The moment in which a refresh token that was replaced still works: when it holds, and how it is held to one login."""

import datetime
import logging
from typing import Any

from django.utils import timezone

from django_mcp.conf import settings
from django_mcp.oauth.toolkit import get_access_token_model, get_refresh_token_model

logger = logging.getLogger("django_mcp")

MOST_SIBLINGS = 8
"""Live refresh tokens that one login may have."""


def was_superseded(row: Any, client: Any) -> bool:
    """Whether a refresh token of *client* was replaced, not revoked, within the grace period.

    The access token that came of its use is there as long as nobody went on from it; so no token can be used again
    that was replaced twice.
    """
    since = timezone.now() - datetime.timedelta(seconds=settings.REFRESH_GRACE_SECONDS)
    return (
        row.revoked is not None
        and row.revoked > since
        and row.application_id == client.pk
        and row.user.is_active
        and successor_of(row) is not None
        and live_siblings(row) > 0
    )


def successor_of(row: Any) -> Any:
    """The access token that came of a refresh token's use; None where there is none any more."""
    return get_access_token_model().objects.filter(source_refresh_token=row).first()


def live_siblings(row: Any) -> int:
    """How many refresh tokens of the same login are good."""
    if row.token_family is None:
        return 0
    family = get_refresh_token_model().objects.filter(token_family=row.token_family)
    return int(family.filter(revoked=None, access_token__isnull=False).count())


def is_full(row: Any) -> bool:
    """Whether its login may have no more; which is refused, but costs the others nothing."""
    full = live_siblings(row) >= MOST_SIBLINGS
    if full:
        logger.warning("Refresh token %s was used again, but its login has %s others.", row.pk, MOST_SIBLINGS)
    return full


def lock(rows: Any) -> int:
    """Hold rows until the transaction ends; how many there are.

    By an update and not by ``select_for_update``: SQLite has none, and lets no transaction write that has read before
    others wrote.
    """
    return int(rows.update(updated=timezone.now()))


def locked(row: Any) -> Any:
    """The row as it is now, held until the transaction ends; None if it is gone."""
    found = get_refresh_token_model().objects.filter(pk=row.pk)
    return found.select_related("user").first() if lock(found) else None
