"""Forms as tools of which calls have to be approved: what was shown is what runs, for that row alone."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django import forms
from django.db import connections
from django.http import HttpRequest

from django_mcp import Context, MCPServer, ModelResource, Principal, form_tool, register, tool
from django_mcp.approvals.decisions import approve
from django_mcp.approvals.previews import preview_of
from django_mcp.core.concurrency import INLINE, run_inline
from django_mcp.core.request import CallSource
from django_mcp.models import Approval
from django_mcp.protocol.jsonrpc import Request
from django_mcp.protocol.meta import ClientInfo
from django_mcp.pubsub.once import StepChannel
from tests.approvals.asking import People, kind, kind_of, newest, serve
from tests.behaviour.users import as_user
from tests.clients import Answer, Client
from tests.model_resources.library.models import Author, Tag


class Name(forms.ModelForm):
    class Meta:
        model = Author
        fields = ("name",)


class Moving(forms.Form):
    day = forms.DateField()
    cost = forms.DecimalField(required=False)


@pytest.fixture
def authors(open_database: None) -> Iterator[list[Author]]:
    yield [Author.objects.create(name=f"name-{number}") for number in range(3)]
    Author.objects.all().delete()


@pytest.fixture
def renaming(server: MCPServer, authors: list[Author]) -> list[Author]:
    form_tool(
        Name,
        server=server,
        name="rename",
        lookup="pk",
        queryset=lambda ctx: Author.objects.all(),
        permission=None,
        policy="ask",
    )
    return authors


def names(authors: list[Author]) -> list[str]:
    return [Author.objects.get(pk=author.pk).name for author in authors]


def test_an_auto_approval_with_every_argument_is_for_that_row_alone(
    server: MCPServer, people: People, renaming: list[Author]
) -> None:
    first, second, _ = renaming
    ann = people["ann"]
    serve(server, ann, "rename", {"pk": first.pk, "name": "new"})
    ticket = newest()
    assert {"pk", "name"} <= set(ticket.parts), "the page offers both"
    assert approve(ticket, people["cleo"], names=["pk", "name"], calls=None, seconds=3600)
    assert not serve(server, ann, "rename", {"pk": first.pk, "name": "new"}).get("isError")
    assert kind_of(serve(server, ann, "rename", {"pk": second.pk, "name": "new"})) == "approval_required"
    assert names(renaming) == ["new", "name-1", "name-2"]


def test_the_preview_of_a_form_leaves_its_arguments_to_the_call_that_waits(
    server: MCPServer, people: People, renaming: list[Author]
) -> None:
    tool_ = server.tools["rename"]
    keywords = tool_.arguments.validate({"pk": renaming[0].pk, "name": "new"})
    principal = Principal("test", "ann", people["ann"])
    info = ClientInfo("tests", "1")
    context = Context(
        CallSource(server, principal, INLINE, HttpRequest), Request(1, "tools/call", {}), StepChannel(), info
    )
    assert run_inline(preview_of(context, tool_, keywords)).value["changes"]
    assert keywords["given"] == {"pk": renaming[0].pk, "name": "new"}


def test_nobody_is_asked_about_an_invalid_form_whose_preview_the_site_has_written(
    server: MCPServer, people: People
) -> None:
    class Order(forms.Form):
        seats = forms.IntegerField(max_value=9)

    form_tool(Order, server=server, handle=lambda ctx, form: "Ordered.", policy="ask", preview=lambda seats: f"{seats}")
    refused = serve(server, people["ann"], "order", {"seats": 10})
    assert refused["isError"]
    assert not Approval.objects.exists()
    assert kind_of(serve(server, people["ann"], "order", {"seats": 9})) == "approval_required"
    assert newest().preview == {"text": "9"}


def test_a_preview_that_changes_its_arguments_changes_nothing_of_the_call(server: MCPServer, people: People) -> None:
    seen: list[Any] = []

    def preview(names: list[str], more: dict[str, Any]) -> str:
        names.clear()
        more["changed"] = True
        return "nothing"

    @tool(server=server, policy="ask", preview=preview)
    def invite(names: list[str], more: dict[str, Any]) -> str:
        """Invite people."""
        seen.append((names, more))
        return "done"

    given = {"names": ["a"], "more": {}}
    serve(server, people["ann"], "invite", given)
    assert approve(newest(), people["cleo"])
    serve(server, people["ann"], "invite", given)
    assert seen == [(["a"], {})]


def test_a_form_is_approved_for_the_language_in_which_its_dates_were_read(
    server: MCPServer, people: People, client: Client
) -> None:
    ran: list[Any] = []

    def handle(ctx: Context, form: Any) -> str:
        ran.append(form.cleaned_data["day"].isoformat())
        return "moved"

    form_tool(Moving, server=server, name="move", handle=handle, permission=None, policy="ask")

    def ask(language: str) -> Answer:
        headers = {**as_user(people["ann"]), "accept-language": language}
        return client.request("tools/call", {"name": "move", "arguments": {"day": "03/04/2031"}}, headers=headers)

    assert kind(ask("en")) == "approval_required"
    assert approve(newest(), people["cleo"])
    assert kind(ask("en-gb")) == "approval_required", "there it is another day"
    assert not ask("en").result.get("isError")
    assert ran == ["2031-03-04"]


def test_a_call_is_approved_for_the_host_at_which_it_was_made(
    server: MCPServer, people: People, client: Client, pay: Any
) -> None:
    def ask(host: str) -> Answer:
        params = {"name": "pay", "arguments": {"amount": 5}}
        return client.request("tools/call", params, headers={**as_user(people["ann"]), "host": host})

    assert kind(ask("localhost")) == "approval_required"
    assert approve(newest(), people["cleo"])
    assert kind(ask("testserver")) == "approval_required"
    assert pay == []
    assert not ask("localhost").result.get("isError")
    assert Approval.objects.count() == 2


def test_less_than_nothing_is_not_nothing(server: MCPServer, people: People) -> None:
    ran: list[float] = []

    @tool(server=server, policy="ask")
    def turn(angle: float) -> str:
        """Turn."""
        ran.append(angle)
        return "turned"

    serve(server, people["ann"], "turn", {"angle": 0})
    assert approve(newest(), people["cleo"])
    assert kind_of(serve(server, people["ann"], "turn", {"angle": -0.0})) == "approval_required"
    assert ran == []


class Draft(forms.Form):
    about = forms.ModelChoiceField(Tag.objects.all())


class Drafts(forms.Form):
    about = forms.ModelMultipleChoiceField(Tag.objects.all(), to_field_name="word")


@pytest.mark.parametrize(
    ("form", "given"),
    [
        (Draft, {"about": "sea"}),
        (Drafts, {"about": ["sea"]}),
        (forms.formset_factory(Draft), {"drafts": [{"about": "sea"}]}),
    ],
)
def test_a_call_is_approved_for_the_rows_that_it_chose_and_not_for_those_that_are_called_so_since(
    server: MCPServer, people: People, open_database: None, form: Any, given: dict[str, Any]
) -> None:
    ran: list[Any] = []

    @register(Tag, server=server)
    class Tags(ModelResource):
        fields = ("word",)
        lookup_field = "word"

        def has_view_permission(self, ctx: Any, obj: Any = None) -> bool:
            return True

    assert Tags
    form_tool(form, server=server, name="draft", handle=lambda *_: ran.append("ran") or "done", policy="ask")
    before = Tag.objects.create(word="sea")
    try:
        assert kind_of(serve(server, people["ann"], "draft", given)) == "approval_required"
        ticket = newest()
        assert form is Drafts or "'sea'" in str(ticket.preview), "the approver reads what the caller gave"
        assert approve(ticket, people["cleo"])
        Tag.objects.filter(pk=before.pk).update(word="ocean")
        Tag.objects.create(word="sea")
        assert kind_of(serve(server, people["ann"], "draft", given)) == "approval_required"
        assert ran == []
        Tag.objects.filter(word="sea").delete()
        Tag.objects.filter(pk=before.pk).update(word="sea")
        assert not serve(server, people["ann"], "draft", given).get("isError")
        assert ran == ["ran"]
    finally:
        Tag.objects.all().delete()


@pytest.fixture
def audit(open_database: None, tmp_path: Path) -> Iterator[str]:
    """A second database, with a table of notes."""
    alias = "audit_of_forms"
    settings = {**connections.settings["default"], "ENGINE": "django.db.backends.sqlite3", "OPTIONS": {}}
    connections.settings[alias] = {**settings, "NAME": tmp_path / "notes.sqlite3", "ATOMIC_REQUESTS": False}
    with connections[alias].cursor() as cursor:
        cursor.execute("CREATE TABLE note (words text)")
    yield alias
    connections[alias].close()
    del connections[alias]
    del connections.settings[alias]


@pytest.mark.parametrize("lookup", [None, "pk"])
def test_what_a_form_writes_to_another_database_is_rolled_back_until_it_runs(
    server: MCPServer, people: People, authors: list[Author], audit: str, lookup: str | None
) -> None:
    class Noted(Name):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            with connections[audit].cursor() as cursor:
                cursor.execute("INSERT INTO note VALUES ('seen')")

    def notes() -> int:
        with connections[audit].cursor() as cursor:
            cursor.execute("SELECT count(*) FROM note")
            return int(cursor.fetchone()[0])

    options: dict[str, Any] = {} if lookup is None else {"lookup": lookup, "queryset": lambda ctx: Author.objects.all()}
    form_tool(Noted, server=server, name="rename", permission=None, policy="ask", **options)
    before = notes()
    given = {"name": "new"} if lookup is None else {"pk": authors[0].pk, "name": "new"}
    assert kind_of(serve(server, people["ann"], "rename", given)) == "approval_required"
    assert notes() == before
