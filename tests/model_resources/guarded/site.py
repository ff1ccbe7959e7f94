"""Asks for rows that django-guardian and rules hide, and prints what it gets as JSON. Django has to be set up."""

import json
import sys
from typing import Any

import rules
from django.contrib.auth.models import User
from django.core.management import call_command
from guardian.shortcuts import assign_perm, get_objects_for_user

from django_mcp import Context, MCPServer, ModelResource, register
from tests.clients import MODERN
from tests.model_resources.conftest import ByName, Reader
from tests.model_resources.library.models import Author, Book

call_command("migrate", run_syncdb=True, verbosity=0, skip_checks=True)
ann, bob = User.objects.create_user("ann"), User.objects.create_user("bob")
anna, carl = Author.objects.create(name="Anna Berg"), Author.objects.create(name="Carl Dahl")
books = [Book.objects.create(title=f"Book {number}", slug=f"book-{number}", author=anna) for number in range(4)]
for book in (books[1], books[3]):
    assign_perm("library.view_book", ann, book)
rules.add_perm("library.view_author", rules.predicate(lambda user, author=None: author == carl and user == bob))

row_by_row = MCPServer("row-by-row", authentication=[ByName()])
narrowed = MCPServer("narrowed", authentication=[ByName()])


@register(Book, server=row_by_row)
class Books(ModelResource):
    """Books that has_perm(permission, book) allows."""

    fields = ["title", "author"]
    lookup_field = "slug"
    search_fields = ["title"]
    object_permissions = True


@register(Author, server=row_by_row)
class Authors(ModelResource):
    """Authors, by a rule."""

    fields = ["name"]
    object_permissions = True


@register(Book, server=narrowed)
class NarrowedBooks(ModelResource):
    """The same books, by a query."""

    fields = ["title"]
    lookup_field = "slug"
    aggregates = {}
    view_permission = None

    def get_queryset(self, ctx: Context) -> Any:
        return get_objects_for_user(ctx.user, "library.view_book")


def reader(name: str, server: MCPServer) -> Reader:
    made = Reader(server, MODERN, "view")
    made.user = name
    return made


def titles(client: Reader) -> list[str]:
    return [row["title"] for row in client.data("search_books")["rows"]]


sys.stdout.write(
    json.dumps(
        {
            "ann": titles(reader("ann", row_by_row)),
            "bob": titles(reader("bob", row_by_row)),
            "listed": [each["uri"] for each in reader("ann", row_by_row).list("resources/list")],
            "hidden": reader("ann", row_by_row).problem("get_book", slug="book-0"),
            "author": reader("ann", row_by_row).read("library://book/book-1")["author"],
            "by rule": [row["name"] for row in reader("bob", row_by_row).data("search_authors")["rows"]],
            "against rule": reader("ann", row_by_row).data("search_authors")["rows"],
            "narrowed": titles(reader("ann", narrowed)),
            "counted": reader("ann", narrowed).data("aggregate_books")["groups"],
        }
    )
)
