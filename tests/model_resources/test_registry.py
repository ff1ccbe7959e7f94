"""Registering and unregistering models after the start."""

from collections.abc import Callable
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from django_mcp import MCPServer, ModelResource, register, tool, unregister
from tests.model_resources.library.models import Author, Book


class Titles(ModelResource):
    fields = ["title"]


class Names(ModelResource):
    fields = ["name"]


def offered(server: MCPServer) -> list[set[Any]]:
    return [{*server.tools}, {*server.resources}, {*server.templates}, {*server.model_resources}]


def test_what_cannot_be_unregistered_leaves_everything_as_it_was(
    server: MCPServer, make_server: Callable[..., MCPServer]
) -> None:
    copied = make_server("copied", source=server)
    register(Book, server=server)(Titles)
    register(Author, server=server)(Names)

    @tool(server=server)
    def lend(book: Book) -> str:
        """Lend a book."""
        return book.title

    before = offered(server), offered(copied)
    for _ in range(2):
        with pytest.raises(ImproperlyConfigured, match="lend"):
            unregister(Book, server=server)
        assert (offered(server), offered(copied)) == before
    unregister(Author, server=server)
    assert "search_books" in server.tools
    assert "search_authors" not in server.tools
