"""Whoever subscribed hears when rows are saved and deleted, in either era, whoever did it."""

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.apps import apps
from django.contrib.auth.models import Group, User
from django.core import serializers
from django.db import connection, connections, transaction
from django.db.models.signals import post_delete
from django.test.utils import CaptureQueriesContext

from django_mcp import MCPServer, ModelResource, notify_changed, register
from django_mcp.core.signals import Change, rows_changed
from django_mcp.model_resources import notifications
from django_mcp.models import Event
from django_mcp.pubsub import publish as changes
from tests.model_resources.library.models import Author, Book, Review, Tag
from tests.model_resources.live import LIST, MARK, Ear, author, ear, everything, people, server

__all__ = ["author", "ear", "people", "server"]

pytestmark = pytest.mark.postgresql
BASE = "library://book"
SALT, TIDES = f"{BASE}/salt", f"{BASE}/tides"
SUMMARY = f"{SALT}/summary"


@pytest.fixture
def make_book(author: Author) -> Callable[..., Book]:
    return lambda slug, **fields: Book.objects.create(slug=slug, title=slug.title(), author=author, **fields)


@pytest.fixture
def salt(make_book: Callable[..., Book]) -> Book:
    return make_book("salt")


def inserts(queries: Any) -> list[str]:
    return [each["sql"] for each in queries if each["sql"].startswith("INSERT") and Event._meta.db_table in each["sql"]]


def test_a_new_row_is_news_of_the_lists(
    server: MCPServer, ear: Callable[..., Ear], make_book: Callable[..., Book]
) -> None:
    everything(server)
    ann = ear("ann", BASE)
    make_book("salt")
    assert ann.heard() == [BASE, LIST]
    assert ann.heard() == []


def test_a_saved_row_is_news_of_the_row_its_fields_and_the_listing(
    server: MCPServer, ear: Callable[..., Ear], salt: Book
) -> None:
    everything(server)
    ann = ear("ann", SALT, SUMMARY, BASE)
    salt.save()
    assert ann.heard() == [SALT, SUMMARY, BASE]


def test_only_the_fields_that_were_written_are_news(server: MCPServer, ear: Callable[..., Ear], salt: Book) -> None:
    everything(server)
    ann = ear("ann", SALT, SUMMARY)
    salt.save(update_fields=["title"])
    assert ann.heard() == [SALT]
    salt.save(update_fields=["summary"])
    assert ann.heard() == [SALT, SUMMARY]


def test_a_deleted_row_is_heard_of_once_and_never_again(
    server: MCPServer, ear: Callable[..., Ear], salt: Book, make_book: Callable[..., Book]
) -> None:
    everything(server)
    ann = ear("ann", SALT)
    salt.delete()
    assert ann.heard() == [SALT, LIST]
    make_book("salt").save()
    assert ann.heard() == [LIST]


def test_rows_that_are_deleted_with_another_are_heard_of(
    server: MCPServer, ear: Callable[..., Ear], salt: Book
) -> None:
    everything(server)
    ann = ear("ann", SALT)
    salt.author.delete()
    assert ann.heard() == [SALT, LIST]


def test_only_what_was_subscribed_to_is_told(
    server: MCPServer, ear: Callable[..., Ear], salt: Book, make_book: Callable[..., Book]
) -> None:
    everything(server)
    tides = make_book("tides")
    ann = ear("ann", TIDES)
    salt.save()
    tides.save()
    assert ann.heard() == [TIDES]


def test_tagging_a_row_is_news_of_it(server: MCPServer, ear: Callable[..., Ear], salt: Book) -> None:
    everything(server)
    sea = Tag.objects.create(word="sea")
    ann = ear("ann", SALT, SUMMARY)
    salt.tags.add(sea)
    assert ann.heard() == [SALT]
    salt.tags.add(sea)
    assert ann.heard() == []
    salt.tags.remove(sea)
    assert ann.heard() == [SALT]
    sea.books.add(salt)
    assert ann.heard() == [SALT]
    salt.tags.clear()
    assert ann.heard() == [SALT]


def test_a_tag_is_news_when_a_book_has_it(server: MCPServer, ear: Callable[..., Ear], salt: Book) -> None:
    everything(server)

    class Tags(ModelResource):
        fields = ["word", "books"]
        title_field = "word"

    register(Tag, Tags, server=server)
    sea = Tag.objects.create(word="sea")
    ann = ear("ann", f"library://tag/{sea.pk}", SALT)
    salt.tags.add(sea)
    assert ann.heard() == [SALT, f"library://tag/{sea.pk}"]


# Transactions


def test_what_is_rolled_back_is_not_heard(server: MCPServer, ear: Callable[..., Ear], salt: Book) -> None:
    everything(server)
    ann = ear("ann", SALT, BASE)
    with transaction.atomic():
        salt.save()
        transaction.set_rollback(True)
    assert ann.heard() == []


def test_of_a_savepoint_that_is_rolled_back_nothing_is_heard(
    server: MCPServer, ear: Callable[..., Ear], salt: Book, make_book: Callable[..., Book]
) -> None:
    everything(server)
    tides = make_book("tides")
    ann = ear("ann", SALT, TIDES)
    with transaction.atomic():
        with transaction.atomic():
            salt.save()
            transaction.set_rollback(True)
        with transaction.atomic():
            tides.save()
    assert ann.heard() == [TIDES]


def test_what_is_saved_around_a_savepoint_that_is_rolled_back_is_heard(
    server: MCPServer, ear: Callable[..., Ear], salt: Book, make_book: Callable[..., Book]
) -> None:
    everything(server)
    tides = make_book("tides")
    ann = ear("ann", SALT, TIDES)
    with transaction.atomic():
        salt.save()
        with transaction.atomic():
            tides.save()
            transaction.set_rollback(True)
    assert ann.heard() == [SALT]


def test_a_transaction_after_one_that_was_rolled_back_is_heard(
    server: MCPServer, ear: Callable[..., Ear], salt: Book
) -> None:
    everything(server)
    ann = ear("ann", SALT)
    for is_kept in (False, True, True):
        with transaction.atomic():
            salt.save()
            transaction.set_rollback(not is_kept)
    assert ann.heard() == [SALT, SALT]


def test_what_is_saved_when_another_transaction_is_committed_is_heard(
    server: MCPServer, ear: Callable[..., Ear], salt: Book, make_book: Callable[..., Book]
) -> None:
    everything(server)
    tides = make_book("tides")
    ann = ear("ann", SALT, TIDES)

    def later() -> None:
        with transaction.atomic():
            tides.save()
            transaction.set_rollback(True)

    with transaction.atomic():
        transaction.on_commit(later)
        salt.save()
    assert ann.heard() == [SALT]


def test_a_script_that_manages_its_own_transactions_saves_and_is_heard(
    server: MCPServer, ear: Callable[..., Ear], salt: Book
) -> None:
    """As Django's documentation shows for imports: ``set_autocommit(False)``, and ``commit()`` by hand."""
    everything(server)
    ann = ear("ann", SALT)
    transaction.set_autocommit(False)
    try:
        salt.save()
        User.objects.filter(username="eve").get().save()
        Group.objects.create(name="readers").save()
        transaction.commit()
        salt.save()
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)
    assert ann.heard() == [SALT]


def test_what_one_transaction_does_is_told_once_and_written_with_one_statement(
    server: MCPServer, ear: Callable[..., Ear], salt: Book, make_book: Callable[..., Book]
) -> None:
    everything(server)
    ann = ear("ann", SALT, BASE)
    with CaptureQueriesContext(connection) as queries, transaction.atomic():
        for number in range(5):
            make_book(f"more-{number}")
            salt.save()
    assert len(inserts(queries)) == 1
    assert ann.heard() == [SALT, BASE, LIST]


def test_a_save_costs_one_statement_more(server: MCPServer, salt: Book) -> None:
    salt.save()
    with CaptureQueriesContext(connection) as before:
        salt.save()
    everything(server)
    with CaptureQueriesContext(connection) as after:
        salt.save()
    own = [each for each in after if each["sql"] not in {"BEGIN", "BEGIN IMMEDIATE", "COMMIT"}]
    assert len(inserts(after)) == 1
    # On SQLite the writer gives the position too.
    assert len(own) == len(before) + (2 if connection.vendor == "sqlite" else 1)


def test_of_too_many_rows_only_the_lists_are_told(
    server: MCPServer,
    ear: Callable[..., Ear],
    salt: Book,
    make_book: Callable[..., Book],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    everything(server)
    monkeypatch.setattr(notifications, "MAX_ROWS", 3)
    ann = ear("ann", SALT, BASE)
    with transaction.atomic():
        for number in range(3):
            make_book(f"more-{number}")
        salt.save()
    assert ann.heard() == [BASE, LIST]
    notify_changed(Book.objects.all())
    assert ann.heard() == [BASE, LIST]
    assert Event.objects.filter(topic="server:test", data__contains=BASE).count() == 4


def test_what_another_connection_writes_is_heard(server: MCPServer, ear: Callable[..., Ear], salt: Book) -> None:
    everything(server)
    ann = ear("ann", SALT)

    def write() -> None:
        salt.save()
        connections.close_all()

    thread = threading.Thread(target=write)
    thread.start()
    thread.join()
    assert ann.heard() == [SALT]


def test_a_save_succeeds_although_it_cannot_be_told(
    server: MCPServer, salt: Book, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    everything(server)

    def fail(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr("django_mcp.pubsub.event_store.append", fail)
    salt.title = "Told to nobody"
    salt.save()
    salt.refresh_from_db()
    assert salt.title == "Told to nobody"
    assert "on_commit" in caplog.text


# What is not told


def test_a_model_that_is_not_live_is_silent(server: MCPServer, ear: Callable[..., Ear]) -> None:
    class Quiet(ModelResource):
        fields = ["word"]
        notify_changes = False

    register(Tag, Quiet, server=server)
    ann = ear("ann", "library://tag")
    tag = Tag.objects.create(word="sea")
    tag.save()
    notify_changed(tag)
    notify_changed(Tag)
    tag.delete()
    assert ann.heard() == []


def test_rows_of_a_model_that_is_not_live_are_deleted_as_fast_as_before(server: MCPServer, salt: Book) -> None:
    class Quiet(ModelResource):
        fields = ["text"]
        notify_changes = False

    post_delete.disconnect(sender=Review, dispatch_uid=notifications.UID)  # of another test
    register(Review, Quiet, server=server)
    Review.objects.create(book=salt, text="Wet.")
    with CaptureQueriesContext(connection) as queries:
        Review.objects.all().delete()
    assert not any("SELECT" in each["sql"] for each in queries)


def test_fixtures_are_not_told(server: MCPServer, ear: Callable[..., Ear], salt: Book) -> None:
    everything(server)
    ann = ear("ann", SALT)
    for loaded in serializers.deserialize("json", serializers.serialize("json", [salt])):
        loaded.object.save_base(raw=True)
    assert ann.heard() == []


def test_rows_that_are_not_listed_do_not_change_the_list(server: MCPServer, ear: Callable[..., Ear]) -> None:
    class Tags(ModelResource):
        fields = ["word"]
        max_list_size = 0

    register(Tag, Tags, server=server)
    ann = ear("ann", "library://tag")
    Tag.objects.create(word="sea")
    assert ann.heard() == ["library://tag"]


def test_each_endpoint_is_told_of_the_models_it_has(
    server: MCPServer, make_server: Callable[..., MCPServer], ear: Callable[..., Ear], salt: Book
) -> None:
    everything(make_server("other"))
    ann = ear("ann")
    salt.save()
    salt.delete()
    assert ann.heard() == []


@pytest.fixture
def proxy() -> Iterator[Any]:
    """A proxy of books, which is gone after the test."""
    known = apps.all_models["library"]

    class Novel(Book):
        class Meta:
            proxy = True
            app_label = "library"

    yield Novel
    del known["novel"]
    apps.clear_cache()


def test_a_row_of_a_proxy_is_a_row_of_the_model(
    server: MCPServer, ear: Callable[..., Ear], salt: Book, proxy: Any
) -> None:
    everything(server)
    ann = ear("ann", SALT)
    proxy.objects.get().save()
    assert ann.heard() == [SALT]
    proxy.objects.get().delete()
    assert ann.heard() == [SALT, LIST]


def test_news_that_come_together_are_told_once(server: MCPServer, ear: Callable[..., Ear]) -> None:
    everything(server)
    ann = ear("ann", BASE)
    rows_changed.send(sender=None, changes=[Change(server, uri, [BASE]) for uri in (None, BASE, None, BASE)])
    assert ann.heard() == [LIST, BASE]


# notify_changed()


def test_rows_that_were_written_without_a_signal_are_published(
    server: MCPServer, ear: Callable[..., Ear], salt: Book, make_book: Callable[..., Book]
) -> None:
    everything(server)
    tides = make_book("tides")
    ann = ear("ann", SALT, TIDES, BASE)
    for what in (salt, [salt], Book.objects.filter(slug="salt"), iter([salt])):
        notify_changed(what)
        assert ann.heard() == [SALT, BASE, LIST]
    notify_changed([salt, tides])
    assert ann.heard() == [SALT, TIDES, BASE, LIST]
    notify_changed(Book)
    assert ann.heard() == [BASE, LIST]


def test_rows_that_were_deleted_without_a_signal_are_published(
    server: MCPServer, ear: Callable[..., Ear], salt: Book
) -> None:
    everything(server)
    ann = ear("ann", SALT)
    rows = list(Book.objects.all())
    Book.objects.all()._raw_delete("default")
    notify_changed(rows, deleted=True)
    assert ann.heard() == [SALT, LIST]


def test_rows_may_be_published_at_one_endpoint_only(
    server: MCPServer, make_server: Callable[..., MCPServer], ear: Callable[..., Ear], salt: Book
) -> None:
    other = make_server("other")
    for each in (server, other):
        everything(each)
    ann = ear("ann", SALT)
    notify_changed(salt, server=other)
    notify_changed(Book, server=other)
    assert ann.heard() == []
    notify_changed(salt, server=server)
    assert ann.heard() == [SALT, LIST]


def test_what_is_published_in_a_transaction_is_heard_when_it_is_committed(
    server: MCPServer, ear: Callable[..., Ear], salt: Book
) -> None:
    everything(server)
    ann = ear("ann", SALT)
    with transaction.atomic():
        notify_changed(salt)
        transaction.set_rollback(True)
    assert ann.heard() == []


def test_publishing_nothing_tells_nothing(server: MCPServer) -> None:
    everything(server)
    notify_changed([])
    notify_changed(Book.objects.none())
    assert not Event.objects.exists()


@pytest.mark.parametrize("what", [7, [7], int, Book.objects.values("slug")], ids=["int", "ints", "class", "values"])
def test_what_is_no_row_cannot_be_published(server: MCPServer, salt: Book, what: Any) -> None:
    with pytest.raises(TypeError):
        notify_changed(what)


def test_a_coroutine_may_publish(server: MCPServer, ear: Callable[..., Ear], salt: Book) -> None:
    everything(server)
    ann = ear("ann", SALT)

    async def change() -> None:
        await salt.asave()
        notify_changed(salt)
        await sync_to_async(connections.close_all)()

    ann.talk.room.run(change())
    ann.talk.room.run(_settled())
    assert ann.heard() == [SALT, SALT, LIST]


async def _settled() -> None:
    """Until what is written in the background is written."""
    for future in list(changes._background):
        await future


def test_what_is_only_for_us_is_not_sent(server: MCPServer, ear: Callable[..., Ear], salt: Book) -> None:
    everything(server)
    ann = ear("ann", SALT)
    salt.delete()
    assert ann.heard() == [SALT, LIST]
    logged = [json.loads(data) for data in Event.objects.values_list("data", flat=True) if "method" in data]
    assert any("about" in each for each in logged)
    sent = ann.talk.heard if ann.talk.is_modern else [event.message for event in ann.stream.events if event.message]
    assert "about" not in json.dumps(sent)
    assert MARK in json.dumps(sent)
