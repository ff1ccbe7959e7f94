"""An endpoint beside REST APIs, whose callers are known by their names to both."""

from collections.abc import Callable, Iterator, Mapping

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from django_mcp import MCPServer
from tests.contrib.drf.beside import api_beside
from tests.contrib.drf.snippets.models import Snippet
from tests.contrib.drf.urls import urlpatterns
from tests.model_resources.conftest import (  # noqa: F401 - fixtures
    ByName,
    Reader,
    books,
    people,
    reader,
    version,
)


@pytest.fixture(autouse=True)
def api_beside_the_endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with api_beside(urlpatterns, monkeypatch):
        yield


@pytest.fixture
def server(make_server: Callable[..., MCPServer], db: None) -> MCPServer:
    return make_server(authentication=[ByName()])


@pytest.fixture
def users(people: Mapping[str, User]) -> Mapping[str, User]:  # noqa: F811
    return people


@pytest.fixture
def snippets(users: Mapping[str, User]) -> list[Snippet]:
    """Two of Ann's, one of Bob's."""
    given = [("ann", "Hello", "print('hello')"), ("ann", "Sum", "a + b"), ("bob", "All", "select * from a < b")]
    return [Snippet.objects.create(owner=users[name], title=title, code=code) for name, title, code in given]


@pytest.fixture
def ann(reader: Callable[..., Reader], users: Mapping[str, User]) -> Reader:  # noqa: F811
    return reader("ann")


@pytest.fixture
def bob(reader: Callable[..., Reader], users: Mapping[str, User]) -> Reader:  # noqa: F811
    return reader("bob")


@pytest.fixture
def nobody(reader: Callable[..., Reader]) -> Reader:  # noqa: F811
    return reader()


@pytest.fixture
def rest(users: Mapping[str, User]) -> APIClient:
    """A REST client of Ann's."""
    client = APIClient()
    client.force_authenticate(users["ann"])
    return client
