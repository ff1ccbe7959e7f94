"""The log: what is written is read in order, by those who want the topic, however late it becomes visible."""

import pytest
from django.contrib.auth.models import Group, User
from django.db import transaction
from django.test import override_settings
from django.utils import timezone

from django_mcp.models import Event, EventSequence
from django_mcp.pubsub import event_store

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql, pytest.mark.mariadb]


@pytest.fixture(autouse=True)
def empty_log(db: None) -> None:
    """Whoever made users before may have told of their rights."""
    Event.objects.all().delete()


@pytest.fixture
def rings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows with each ring of the bell."""
    rung: list[int] = []
    monkeypatch.setattr(event_store, "notify_readers", lambda: rung.append(len(rung)))
    return rung


def data(entries: list[event_store.Entry]) -> list[str]:
    return [entry.data for entry in entries]


def test_entries_come_back_in_order_with_ascending_ids() -> None:
    ids = event_store.append_numbered([("a", "1"), ("b", "2"), ("a", "3")])
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
    ids = event_store.append_numbered([("a", "1"), ("b", "2")])
    assert event_store.newest() == ids[1]
    event_store.append([("c", "3")])
    assert event_store.newest() == event_store.after(0, ["c"])[0].id > ids[1]


def test_all_is_read_however_much_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_store, "MAX_READ", 3)
    for count in (2, 3, 4, 7):
        event_store.append([(f"of {count}", str(number)) for number in range(count)])
        assert data(event_store.after(0, [f"of {count}"])) == [str(number) for number in range(count)]


def test_a_reader_gets_a_bit_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_store, "MAX_READ", 2)
    position = event_store.newest()
    event_store.append([("a", str(number)) for number in range(5)])
    pages = []
    while not (pages and pages[-1].is_whole):
        pages.append(event_store.since(position, ["a"]))
        position = pages[-1].position
    assert [data(page.entries) for page in pages] == [["0", "1"], ["2", "3"], ["4"]]
    assert event_store.since(position, ["a"]) == event_store.Page([], position, is_whole=True)


def test_a_reader_goes_on_behind_the_events_of_others() -> None:
    """So that an idle follower reads one row, however much others are told."""
    position = event_store.newest()
    event_store.append([("others", str(number)) for number in range(5)])
    page = event_store.since(position, ["a"])
    assert (page.entries, page.position) == ([], event_store.newest())
    event_store.append([("a", "1")])
    assert data(event_store.since(page.position, ["a"]).entries) == ["1"]


def test_positions_ascend_although_the_tables_were_emptied() -> None:
    """By ``manage.py flush``, while streams are open and clients know the id of their last event."""
    before = event_store.append_numbered([("a", "before")])
    Event.objects.all().delete()
    EventSequence.objects.all().delete()
    event_store.append([("a", "after")])
    assert data(event_store.since(before[0], ["a"]).entries) == ["after"]


def test_a_reader_from_before_a_failover_that_lost_events_reads_on() -> None:
    event_store.append([("a", "1")])
    newest = event_store.newest()
    assert event_store.since(newest + 1000, ["a"]).position == newest


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
