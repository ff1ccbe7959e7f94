"""Deletion of unused self-registered clients. Clients in use register again (RFC 7591)."""

import datetime
import io
from typing import Any

from django.core.management import call_command, get_commands
from django.db import router, transaction
from django.db.models import Count, Exists, OuterRef, Q
from django.db.models.functions import Substr
from django.utils import timezone

from django_mcp.auth.toolkit import (
    get_access_token_model,
    get_application_model,
    get_grant_model,
    get_refresh_token_model,
    oauth2_settings,
    refresh_token_expire_timedelta,
)
from django_mcp.conf import settings

UNUSED = datetime.timedelta(days=7)
"""Age at which a client that never got a token is deleted."""

IDLE = datetime.timedelta(days=90)
"""Time without a valid token after which a client is deleted."""

EVERY = 50
"""Registrations between prunings, for sites that never run ``mcp_clear``."""

BATCH = 500


def prune_clients(most: int | None = None) -> int:
    """Delete unused registered clients without valid tokens and codes, and return how many.

    A client whose tokens ``cleartokens`` deleted counts as unused.

    Args:
        most: maximum number, oldest first; None for all.
    """
    now = timezone.now()
    return _delete(_prunable(now), most)


def prune_documents() -> int:
    """Delete clients with expired metadata documents and no valid tokens, and return how many."""
    before = int(_clients("cimd").count())
    if "clearcimdapplications" in get_commands():
        call_command("clearcimdapplications", stdout=io.StringIO())
    return max(0, before - int(_clients("cimd").count()))


PREFIXES = (6, 12, 18)
"""Lengths of the prefixes of a registered client's id that stand for the networks it comes from, the widest first."""

EVICTED = 20
"""Clients evicted for a new one at most: more than one if ``MAX_UNUSED_CLIENTS`` was lowered."""


def stale_documents() -> Any:
    """Return clients with an expired metadata document and tokens, in random order."""
    now = timezone.now()
    in_use = _has(get_access_token_model(), expires__gt=now) | _has(get_refresh_token_model(), revoked=None)
    return _clients("cimd").filter(in_use, cimd_expires_at__lte=now).order_by("?")


def make_room(source: str) -> bool:
    """Return True if another client may be stored.

    At ``MAX_UNUSED_CLIENTS``, delete the oldest unused client of the network that has most of them. So whoever fills
    the room evicts their own clients, and no newcomer waits for anybody else.

    Args:
        source: an ``Application.RegistrationSource``: ``dcr`` or ``cimd``.
    """
    unused = _clients(source).filter(~_has(get_access_token_model()), ~_has(get_refresh_token_model()))
    excess = int(unused.count()) - settings.MAX_UNUSED_CLIENTS + 1
    if excess <= 0:
        return True
    # Users are logging in with the others, which takes an account.
    idle = unused.filter(~_has(get_grant_model(), expires__gt=timezone.now()))
    return sum(_delete(_of_largest_network(idle), 1) for _ in range(min(excess, EVICTED))) > 0


def _of_largest_network(clients: Any) -> Any:
    """Return those of the widest network with most clients, in it of the narrower one with most, and so on."""
    prefix = ""
    for length in PREFIXES:
        networks = clients.filter(client_id__startswith=prefix).annotate(network=Substr("client_id", 1, length))
        largest = networks.values("network").annotate(number=Count("pk")).order_by("-number", "network").first()
        prefix = largest["network"] if largest else prefix
    return clients.filter(client_id__startswith=prefix)


def _prunable(now: datetime.datetime) -> Any:
    since = now - IDLE
    return _clients("dcr").filter(
        ~_has(get_access_token_model(), expires__gt=since),
        ~_has(get_refresh_token_model(), revoked__gt=since),
        ~_has(get_refresh_token_model(), _lives(since)),
        ~_has(get_grant_model(), expires__gt=now),
        created__lt=now - UNUSED,
    )


def _lives(since: datetime.datetime) -> Q:
    """Match refresh tokens that were usable after *since*."""
    life = refresh_token_expire_timedelta()
    if life is None:
        return Q(revoked=None)
    # A refresh token's lifetime starts when its access token expires.
    access = datetime.timedelta(seconds=oauth2_settings.ACCESS_TOKEN_EXPIRE_SECONDS)
    return Q(revoked=None, created__gt=since - life - access)


def _clients(source: str) -> Any:
    return get_application_model().objects.filter(registration_source=source)


def _has(model: Any, *conditions: Q, **more: Any) -> Exists:
    # A swapped token model may change the reverse name, so query from the token's side.
    return Exists(model.objects.filter(*conditions, application_id=OuterRef("pk"), **more))


def _delete(clients: Any, most: int | None) -> int:
    model = clients.model
    deleted = 0
    while most is None or deleted < most:
        left = BATCH if most is None else min(BATCH, most - deleted)
        batch = list(clients.order_by("created", "pk").values_list("pk", flat=True)[:left])
        with transaction.atomic(using=router.db_for_write(model)):
            # A token saved meanwhile either waits for this lock or is seen by the second query.
            list(model.objects.select_for_update().filter(pk__in=batch).values_list("pk", flat=True))
            gone = list(clients.filter(pk__in=batch).values_list("pk", flat=True))
            model.objects.filter(pk__in=gone).delete()
        deleted += len(gone)
        if not gone:
            break
    return deleted
