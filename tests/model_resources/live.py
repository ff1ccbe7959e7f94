"""Whoever listens to a library, in either era, and a library whose changes are committed."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User

from django_mcp import MCPServer, ModelResource, register, resource
from tests.conversation import Conversation
from tests.exchange import Room
from tests.model_resources.conftest import ByName
from tests.model_resources.library.models import Author, Book, Draft, Publisher, Review, Tag

MARK = "test://mark"
LIST = "list"
PEOPLE = ("ann", "bob", "eve")


class Ear:
    """One stream of somebody who wants to hear when the list of resources changes, and of some resources."""

    def __init__(self, talk: Conversation, *uris: str) -> None:
        self.talk = talk
        self.uris = [MARK, *uris]
        if talk.is_modern:
            wanted = {"resourcesListChanged": True, "resourceSubscriptions": self.uris}
            self.call = talk.begin("subscriptions/listen", {"notifications": wanted})
            message = self.call.next()
            assert message is not None
            self.honoured = message["params"]["notifications"]["resourceSubscriptions"]
        else:
            self.honoured = [uri for uri in self.uris if self._subscribe(uri)]
            self.open()

    def _subscribe(self, uri: str) -> bool:
        return "result" in self.talk.request("resources/subscribe", {"uri": uri}).response

    def open(self, event_id: str | None = None) -> None:
        """Open the stream of a session, perhaps a second time."""
        self.stream = self.talk.open().get(event_id).begun()
        self.stream.next()

    def _messages(self) -> Iterator[dict[str, Any]]:
        while True:
            if self.talk.is_modern:
                message = self.call.next()
                assert message is not None, "the stream ended"
            else:
                event = self.stream.next()
                assert event is not None, "the stream ended"
                message = event.message
            if message is not None:
                yield message

    def is_over(self) -> bool:
        """Whether the stream ends, with nothing told before."""
        if self.talk.is_modern:
            message = self.call.next()
            return message is not None and "result" in message
        return all(event.message is None for event in self.stream)

    def heard(self) -> list[str]:
        """URIs of what was updated, and ``LIST``, since the last time. What came after that is told is not heard."""
        self.talk.server.notify_resource_updated(MARK)
        found: list[str] = []
        for message in self._messages():
            params = {name: value for name, value in message["params"].items() if name != "_meta"}
            if message["method"] == "notifications/resources/list_changed":
                assert params == {}
                found.append(LIST)
            elif message["method"] == "notifications/tools/list_changed":
                assert params == {}  # of rights that changed; it is the rows that are listened for
            else:
                assert message["method"] == "notifications/resources/updated"
                assert list(params) == ["uri"]
                if params["uri"] == MARK:
                    return found
                found.append(params["uri"])
        raise AssertionError


@pytest.fixture
def server(make_server: Callable[..., MCPServer], open_database: None) -> Iterator[MCPServer]:
    """An endpoint that recognises users by name. Its tests commit; what they leave is deleted."""
    server = make_server(authentication=[ByName()])
    resource(MARK, server=server)(lambda: "x")
    yield server
    for model in (Review, Draft, Book, Tag, Author, Publisher):
        model._base_manager.all().delete()
    User.objects.filter(username__in=PEOPLE).delete()
    Group.objects.all().delete()


@pytest.fixture
def people(server: MCPServer) -> dict[str, User]:
    """Ann and Eve may view all of the library, Bob nothing."""
    made = {name: User.objects.create_user(name) for name in PEOPLE}
    viewing = Permission.objects.filter(content_type__app_label="library", codename__startswith="view_")
    for name in ("ann", "eve"):
        made[name].user_permissions.set(viewing)
    return made


@pytest.fixture
def author(server: MCPServer) -> Author:
    return Author.objects.create(name="Anna Berg")


@pytest.fixture
def ear(server: MCPServer, version: str, people: dict[str, User]) -> Iterator[Callable[..., Ear]]:
    """Makes one who listens, of the user of a name, to some resources."""
    with Room(server, "asgi") as room:
        yield lambda user, *uris: Ear(Conversation(room, version, headers={"x-user": user}), *uris)


def everything(server: MCPServer) -> None:
    """Register books that all exist for everybody who may view books."""

    class Books(ModelResource):
        fields = ["title", "summary", "tags__word"]
        lookup_field = "slug"
        title_field = "title"
        content_fields = {"summary": "text/plain"}

    register(Book, Books, server=server)


def ones_own(server: MCPServer) -> None:
    """Register books of which each exists for its owner."""

    class Books(ModelResource):
        fields = ["title"]
        lookup_field = "slug"

        def get_queryset(self, ctx: Any) -> Any:
            return super().get_queryset(ctx).filter(owner=ctx.user)

    register(Book, Books, server=server)
