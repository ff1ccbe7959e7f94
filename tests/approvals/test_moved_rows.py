"""Calls whose argument comes to address another row after they are found to be approved, and before they run."""

from collections.abc import Iterator
from typing import Annotated, Any

import pytest
from django import forms
from django.db.models.signals import post_save

from django_mcp import Context, MCPServer, ModelArgument, ModelResource, form_tool, register, tool
from django_mcp.approvals.decisions import approve
from django_mcp.models import ApprovalEvent
from tests.approvals.asking import People, kind_of, newest, serve
from tests.model_resources.library.models import Author, Book, Tag

pytestmark = pytest.mark.postgresql

SEA = "sea"


class Renaming(forms.ModelForm):
    called = forms.CharField()

    class Meta:
        model = Tag
        fields = ()


class About(forms.Form):
    tag = forms.ModelChoiceField(Tag.objects.all())


class ByWord(forms.Form):
    tags = forms.ModelMultipleChoiceField(Tag.objects.all(), to_field_name="word")


class OfTag(forms.Form):
    called = forms.CharField()

    def __init__(self, *args: Any, tag: Tag, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)


class Everybody(ModelResource):
    def has_view_permission(self, ctx: Any, obj: Any = None) -> bool:
        return True

    def has_change_permission(self, ctx: Any, obj: Any = None) -> bool:
        return True

    has_delete_permission = has_change_permission


@pytest.fixture
def sea(server: MCPServer, people: People) -> Iterator[Tag]:
    """A tag that callers address by its word, and a book that has it not yet."""

    @register(Tag, server=server)
    class Tags(Everybody):
        fields = ("word",)
        lookup_field = "word"
        actions = ("update", "delete")
        writable_fields = ("word",)

    @register(Book, server=server)
    class Books(Everybody):
        fields = ("title", "tags")
        lookup_field = "slug"
        actions = ("update",)
        writable_fields = ("tags",)

    assert Tags
    assert Books
    author = Author.objects.create(name="Anna")
    Book.objects.create(title="Reef", slug="reef", author=author)
    yield Tag.objects.create(word=SEA)
    author.delete()
    Tag.objects.all().delete()


MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "update": ("update_tag", {"word": SEA, "new_word": "lake"}),
    "delete": ("delete_tag", {"word": SEA}),
    "relation": ("update_book", {"slug": "reef", "tags": [SEA]}),
}
FORMS: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    "row of a form": (Renaming, {"lookup": "word"}, {"word": SEA, "called": "lake"}),
    "row that no argument says": (
        Renaming,
        {"instance": lambda ctx: Tag.objects.get(word=SEA)},
        {"called": "lake"},
    ),
    "row of the form's arguments": (
        Renaming,
        {"form_kwargs": lambda ctx: {"instance": Tag.objects.get(word=SEA)}},
        {"called": "lake"},
    ),
    "parent of a form": (OfTag, {"parents": {"tag": Tag}}, {"tag": SEA, "called": "lake"}),
    "parent of a set": (
        forms.formset_factory(OfTag),
        {"parents": {"tag": Tag}, "argument": "all"},
        {"tag": SEA, "all": [{"called": "lake"}]},
    ),
    "choice of a form": (About, {}, {"tag": SEA}),
    "choices by a column": (ByWord, {}, {"tags": [SEA]}),
    "set of forms": (forms.formset_factory(About), {"argument": "all"}, {"all": [{"tag": SEA}]}),
}
KINDS = (*MODELS, *FORMS, "function", "coroutine function")


def offer(server: MCPServer, kind: str, ran: list[str]) -> tuple[str, dict[str, Any]]:
    """A tool that takes a tag by its word: its name, and arguments that mean the tag "sea"."""
    if kind in MODELS:
        return MODELS[kind]
    if kind in FORMS:

        def handle(ctx: Context, form: Any) -> str:
            ran.append(kind)
            return "done"

        form, options, given = FORMS[kind]
        form_tool(form, server=server, name="work", policy="ask", permission=None, handle=handle, **options)
        return "work", given

    def work(tag: Tag) -> str:
        """Work."""
        ran.append(kind)
        return "done"

    async def awork(tag: Tag) -> str:
        """Work."""
        return work(tag)

    tool(server=server, name="work", policy="ask")(awork if kind == "coroutine function" else work)
    return "work", {"tag": SEA}


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_does_not_run_for_a_row_that_took_the_place_of_the_approved_one_at_the_last_moment(
    server: MCPServer, people: People, sea: Tag, kind: str
) -> None:
    ran: list[str] = []
    name, given = offer(server, kind, ran)
    assert kind_of(serve(server, people["ann"], name, given)) == "approval_required"
    assert approve(newest(), people["cleo"])

    def move(instance: ApprovalEvent, **_: Any) -> None:
        if instance.kind == ApprovalEvent.Kind.EXECUTED:  # the approval is used up now, and then the tool runs
            Tag.objects.filter(pk=sea.pk).update(word="ocean")
            Tag.objects.create(word=SEA)

    post_save.connect(move, sender=ApprovalEvent)
    try:
        answer = serve(server, people["ann"], name, given)
    finally:
        post_save.disconnect(move, sender=ApprovalEvent)
    assert kind_of(answer) == "expired"
    assert "refers to a different row than the one approved" in answer["content"][0]["text"]
    assert ran == []
    assert set(Tag.objects.values_list("word", flat=True)) == {"ocean", SEA}
    assert not Book.objects.get().tags.exists()
    assert newest().outcome == "error"


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_runs_for_the_row_for_which_it_was_approved(
    server: MCPServer, people: People, sea: Tag, kind: str
) -> None:
    ran: list[str] = []
    name, given = offer(server, kind, ran)
    serve(server, people["ann"], name, given)
    assert approve(newest(), people["cleo"])
    assert not serve(server, people["ann"], name, given).get("isError")
    before = {"update": {"lake"}, "delete": set()}.get(kind, {SEA})
    assert set(Tag.objects.values_list("word", flat=True)) == before
    assert newest().outcome == "ok"


@pytest.mark.parametrize("kind", ["row that no argument says", "row of the form's arguments"])
def test_a_form_of_the_row_of_the_moment_is_approved_for_the_row_that_was_shown(
    server: MCPServer, people: People, sea: Tag, kind: str
) -> None:
    ran: list[str] = []
    name, given = offer(server, kind, ran)
    assert kind_of(serve(server, people["ann"], name, given)) == "approval_required"
    ticket = newest()
    assert approve(ticket, people["cleo"], names=["called"], calls=None, seconds=3600)
    assert not serve(server, people["ann"], name, given).get("isError")
    Tag.objects.filter(pk=sea.pk).update(word="ocean")
    Tag.objects.create(word=SEA)
    assert kind_of(serve(server, people["ann"], name, given)) == "approval_required", "nor for further calls"
    assert len(ran) == 1


@pytest.mark.parametrize("by", ["instance", "form_kwargs"])
def test_a_row_that_somebody_changed_after_the_approval_keeps_the_change(
    server: MCPServer, people: People, sea: Tag, by: str
) -> None:
    class TagForm(forms.ModelForm):
        class Meta:
            model = Tag
            fields = ("word",)

    def kept(ctx: Context) -> Tag:
        return Tag.objects.get(pk=sea.pk)

    options: dict[str, Any] = (
        {"instance": kept} if by == "instance" else {"form_kwargs": lambda _: {"instance": kept(_)}}
    )
    form_tool(TagForm, server=server, name="work", policy="ask", permission=None, **options)
    assert kind_of(serve(server, people["ann"], "work", {"word": "lake"})) == "approval_required"
    assert approve(newest(), people["cleo"])
    Tag.objects.filter(pk=sea.pk).update(word="ocean")
    assert kind_of(serve(server, people["ann"], "work", {"word": "lake"})) == "expired"
    assert Tag.objects.get(pk=sea.pk).word == "ocean"


def test_a_form_asks_again_if_the_row_that_it_belongs_to_was_renamed_after_the_approval(
    server: MCPServer, people: People, sea: Tag
) -> None:
    parents = {"tag": Annotated[Tag, ModelArgument(lambda ctx: Tag.objects.all())]}
    ran: list[Any] = []

    def handle(ctx: Context, form: Any, tag: Tag) -> str:
        ran.append(tag)
        return "done"

    form_tool(OfTag, server=server, name="work", policy="ask", parents=parents, handle=handle)
    given = {"tag": sea.pk, "called": "lake"}
    assert kind_of(serve(server, people["ann"], "work", given)) == "approval_required"
    assert approve(newest(), people["cleo"])
    Tag.objects.filter(pk=sea.pk).update(word="ocean")
    assert kind_of(serve(server, people["ann"], "work", given)) == "expired"
    assert ran == []
    assert kind_of(serve(server, people["ann"], "work", given)) == "approval_required"
    assert approve(newest(), people["cleo"])
    assert not serve(server, people["ann"], "work", given).get("isError")
    assert ran == [sea]


def test_an_approval_for_further_calls_is_for_the_row_that_the_form_belongs_to(
    server: MCPServer, people: People, sea: Tag
) -> None:
    form_tool(OfTag, server=server, name="work", policy="ask", parents={"tag": Tag}, handle=lambda ctx, form: "done")
    Tag.objects.create(word="lake")
    serve(server, people["ann"], "work", {"tag": SEA, "called": "x"})
    ticket = newest()
    assert {"tag", "called"} <= set(ticket.parts), "the page offers both"
    assert approve(ticket, people["cleo"], names=["tag"], calls=None, seconds=3600)
    assert not serve(server, people["ann"], "work", {"tag": SEA, "called": "x"}).get("isError")
    assert not serve(server, people["ann"], "work", {"tag": SEA, "called": "y"}).get("isError")
    assert kind_of(serve(server, people["ann"], "work", {"tag": "lake", "called": "x"})) == "approval_required"
