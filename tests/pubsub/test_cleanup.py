"""``mcp_clear`` deletes what has expired, and nothing else."""

import datetime
import io
import json
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.models.signals import post_delete
from django.utils import timezone

from django_mcp.models import Call, Event, Session, Step
from django_mcp.pubsub import cleanup

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql, pytest.mark.mariadb]


def fill(expires: datetime.datetime, name: str) -> None:
    session = Session.objects.create(key=name, server="s", principal_kind="k", principal_id="i", expires=expires)
    Call.objects.create(key=name, session=session, request={}, expires=expires)
    Event.objects.create(topic=name, position=1, created=timezone.now(), expires=expires)
    Step.objects.create(call=name, key="k", expires=expires)


def test_the_command_deletes_what_has_expired_and_says_how_much() -> None:
    now = timezone.now()
    fill(now - datetime.timedelta(seconds=1), "old")
    fill(now + datetime.timedelta(hours=1), "young")
    told = io.StringIO()

    call_command("mcp_clear", stdout=told)

    assert "1 session, " in told.getvalue()
    assert Session.objects.get().key == "young"
    assert Call.objects.get().key == "young"
    assert Event.objects.get(topic__in=["old", "young"]).topic == "young"
    assert Step.objects.get().call == "young"


def test_programs_get_the_numbers_as_json() -> None:
    fill(timezone.now() - datetime.timedelta(seconds=1), "old")
    told = io.StringIO()
    call_command("mcp_clear", json=True, stdout=told)
    counted = json.loads(told.getvalue())
    assert (counted["sessions"], counted["events"], counted["logged_calls"]) == (1, 1, 0)


def test_nothing_is_said_where_nothing_is_to_be_said() -> None:
    told = io.StringIO()
    call_command("mcp_clear", verbosity=0, stdout=told)
    assert told.getvalue() == ""


def test_whoever_looks_is_told_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleanup, "CHUNK_SIZE", 2)
    for number in range(5):
        fill(timezone.now() - datetime.timedelta(seconds=9 - number), str(number))
    heard: list[tuple[str, int, int]] = []
    cleanup.clear(note=lambda *each: heard.append(each))
    assert [each for each in heard if each[0] == "sessions"] == [
        ("sessions", 2, 5),
        ("sessions", 4, 5),
        ("sessions", 5, 5),
    ]


def test_few_rows_are_held_and_locked_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleanup, "CHUNK_SIZE", 2)
    now = timezone.now()
    for number in range(5):
        fill(now - datetime.timedelta(seconds=9 - number), str(number))
    fill(now + datetime.timedelta(hours=1), "young")
    at_once: list[int] = []

    def note(sender: Any, using: str, **_: Any) -> None:
        at_once[-1] += 1

    def begin(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.startswith("SELECT"):
            at_once.append(0)
        return execute(sql, params, many, context)

    post_delete.connect(note, sender=Session)
    try:
        with connection.execute_wrapper(begin):
            deleted = cleanup.clear()
    finally:
        post_delete.disconnect(note, sender=Session)
    assert [deleted[kind] for kind in ("sessions", "events", "steps")] == [5, 5, 5]
    assert [each for each in at_once if each] == [2, 2, 1]
    assert [each.key for each in Session.objects.all()] == ["young"]


def test_the_longest_expired_go_first_where_not_all_may() -> None:
    now = timezone.now()
    for number in range(3):
        fill(now - datetime.timedelta(seconds=9 - number), str(number))
    assert cleanup.clear(2)["sessions"] == 2
    assert [each.key for each in Session.objects.all()] == ["2"]
