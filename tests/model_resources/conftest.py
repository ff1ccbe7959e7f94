"""A library at an endpoint, and people who ask for its books."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, Permission, User

from django_mcp import BaseAuthentication, MCPServer, Principal, RequestHead
from tests import conftest as everywhere
from tests.clients import Answer, Client
from tests.model_resources.library.models import Author, Book, Publisher, Review, Tag

version = everywhere.version
"""For the folders that take this one's fixtures."""


class ByName(BaseAuthentication):
    """Recognises users by the name in ``X-User``; whoever names none is anonymous."""

    def authenticate(self, head: RequestHead, server: object) -> Principal | None:
        name = head.headers.get("x-user")
        user = User.objects.get(username=name) if name else AnonymousUser()
        scopes = head.headers.get("x-scopes")
        return Principal(
            kind="name", id=name or "", user=user, scopes=None if scopes is None else frozenset(scopes.split())
        )


class Reader(Client):
    """A client of one user. It goes through the Django view, in the test's own thread and transaction."""

    user: str = ""
    scopes: str | None = None

    def compose(self, method: str, params: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
        body, headers = super().compose(method, params)
        named = {"x-user": self.user} if self.user else {}
        scoped = {} if self.scopes is None else {"x-scopes": self.scopes}
        return body, {**headers, **named, **scoped}

    def read(self, uri: str) -> Any:
        """The JSON of a resource."""
        return json.loads(self.contents(uri)["text"])

    def contents(self, uri: str) -> Mapping[str, Any]:
        (contents,) = self.request("resources/read", {"uri": uri}).result["contents"]
        return contents

    def data(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """The structured content of a tool's result, which must not be an error."""
        result = self.call(tool, **arguments).result
        assert not result.get("isError"), result["content"][0]["text"]
        return result["structuredContent"]

    def problem(self, tool: str, /, **arguments: Any) -> str:
        """The words of a tool's error."""
        answer: Answer = self.call(tool, **arguments)
        assert answer.result.get("isError"), answer.result
        return answer.text

    def tool_names(self) -> set[str]:
        return {tool["name"] for tool in self.list("tools/list")}


@contextmanager
def registering(server: MCPServer) -> Iterator[None]:
    """What is registered within is gone afterwards, so that one test goes through many declarations."""
    before = server.snapshot()
    try:
        yield
    finally:
        server.restore(before)


@pytest.fixture
def server(make_server: Callable[..., MCPServer], db: None) -> MCPServer:
    """An endpoint with no models yet, that recognises users by name."""
    return make_server(authentication=[ByName()])


@pytest.fixture
def reader(server: MCPServer, version: str) -> Callable[..., Reader]:
    """Makes a client of the user of a name; with no name, of nobody."""

    def make(user: str = "", scopes: str | None = None) -> Reader:
        made = Reader(server, version, "view")
        made.user, made.scopes = user, scopes
        return made

    return make


@pytest.fixture
def people(db: None) -> Mapping[str, User]:
    """Ann may view all of the library, Bob nothing; Root is a superuser."""
    ann, bob = User.objects.create_user("ann"), User.objects.create_user("bob")
    viewing = Permission.objects.filter(content_type__app_label="library", codename__startswith="view_")
    ann.user_permissions.set(viewing)
    return {"ann": ann, "bob": bob, "root": User.objects.create_superuser("root")}


@pytest.fixture
def books(people: Mapping[str, User]) -> list[Book]:
    """Five books: of two authors, one owned by Ann, one by Bob."""
    house = Publisher.objects.create(name="Harbour House")
    anna = Author.objects.create(name="Anna Berg", publisher=house)
    carl = Author.objects.create(name="Carl Dahl", email="carl@example.com")
    sea, night = Tag.objects.create(word="sea"), Tag.objects.create(word="night")
    made = [
        Book(title="Salt", slug="salt", author=anna, price="12.50", pages=210, shelf="A", owner=people["ann"]),
        Book(title="Tides", slug="tides", author=anna, price="9.90", pages=90, shelf="B", owner=people["bob"]),
        Book(title="Night Ferry", slug="night-ferry", author=carl, price="15.00", pages=340, shelf="B"),
        Book(title="Lanterns", slug="lanterns", author=carl, price="7.00", pages=60, shelf="C"),
        Book(title="Foghorn", slug="foghorn", author=carl, price="21.00", pages=500, shelf="C"),
    ]
    for book in made:
        book.save()
    made[0].tags.set([sea])
    made[2].tags.set([sea, night])
    Review.objects.create(book=made[0], text="Wet.", stars=4)
    Review.objects.create(book=made[0], text="Secret praise", stars=5, is_public=False)
    return made
