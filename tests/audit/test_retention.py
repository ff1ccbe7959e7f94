"""What is in the log longer than the site wants it is deleted, and nothing else."""

from datetime import timedelta

import pytest
from django.test import override_settings
from django.utils import timezone

from django_mcp.models import RequestLog
from django_mcp.pubsub import cleanup
from django_mcp.pubsub.cleanup import clear, clear_log

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql]


@pytest.fixture
def days() -> list[int]:
    days = [1, 29, 31, 400, 500]
    now = timezone.now()
    usual = {"server": "s", "method": "tools/call", "outcome": "ok", "duration": 1}
    RequestLog.objects.bulk_create(RequestLog(started_at=now - timedelta(days=each), **usual) for each in days)
    return days


def kept() -> list[int]:
    return sorted((timezone.now() - each).days for each in RequestLog.objects.values_list("started_at", flat=True))


def test_calls_older_than_the_setting_are_deleted(days: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleanup, "CHUNK_SIZE", 2)
    with override_settings(DJANGO_MCP={"REQUEST_LOG_DAYS": 30}):
        assert clear()["logged calls"] == 3
    assert kept() == [1, 29]


def test_none_means_for_ever(days: list[int]) -> None:
    with override_settings(DJANGO_MCP={"REQUEST_LOG_DAYS": None}):
        clear()
    assert kept() == days


def test_the_oldest_go_first_where_not_all_may(days: list[int]) -> None:
    with override_settings(DJANGO_MCP={"REQUEST_LOG_DAYS": 30}):
        assert clear_log(2) == 2
    assert kept() == [1, 29, 31]
