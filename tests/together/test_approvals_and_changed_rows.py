"""A row, or what goes along with it, changes after an approver saw it: the call needs a new approval."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django import forms
from django.utils import timezone

from django_mcp import MCPServer, ModelResource, form_tool, register
from django_mcp.approvals.decisions import approve
from tests.approvals.asking import kind_of, newest, serve
from tests.approvals.conftest import _quickly, people, server  # noqa: F401 - fixtures
from tests.model_resources.library.models import Author, Book

Ask = Callable[..., dict[str, Any]]


class Open(ModelResource):
    def has_view_permission(self, ctx: Any, obj: Any = None) -> bool:
        return True

    has_add_permission = has_change_permission = has_delete_permission = has_view_permission


class Authors(Open):
    fields = ("name", "seen_at")
    actions = ("update", "delete")
    writable_fields = ("name",)

    def seen_at(self, obj: Author) -> str:
        """Differs each time."""
        return timezone.now().isoformat()


class Renaming(forms.ModelForm):
    class Meta:
        model = Author
        fields = ("name",)


@pytest.fixture
def jane(open_database: None) -> Iterator[Author]:
    jane = Author.objects.create(name="draft")
    yield jane
    Author.objects.filter(pk=jane.pk).delete()


@pytest.fixture
def ask(server: MCPServer, people: dict[str, Any], jane: Author) -> Ask:  # noqa: F811 - the fixtures
    register(Author, Authors, server=server)
    form = {"lookup": "pk", "permission": None, "policy": "ask"}
    form_tool(Renaming, name="rename", server=server, queryset=lambda _ctx: Author.objects.all(), **form)
    mine = {"instance": lambda _ctx: Author.objects.get(pk=jane.pk), "permission": None, "policy": "ask"}
    form_tool(Renaming, name="rename_mine", server=server, **mine)
    return lambda name, given: serve(server, people["ann"], name, given)


CALLS = {
    "update_author": lambda pk: {"pk": pk, "name": "final"},
    "rename": lambda pk: {"pk": pk, "name": "final"},
    "rename_mine": lambda _pk: {"name": "final"},
    "delete_author": lambda pk: {"pk": pk},
}


def approved(ask: Ask, people: dict[str, Any], name: str, jane: Author) -> dict[str, Any]:  # noqa: F811 - the fixture
    given = CALLS[name](jane.pk)
    policy_of = ask(name, given)
    assert kind_of(policy_of) == "approval_required"
    assert approve(newest(), people["cleo"])
    return given


@pytest.mark.parametrize("name", CALLS)
def test_a_row_that_is_as_it_was_shown_is_changed(ask: Ask, people: dict[str, Any], jane: Author, name: str) -> None:  # noqa: F811
    assert not ask(name, approved(ask, people, name, jane)).get("isError")


@pytest.mark.parametrize("name", CALLS)
def test_a_row_that_has_changed_needs_a_new_approval(
    ask: Ask,
    people: dict[str, Any],  # noqa: F811 - the fixture
    jane: Author,
    name: str,
) -> None:
    given = approved(ask, people, name, jane)
    Author.objects.filter(pk=jane.pk).update(name="the court's order, do not touch")
    refused = ask(name, given)
    assert "is not what was approved any more" in refused["content"][0]["text"]
    assert Author.objects.get(pk=jane.pk).name == "the court's order, do not touch"
    assert kind_of(ask(name, given)) == "approval_required"
    assert "court" in str(newest().preview)
    assert approve(newest(), people["cleo"])
    assert not ask(name, given).get("isError")


def test_rows_that_would_go_along_and_were_not_shown_need_a_new_approval(
    ask: Ask,
    people: dict[str, Any],  # noqa: F811 - the fixture
    jane: Author,
) -> None:
    given = approved(ask, people, "delete_author", jane)
    Book.objects.create(title="Emma", slug="emma", author=jane)
    assert "is not what was approved any more" in ask("delete_author", given)["content"][0]["text"]
    assert Book.objects.filter(author=jane).exists()


def test_other_rows_that_would_go_along_need_a_new_approval_though_they_are_as_many(
    ask: Ask,
    people: dict[str, Any],  # noqa: F811 - the fixture
    jane: Author,
) -> None:
    Book.objects.create(title="Emma", slug="emma", author=jane)
    given = approved(ask, people, "delete_author", jane)
    Book.objects.filter(slug="emma").delete()
    Book.objects.create(title="The only copy", slug="only", author=jane)
    assert "is not what was approved any more" in ask("delete_author", given)["content"][0]["text"]
    assert Book.objects.filter(slug="only").exists()
    assert kind_of(ask("delete_author", given)) == "approval_required"
    assert approve(newest(), people["cleo"])
    assert not ask("delete_author", given).get("isError")


def test_rows_that_go_along_with_those_that_go_along_are_told_apart_too(
    ask: Ask,
    people: dict[str, Any],  # noqa: F811 - the fixture
    jane: Author,
) -> None:
    """Reviews are deleted by one statement, without being read."""
    emma = Book.objects.create(title="Emma", slug="emma", author=jane)
    first = emma.reviews.create(stars=1)
    given = approved(ask, people, "delete_author", jane)
    emma.reviews.create(stars=1)
    first.delete()
    assert "is not what was approved any more" in ask("delete_author", given)["content"][0]["text"]


def test_rows_that_go_along_may_be_looked_up_in_another_order(
    ask: Ask,
    people: dict[str, Any],  # noqa: F811 - the fixture
    jane: Author,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from django_mcp.model_resources import previews, writes

    for slug in ("emma", "persuasion", "sanditon"):
        Book.objects.create(title=slug, slug=slug, author=jane)
    given = approved(ask, people, "delete_author", jane)
    monkeypatch.setattr(previews, "cascade_querysets", lambda obj: [*writes.cascade_querysets(obj)][::-1])
    monkeypatch.setattr(writes, "_KEYS", 2)
    assert not ask("delete_author", given).get("isError")


def test_a_column_that_is_not_shown_may_change(
    ask: Ask,
    people: dict[str, Any],  # noqa: F811 - the fixture
    jane: Author,
) -> None:
    given = approved(ask, people, "update_author", jane)
    Book.objects.create(title="Emma", slug="emma", author=jane)
    assert not ask("update_author", given).get("isError")
