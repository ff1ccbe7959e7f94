"""Rows that a call addresses by something that can come to address another row."""

from collections.abc import Callable, Iterator
from typing import Annotated, Any

import pytest

from django_mcp import MCPServer, ModelArgument, ModelResource, register, tool
from django_mcp.approvals.decisions import approve
from tests.approvals.asking import People, kind_of, newest, serve
from tests.model_resources.library.models import Author, Book, Tag

pytestmark = pytest.mark.postgresql


class Open(ModelResource):
    def has_view_permission(self, ctx: Any, obj: Any = None) -> bool:
        return True

    has_add_permission = has_change_permission = has_delete_permission = has_view_permission


class Tags(Open):
    lookup_field = "word"
    fields = ("word",)
    actions = ("update", "delete")
    writable_fields = ("word",)


class Books(Open):
    lookup_field = "slug"
    fields = ("title", "slug")
    actions = ("update",)
    writable_fields = ("tags", "title")


@pytest.fixture
def tags(open_database: None) -> Iterator[list[Tag]]:
    author = Author.objects.create(name="Jane")
    Book.objects.create(title="Emma", slug="emma", author=author)
    yield [Tag.objects.create(word=word) for word in ("a4", "a5")]
    Tag.objects.all().delete()
    author.delete()


@pytest.fixture
def ask(server: MCPServer, people: People, tags: list[Tag]) -> Callable[..., dict[str, Any]]:
    register(Tag, Tags, server=server)
    register(Book, Books, server=server)

    @tool(server=server, policy="ask")
    def burn(tag: Tag) -> str:
        """Burn."""
        tag.delete()
        return "burnt"

    @tool(server=server, policy="ask")
    def burn_all(words: Annotated[list[Tag], ModelArgument(lambda ctx: Tag.objects.all(), lookup_field="word")]) -> str:
        """Burn."""
        for each in words:
            each.delete()
        return "burnt"

    return lambda name, given: serve(server, people["ann"], name, given)


CALLS: dict[str, dict[str, Any]] = {
    "update_tag": {"word": "a4", "new_word": "b4"},
    "delete_tag": {"word": "a4"},
    "update_book": {"slug": "emma", "tags": ["a4"]},
    "burn": {"tag": "a4"},
    "burn_all": {"words": ["a5", "a4"]},
}


def test_a_call_is_approved_for_the_row_that_was_shown(
    ask: Callable[..., dict[str, Any]], people: People, tags: list[Tag], subtests: pytest.Subtests
) -> None:
    """The slug may be another row's by the time the call is approved."""
    for name, given in CALLS.items():
        with subtests.test(name=name):
            assert kind_of(ask(name, given)) == "approval_required"
            ticket = newest()
            assert approve(ticket, people["cleo"])
            Tag.objects.filter(word="a4").update(word="was-a4")
            other = Tag.objects.create(word="a4")
            assert kind_of(ask(name, given)) == "approval_required"
            assert newest().pk != ticket.pk, "somebody has to look at the other row"
            assert Tag.objects.filter(pk=other.pk, word="a4", books=None).exists()
            other.delete()
            Tag.objects.filter(word="was-a4").update(word="a4")
            assert not ask(name, given).get("isError"), "the row that was shown"
            Tag.objects.all().delete()
            for word in ("a4", "a5"):
                Tag.objects.create(word=word)


def test_an_auto_approval_of_an_argument_is_for_the_row_that_it_addressed(
    ask: Callable[..., dict[str, Any]], people: People
) -> None:
    ask("burn", {"tag": "a4"})
    assert approve(newest(), people["cleo"], names=["tag"], calls=None, seconds=3600)
    assert not ask("burn", {"tag": "a4"}).get("isError")
    other = Tag.objects.create(word="a4")
    assert kind_of(ask("burn", {"tag": "a4"})) == "approval_required"
    assert Tag.objects.filter(pk=other.pk).exists()
