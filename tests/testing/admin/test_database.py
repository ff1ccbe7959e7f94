"""What two runs on one database change."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.core.cache import cache

from django_mcp.test.admin.database import comparable, moment_of, trial
from tests.integrations.back_office.models import Tag


def test_a_trial_tells_what_was_changed_and_leaves_nothing(people: SimpleNamespace) -> None:
    cache.set("key", "of the run before")

    def prepare() -> None:
        Tag.objects.create(name="before")

    with trial(prepare) as changes:
        assert cache.get("key") is None
        Tag.objects.filter(name="old").update(name="other")
        mail.send_mail("Subject", "text", None, ["a@example.com"])
    [(table, (removed, added))] = changes.tables.items()
    assert table == "back_office_tag"
    assert [row[1] for row in (*removed, *added)] == ["old", "other"]
    assert changes.mails == ("Subject",)
    assert {*Tag.objects.values_list("name", flat=True)} == {"old", "new"}
    assert not mail.outbox


def test_moments_of_the_run_are_the_same_and_others_are_not(people: SimpleNamespace) -> None:
    with trial(lambda: None) as changes:
        User.objects.filter(username="boss").update(last_login=datetime.now(UTC))
        User.objects.filter(username="clerk").update(last_login=datetime.now(UTC) - timedelta(hours=1))
    _, added = changes.tables["auth_user"]
    assert sum("now" in row for row in added) == 1


@pytest.mark.parametrize(
    ("stored", "compared"),
    [
        ('[{"changed": {"fields": ["Price"]}}, {"mcp": {"client": "Claude"}}]', '[{"changed": {"fields": ["Price"]}}]'),
        ("a text about mcp", "a text about mcp"),
        ('not JSON with "mcp"', 'not JSON with "mcp"'),
        (memoryview(b"x"), b"x"),
        ({"b": 1, "a": [2]}, '{"a": [2], "b": 1}'),
    ],
)
def test_values_are_comparable_and_the_client_in_a_history_is_left_out(stored: object, compared: object) -> None:
    assert comparable(stored) == compared


def test_a_moment_is_read_from_the_text_of_a_database() -> None:
    assert moment_of("2026-02-03 04:05:06.000007") == datetime(2026, 2, 3, 4, 5, 6, 7, tzinfo=UTC)
    assert moment_of("2026-02-03") is None
    assert moment_of(7) is None
