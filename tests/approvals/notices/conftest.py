"""Tickets, and sites that have somebody told of them."""

import datetime
import os
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db import transaction
from django.utils import timezone

from django_mcp.approvals import notices
from django_mcp.approvals.notices import sender
from django_mcp.models import Approval, Notice
from tests.approvals.notices.receiver import SECRET, Receiver, listening

Configure = Callable[..., None]


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    for name in [each for each in os.environ if each.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    with listening() as made:
        yield made


@pytest.fixture
def configure(settings: Any) -> Configure:
    """Changes ``DJANGO_MCP`` of a site with an admin."""
    settings.ROOT_URLCONF = "tests.approvals.notices.urls"

    def change(**changes: Any) -> None:
        given = {"BASE_URL": "https://travel.example.com", "APPROVAL_WEBHOOK_SECRET": SECRET, **changes}
        settings.DJANGO_MCP = {**settings.DJANGO_MCP, **given}

    return change


def ticket(user: Any = None, **fields: Any) -> Approval:
    """A ticket that is pending, of which nobody was told."""
    now = timezone.now()
    given = {
        "public_id": secrets.token_urlsafe(16),
        "server": "default",
        "tool": "book_hotel",
        "principal_kind": "oauth",
        "principal_id": "7",
        "user": user,
        "client": {"name": "Desk", "version": "1.2"},
        "arguments": {"hotel": "Seaview", "nights": 3, "card": "***"},
        "digest": secrets.token_hex(32),
        "version": "1",
        "created": now,
        "expires": now + datetime.timedelta(hours=2),
        **fields,
    }
    return Approval.objects.create(**given)


def asked(user: Any = None, **fields: Any) -> Approval:
    """One of which everybody is to be told."""
    with transaction.atomic():
        made = ticket(user, **fields)
        notices.make(made)
    return made


def time_passes() -> None:
    """Until all that is to be tried again is due."""
    Notice.objects.filter(next_attempt__isnull=False).update(next_attempt=timezone.now())


def person(name: str, *, may: bool = False, **fields: Any) -> Any:
    """A user; one who may approve calls, if *may*."""
    made = get_user_model().objects.create_user(name, **{"email": f"{name}@example.com", "is_staff": may, **fields})
    if may:
        made.user_permissions.add(Permission.objects.get(codename="approve_tool_call"))
    return made


@pytest.fixture
def committed(open_database: None) -> Iterator[None]:
    """Rows that other threads see, and that are gone after the test, as is the thread that delivers."""
    sender.after_fork()
    yield
    Approval.objects.all().delete()
    if (thread := sender._thread) is not None:
        sender._wake.set()
        thread.join(20)
        assert not thread.is_alive()
    get_user_model().objects.filter(email__endswith="@example.com").delete()
