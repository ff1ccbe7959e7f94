"""What was written for somebody is in the history that the admin shows of a row; what was not written is not."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from django.contrib.admin.models import ADDITION, CHANGE, DELETION, LogEntry
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.db import connection
from django.test import Client as Browser

from demo_project.travel.models import Document
from django_mcp import APIKeyAuthentication, Context, MCPServer, ModelResource, ToolError, register
from django_mcp.auth.api_keys import create_key
from tests.clients import MODERN, Answer
from tests.model_resources.allowing import Books, allow
from tests.model_resources.conftest import ByName, Reader
from tests.model_resources.library.models import Book, Copy, Review

Make = Callable[..., Reader]


class Documents(ModelResource):
    """What the demo's own admin has too."""

    fields = ("title", "category")
    lookup_field = "slug"
    actions = ("create", "update", "delete")
    writable_fields = ("title", "slug", "category", "text", "updated")


class Reviews(ModelResource):
    """Rows that everybody may write."""

    fields = ("text",)
    actions = ("create", "update", "delete")
    writable_fields = ("text",)
    view_permission = add_permission = change_permission = delete_permission = None

    def save_model(self, ctx: Context, obj: Any, change: bool) -> None:
        if not change:
            obj.book, obj.stars = Book.objects.get(slug="tides"), 3
        super().save_model(ctx, obj, change)


@pytest.fixture(params=[MODERN])
def version(request: pytest.FixtureRequest) -> str:
    """One is enough: history is made where no version is known any more."""
    return str(request.param)


@pytest.fixture
def server(make_server: Callable[..., MCPServer], db: None) -> MCPServer:
    """An endpoint for keys, names and nobody."""
    return make_server(authentication=[APIKeyAuthentication(), ByName()], scopes=[])


@pytest.fixture
def ann(server: MCPServer, reader: Make, books: list[Book], people: Mapping[str, User]) -> Reader:
    """Ann may do everything to books."""
    register(Book, Books, server=server)
    allow(people["ann"], "add_book", "change_book", "delete_book")
    return reader("ann")


def history(model: Any = Book) -> list[tuple[str, int, str, str]]:
    """User, kind, text of the row and what changed, the oldest first."""
    entries = LogEntry.objects.filter(content_type=ContentType.objects.get_for_model(model)).order_by("pk")
    return [(str(each.user), each.action_flag, each.object_repr, each.get_change_message()) for each in entries]


def test_the_admin_shows_who_added_changed_and_deleted_a_row(
    server: MCPServer, reader: Make, people: Mapping[str, User]
) -> None:
    register(Document, Documents, server=server)
    root, browser = reader("root"), Browser()
    browser.force_login(people["root"])
    root.data("create_document", title="Rail", slug="rail", category="guide", text="Trains.", updated="2026-01-02")
    pk = Document.objects.get(slug="rail").pk
    root.data("update_document", slug="rail", title="Railways", text="More trains.")

    page = browser.get(f"/admin/travel/document/{pk}/history/").content.decode()
    added, changed = page.partition("Added.")[::2]
    assert "root" in added
    assert "root" in changed
    assert "changed title and text." in changed.lower()

    root.data("delete_document", slug="rail")
    start = browser.get("/admin/").content.decode()
    assert 'class="deletelink"' in start
    assert "Railways" in start
    assert [each[1:3] for each in history(Document)] == [
        (ADDITION, "Rail"),
        (CHANGE, "Railways"),
        (DELETION, "Railways"),
    ]
    assert {each.object_id for each in LogEntry.objects.all()} == {str(pk)}


def test_each_write_is_one_entry_in_the_name_of_its_caller(ann: Reader, reader: Make) -> None:
    ann.data("create_book", title="Reef", slug="reef")
    ann.data("update_book", slug="reef", price="3.50", new_slug="atoll")
    reader("root").data("update_book", slug="atoll", title="Atoll")
    ann.data("get_book", slug="atoll")
    ann.data("delete_book", slug="atoll")
    reef, atoll = "Reef", "Atoll"
    assert [each[:2] for each in history()] == [
        ("ann", ADDITION),
        ("ann", CHANGE),
        ("root", CHANGE),
        ("ann", DELETION),
    ]
    texts = [each[2] for each in history()]
    assert all(word in text for word, text in zip([reef, reef, atoll, atoll], texts, strict=True)), texts
    messages = [each[3].lower() for each in history()]
    assert messages[0] == "added."
    assert "price" in messages[1]
    assert "slug" in messages[1]
    assert messages[2:] == ["changed title.", ""]


def test_rows_are_written_where_the_table_of_the_history_was_dropped(
    ann: Reader, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As by NetBox, which has no admin, until its owner installs one for approvals."""
    monkeypatch.setattr(LogEntry._meta, "db_table", "dropped_log")
    ann.data("create_book", title="Reef", slug="reef")
    ann.data("update_book", slug="reef", title="Atoll")
    ann.data("delete_book", slug="reef")
    assert caplog.text.count("The history of the admin is not written: its table dropped_log does not exist.") == 1
    assert not Book.objects.filter(slug="reef").exists()


def test_a_long_name_is_cut_and_keeps_nobody_from_writing(ann: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Book, "__str__", lambda self: f"{self.title} " * 60)
    ann.data("update_book", slug="salt", title="Pepper")
    ((_, _, text, _),) = history()
    assert text.startswith("Pepper Pepper")
    assert len(text) == 200


def test_what_is_refused_leaves_no_entry(ann: Reader, books: list[Book]) -> None:
    Copy.objects.create(book=books[0], number=1, note="keeps it")
    before = sorted(Book.objects.values_list("slug", "title", "price"))
    for name, arguments in (
        ("create_book", {"title": "Salt again", "slug": "salt"}),
        ("create_book", {"title": "No slug"}),
        ("update_book", {"slug": "salt", "price": "a lot"}),
        ("update_book", {"slug": "salt", "new_slug": "tides"}),
        ("update_book", {"slug": "salt"}),
        ("update_book", {"slug": "nosuch", "title": "Pepper"}),
        ("delete_book", {"slug": "salt"}),
        ("delete_book", {"slug": "nosuch"}),
    ):
        assert ann.problem(name, **arguments)
        assert sorted(Book.objects.values_list("slug", "title", "price")) == before, (name, arguments)
        assert history() == [], (name, arguments)


def test_who_may_not_write_leaves_no_entry(ann: Reader, reader: Make) -> None:
    for other in (reader("bob"), reader()):
        for name, arguments in (("update_book", {"title": "Mine"}), ("delete_book", {})):
            assert other.call(name, slug="salt", **arguments).error["code"] == -32602
    assert history() == []


class Falling(Books):
    """Fails after it has written."""

    def save_model(self, ctx: Context, obj: Any, change: bool) -> None:
        super().save_model(ctx, obj, change)
        raise ToolError("The printer is on fire.")

    def delete_model(self, ctx: Context, obj: Any) -> None:
        super().delete_model(ctx, obj)
        raise ToolError("The printer is on fire.")


@pytest.mark.postgresql
@pytest.mark.django_db(transaction=True)
def test_the_entry_of_what_is_rolled_back_goes_with_it(server: MCPServer, reader: Make, books: list[Book]) -> None:
    register(Book, Falling, server=server)
    assert not connection.in_atomic_block, "or it would be the test that rolls back"
    for name, arguments in (
        ("create_book", {"title": "Reef", "slug": "reef"}),
        ("update_book", {"slug": "salt", "title": "Pepper"}),
        ("delete_book", {"slug": "salt"}),
    ):
        assert reader("root").problem(name, **arguments) == "The printer is on fire."
        assert history() == [], name
        assert Book.objects.filter(slug="salt", title="Salt").exists(), name
        assert not Book.objects.filter(slug="reef").exists(), name


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", ["update_book", "delete_book"])
def test_where_the_history_cannot_be_written_nothing_is(
    ann: Reader, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    def broken(**_: Any) -> None:
        raise RuntimeError("the history is full")

    monkeypatch.setattr(LogEntry.objects, "create", broken)
    given = {"title": "Pepper"} if name == "update_book" else {}
    assert ann.problem(name, slug="salt", **given).startswith("Internal server error.")
    assert Book.objects.filter(slug="salt", title="Salt").exists()


def test_a_program_with_a_key_writes_in_the_name_of_whose_key_it_is(
    ann: Reader, server: MCPServer, people: Mapping[str, User]
) -> None:
    _, key = create_key(people["ann"], "for the tests", endpoints=["test"], scopes=[])
    params = {"name": "update_book", "arguments": {"slug": "tides", "title": "Ebb"}}
    answer: Answer = ann.request("tools/call", params, headers={"x-user": None, "authorization": f"Bearer {key}"})
    assert answer.result["structuredContent"]["title"] == "Ebb"
    ((user, action, _, message),) = history()
    assert (user, action, message.lower()) == ("ann", CHANGE, "changed title.")


def test_what_nobody_in_particular_writes_has_no_entry(server: MCPServer, reader: Make, books: list[Book]) -> None:
    """An entry needs a user; the log of calls has it all the same."""
    register(Review, Reviews, server=server)
    nobody = reader()
    pk = nobody.data("create_review", text="Windy.")["uri"].rpartition("/")[2]
    assert nobody.data("update_review", pk=int(pk), text="Calm.")["text"] == "Calm."
    nobody.data("delete_review", pk=int(pk))
    assert not Review.objects.filter(pk=pk).exists()
    assert LogEntry.objects.count() == 0
