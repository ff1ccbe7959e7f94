"""What two runs on one database change."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.core.cache import cache
from django.core.files.base import ContentFile

from django_mcp.test.admin.database import comparable, moment_of, trial
from tests.integrations.back_office.models import Product, Tag


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


def test_files_that_are_stored_are_told_by_content_and_are_gone_after_a_trial(
    people: SimpleNamespace, settings: Any, tmp_path: Path
) -> None:
    settings.MEDIA_ROOT = tmp_path
    product = Product.objects.get(sku="P-1")
    seen = []
    for content in (b"one", b"two"):
        with trial(lambda: None) as changes:
            product.manual.save("a.txt", ContentFile(content))
        seen.append(changes.files)
    [[(first, one)], [(second, two)]] = seen
    assert first == second == "manuals/a.txt", "the second run finds no file of the first"
    assert one != two
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


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
