"""Nobody hears of what does not exist for them: not of other people's rows, and not of their own when they are gone."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import transaction

from django_mcp import MCPServer, ModelResource, notify_changed, register
from django_mcp.core.signals import Change, rows_changed
from django_mcp.models import Event, Session
from django_mcp.pubsub import event_store
from tests.clients import LEGACY
from tests.exchange import Room
from tests.model_resources.library.models import Author, Book, Draft, Tag
from tests.model_resources.live import LIST, MARK, Ear, author, ear, everything, ones_own, people, server

__all__ = ["author", "ear", "people", "server"]

BASE = "library://book"
SALT, TIDES = f"{BASE}/salt", f"{BASE}/tides"


@pytest.fixture
def make_book(author: Author) -> Callable[..., Book]:
    return lambda slug, **fields: Book.objects.create(slug=slug, title=slug.title(), author=author, **fields)


@pytest.fixture
def salt(make_book: Callable[..., Book], people: dict[str, User]) -> Book:
    """Ann's."""
    return make_book("salt", owner=people["ann"])


def test_what_is_hidden_cannot_be_subscribed_to(server: MCPServer, ear: Callable[..., Ear], salt: Book) -> None:
    ones_own(server)
    assert ear("eve", SALT, TIDES).honoured == [MARK]
    assert ear("ann", SALT, TIDES).honoured == [MARK, SALT]


def test_other_peoples_rows_are_never_heard_of(
    server: MCPServer, ear: Callable[..., Ear], make_book: Callable[..., Book], people: dict[str, User]
) -> None:
    ones_own(server)
    eve, ann = ear("eve", BASE), ear("ann", BASE)
    tides = make_book("tides", owner=people["ann"])
    assert ann.heard() == [BASE, LIST]
    tides.save()
    assert ann.heard() == [BASE]
    notify_changed(tides)
    assert ann.heard() == [BASE, LIST]
    before = Event.objects.filter(data__contains="about").count()
    tides.delete()
    assert eve.heard() == []
    assert Event.objects.filter(data__contains="about").count() == before


def test_when_some_of_several_rows_are_ones_own_they_are_heard_of(
    server: MCPServer, ear: Callable[..., Ear], make_book: Callable[..., Book], people: dict[str, User]
) -> None:
    ones_own(server)
    eve = ear("eve", BASE)
    with transaction.atomic():
        make_book("salt", owner=people["ann"])
        make_book("tides", owner=people["eve"])
    assert eve.heard() == [BASE, LIST]


def test_a_row_that_moves_out_of_sight_is_heard_of_once_and_never_again(
    server: MCPServer, ear: Callable[..., Ear], salt: Book, people: dict[str, User]
) -> None:
    ones_own(server)
    ann = ear("ann", SALT, BASE)
    salt.save()
    assert ann.heard() == [SALT, BASE]
    salt.owner = people["eve"]
    salt.save()
    assert ann.heard() == [SALT]
    salt.save()
    salt.delete()
    assert ann.heard() == []


def test_a_row_that_moves_out_of_sight_and_is_saved_again_at_once_is_heard_of_once(
    server: MCPServer, ear: Callable[..., Ear], salt: Book, people: dict[str, User]
) -> None:
    ones_own(server)
    ann = ear("ann", SALT)
    salt.owner = people["eve"]
    for _ in range(3):
        salt.save()
    assert ann.heard() == [SALT]


def test_a_row_that_is_gone_sounds_the_same_whether_deleted_or_hidden(
    server: MCPServer, ear: Callable[..., Ear], salt: Book, make_book: Callable[..., Book], people: dict[str, User]
) -> None:
    ones_own(server)
    tides = make_book("tides", owner=people["ann"])
    ann = ear("ann", SALT, TIDES, BASE)
    salt.owner = people["eve"]
    salt.save()
    hidden = ann.heard()
    tides.delete()
    assert [uri.replace(TIDES, SALT) for uri in ann.heard()] == hidden == [SALT]


def test_rows_behind_a_manager_that_hides_some_are_not_heard_of(server: MCPServer, ear: Callable[..., Ear]) -> None:
    class Drafts(ModelResource):
        fields = ["title"]

    register(Draft, Drafts, server=server)
    kept = Draft.objects.create(title="Kept")
    ann = ear("ann", f"library://draft/{kept.pk}", "library://draft")
    Draft.objects.create(title="Gone", deleted=True)
    assert ann.heard() == []
    kept.deleted = True
    kept.save()
    assert ann.heard() == [f"library://draft/{kept.pk}"]


def test_rows_that_object_permissions_hide_are_not_heard_of(
    server: MCPServer, ear: Callable[..., Ear], make_book: Callable[..., Book], people: dict[str, User]
) -> None:
    class Books(ModelResource):
        fields = ["title"]
        lookup_field = "slug"
        object_permissions = True

        def has_view_permission(self, ctx: Any, obj: Any = None) -> bool:
            return obj is None or obj.owner_id == ctx.user.pk

    register(Book, Books, server=server)
    eve = ear("eve", BASE)
    make_book("salt", owner=people["ann"])
    assert eve.heard() == []
    make_book("tides", owner=people["eve"])
    assert eve.heard() == [BASE, LIST]


def test_who_may_not_view_a_model_hears_nothing_of_it(
    server: MCPServer, ear: Callable[..., Ear], make_book: Callable[..., Book]
) -> None:
    everything(server)
    bob = ear("bob", BASE)
    assert bob.honoured == [MARK]
    make_book("salt").delete()
    notify_changed(Book)
    assert bob.heard() == []


def test_a_permission_that_is_taken_back_is_missed_at_once(
    server: MCPServer, ear: Callable[..., Ear], salt: Book, make_book: Callable[..., Book], people: dict[str, User]
) -> None:
    everything(server)
    ann = ear("ann", SALT)
    salt.save()
    assert ann.heard() == [SALT]
    people["ann"].user_permissions.clear()
    salt.save()
    assert ann.heard() == [LIST, SALT]
    salt.save()
    make_book("tides")
    assert ann.heard() == []


@pytest.mark.parametrize("is_deleted", [True, False])
def test_a_user_who_is_gone_hears_nothing(
    server: MCPServer, ear: Callable[..., Ear], salt: Book, people: dict[str, User], is_deleted: bool
) -> None:
    class Books(ModelResource):
        fields = ["title"]
        view_permission = None

    register(Book, Books, server=server)
    eve = ear("eve", BASE)
    if is_deleted:
        people["eve"].delete()
    else:
        User.objects.filter(pk=people["eve"].pk).update(is_active=False)
    salt.delete()
    assert eve.is_over() if is_deleted else eve.heard() == []


def test_a_tag_is_no_news_when_a_book_has_it_that_is_hidden(
    server: MCPServer, ear: Callable[..., Ear], salt: Book
) -> None:
    ones_own(server)

    class Tags(ModelResource):
        fields = ["word", "books"]
        title_field = "word"

    register(Tag, Tags, server=server)
    sea = Tag.objects.create(word="sea")
    uri = f"library://tag/{sea.pk}"
    ann, eve = ear("ann", uri), ear("eve", uri)
    salt.tags.add(sea)
    assert ann.heard() == [uri]
    sea.books.remove(salt)
    assert ann.heard() == [uri]
    sea.books.add(salt)
    sea.books.clear()
    assert eve.heard() == []


def test_where_a_site_fails_to_say_what_exists_nothing_is_told_of_it_and_nothing_is_lost(
    server: MCPServer, ear: Callable[..., Ear], salt: Book, caplog: pytest.LogCaptureFixture
) -> None:
    class Books(ModelResource):
        fields = ["title"]
        lookup_field = "slug"
        is_broken = False

        def get_queryset(self, ctx: Any) -> Any:
            if type(self).is_broken:
                raise RuntimeError
            return super().get_queryset(ctx)

    register(Book, Books, server=server)
    ann = ear("ann", SALT)
    Books.is_broken = True
    rows_changed.send(sender=None, changes=[Change(server, uri) for uri in (SALT, MARK)])
    assert ann.heard() == []  # up to the mark that came with it
    assert "no notifications sent to" in caplog.text
    assert ann.heard() == []
    Books.is_broken = False
    salt.save()
    assert ann.heard() == []
    assert ann.heard() == [SALT]


# A session's subscriptions live longer than its stream


with_sessions = pytest.mark.parametrize("version", [LEGACY])


@with_sessions
def test_what_is_gone_when_a_stream_begins_is_not_heard_of(
    server: MCPServer, ear: Callable[..., Ear], salt: Book, people: dict[str, User]
) -> None:
    ones_own(server)
    ann = ear("ann", SALT)
    ann.stream.leave()
    salt.owner = people["eve"]
    salt.save()
    ann.open()
    salt.save()
    assert ann.heard() == []
    assert Session.objects.get().subscriptions == [MARK]


@with_sessions
def test_a_subscription_that_is_read_late_does_not_bring_back_what_is_gone(
    server: MCPServer,
    ear: Callable[..., Ear],
    salt: Book,
    people: dict[str, User],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Streams look back for entries that were committed late, and so may read older ones too."""
    since, may_read = event_store.since, threading.Event()

    def read_late(*arguments: Any) -> Any:
        assert may_read.wait(20)
        return since(*arguments)

    monkeypatch.setattr(event_store, "since", read_late)
    ones_own(server)
    ann = ear("ann", SALT)
    ann.stream.leave()
    salt.owner = people["eve"]
    salt.save()
    ann.open()
    may_read.set()
    assert ann.heard() == []
    salt.save()
    assert ann.heard() == []


@with_sessions
def test_what_went_while_the_stream_was_away_is_heard_of_once_when_it_is_resumed(
    server: MCPServer, ear: Callable[..., Ear], salt: Book, people: dict[str, User]
) -> None:
    ones_own(server)
    ann = ear("ann", SALT)
    (opened,) = (event.id for event in ann.stream.events)
    ann.stream.leave()
    salt.owner = people["eve"]
    salt.save()
    salt.delete()
    ann.open(opened)
    assert ann.heard() == [SALT]
    ann.stream.leave()
    ann.open(opened)
    assert ann.heard() == []


@with_sessions
def test_a_stream_that_is_resumed_at_another_worker_has_everything_once(
    server: MCPServer, ear: Callable[..., Ear], salt: Book
) -> None:
    ones_own(server)
    ann = ear("ann", SALT)
    (opened,) = (event.id for event in ann.stream.events)
    ann.stream.leave()
    salt.save()
    with Room(server, "asgi") as elsewhere:
        ann.talk.room = elsewhere
        ann.open(opened)
        salt.save()
        assert ann.heard() == [SALT, SALT]


@with_sessions
def test_what_came_back_can_be_subscribed_to_again(
    server: MCPServer, ear: Callable[..., Ear], salt: Book, people: dict[str, User]
) -> None:
    ones_own(server)
    ann = ear("ann", SALT)
    salt.owner = people["eve"]
    salt.save()
    assert ann.heard() == [SALT]
    assert Session.objects.get().subscriptions == [MARK]
    salt.owner = people["ann"]
    salt.save()
    assert ann.heard() == []
    assert ann.talk.request("resources/subscribe", {"uri": SALT}).result == {}
    salt.save()
    assert ann.heard() == [SALT]
