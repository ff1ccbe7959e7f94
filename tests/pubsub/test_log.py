"""The log: what is written is read in order, by those who want the topic, however late it becomes visible."""

import datetime

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection, transaction
from django.test import override_settings
from django.utils import timezone

from django_mcp.models import Event
from django_mcp.pubsub import event_store

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql]


@pytest.fixture(autouse=True)
def empty_log(db: None) -> None:
    """Whoever made users before may have told of their rights."""
    Event.objects.all().delete()


@pytest.fixture
def rings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows with each ring of the bell."""
    rung: list[int] = []
    monkeypatch.setattr(event_store, "ring", lambda: rung.append(len(rung)))
    return rung


def data(entries: list[event_store.Entry]) -> list[str]:
    return [entry.data for entry in entries]


def long_ago(ids: list[int]) -> None:
    Event.objects.filter(pk__in=ids).update(created=timezone.now() - datetime.timedelta(seconds=60))


def test_entries_come_back_in_order_with_ascending_ids() -> None:
    ids = event_store.append([("a", "1"), ("b", "2"), ("a", "3")])
    assert ids == sorted(ids)
    assert len(set(ids)) == 3
    assert event_store.after(0, ["a", "b"]) == [
        event_store.Entry(ids[0], "a", "1"),
        event_store.Entry(ids[1], "b", "2"),
        event_store.Entry(ids[2], "a", "3"),
    ]
    assert data(event_store.after(0, ["a"])) == ["1", "3"]
    assert data(event_store.after(ids[0], ["a"])) == ["3"]
    assert event_store.after(ids[2], ["a", "b"]) == event_store.after(0, ["c"]) == []


def test_the_newest_is_the_last_of_all_topics() -> None:
    assert event_store.newest() == 0
    ids = event_store.append([("a", "1"), ("b", "2")])
    assert event_store.newest() == ids[1]


def test_all_is_read_however_much_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_store, "MOST", 3)
    for count in (2, 3, 4, 7):
        event_store.append([(f"of {count}", str(number)) for number in range(count)])
        assert data(event_store.after(0, [f"of {count}"])) == [str(number) for number in range(count)]


def test_a_reader_gets_a_bit_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_store, "MOST", 2)
    monkeypatch.setattr(event_store, "LOOK_BACK", 1)
    ids = event_store.append([("a", str(number)) for number in range(5)])
    long_ago(ids)
    assert data(event_store.since(0, ["a"])) == ["0", "1", "2"]
    assert data(event_store.since(ids[2], ["a"])) == ["3", "4"]


def test_what_may_have_become_visible_late_is_read_again_for_a_while() -> None:
    old, new = event_store.append([("a", "old")]), event_store.append([("a", "new")])
    assert data(event_store.since(new[0], ["a"])) == ["old", "new"]
    long_ago(old)
    assert data(event_store.since(new[0], ["a"])) == ["new"]
    assert data(event_store.since(old[0], ["b"])) == []


def test_what_lies_far_back_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_store, "LOOK_BACK", 2)
    ids = event_store.append([("a", str(number)) for number in range(5)])
    assert data(event_store.since(ids[4], ["a"])) == ["3", "4"]


def test_much_that_was_read_before_does_not_keep_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_store, "MOST", 3)
    monkeypatch.setattr(event_store, "LOOK_BACK", 3)
    ids = event_store.append([("a", str(number)) for number in range(10)])
    position, read = 0, []
    for _ in range(4):
        found = event_store.since(position, ["a"])
        read += [entry.data for entry in found if entry.id > position]
        position = found[-1].id
    assert read == [str(number) for number in range(10)]
    assert position == ids[-1]


@pytest.mark.django_db(transaction=True)
def test_the_bell_rings_when_it_is_committed(rings: list[int]) -> None:
    event_store.append([("a", "1")])
    assert len(rings) == 1
    with transaction.atomic():
        event_store.append([("a", "2")])
        assert len(rings) == 1, "nobody could read it yet"
    assert len(rings) == 2


@pytest.mark.django_db(transaction=True)
def test_the_bell_does_not_ring_for_what_is_rolled_back(rings: list[int]) -> None:
    with transaction.atomic():
        event_store.append([("a", "1")])
        transaction.set_rollback(True)
    assert rings == []
    assert event_store.after(0, ["a"]) == []


def test_an_entry_may_go_when_no_client_can_want_it_any_more() -> None:
    with override_settings(DJANGO_MCP={"ELICITATION_TTL": 100}):
        event_store.append([("a", "1")])
    left = Event.objects.get().expires - timezone.now()
    assert 90 < left.total_seconds() <= 100


def test_a_database_that_returns_no_keys_is_written_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(connection.features), "can_return_rows_from_bulk_insert", False)
    ids = event_store.append([("a", "1"), ("a", "2")])
    assert [entry.id for entry in event_store.after(0, ["a"])] == ids


@pytest.mark.django_db(transaction=True)
def test_a_script_that_manages_its_own_transactions_changes_rights_without_an_error() -> None:
    """As Django's documentation shows for imports: ``set_autocommit(False)``, and ``commit()`` by hand."""
    user, group = User.objects.create_user("ann"), Group.objects.create(name="readers")
    before = Event.objects.count()
    transaction.set_autocommit(False)
    try:
        group.save()
        user.is_active = False
        user.save()
        transaction.rollback()
        assert Event.objects.count() == before
        user.save()
        transaction.commit()
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)
    assert Event.objects.count() > before
