"""A Django form that a tool shows to its user: its rows are those of the caller, as in the form's own tool."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from django import forms
from django.contrib.auth.models import User
from django.db import connection
from django.db.models.functions import Upper
from django.test.utils import CaptureQueriesContext

from django_mcp import Context, Elicitation, MCPServer, ModelResource, form_tool, prompt, register, tool
from django_mcp.model_resources import form_app
from django_mcp.test import MCPClient
from tests.model_resources.conftest import people  # noqa: F401 - a fixture
from tests.model_resources.library.models import Author, Book, Publisher, Tag

pytestmark = pytest.mark.django_db


class Authors(ModelResource):
    fields = ("name",)
    title_field = "name"

    def get_queryset(self, ctx: Context) -> Any:
        return Author.objects.exclude(is_anonymous_writer=True)

    def has_view_permission(self, ctx: Context, obj: Author | None = None) -> bool:
        return obj is None or obj.name != "Vera"


class Tags(ModelResource):
    fields = ("word",)
    lookup_field = "word"


class Pick(forms.Form):
    """Choose authors."""

    author = forms.ModelChoiceField(Author.objects.order_by("name"), required=False)
    others = forms.ModelMultipleChoiceField(Author.objects.order_by("name"), required=False)

    def save(self) -> str:
        chosen = [self.cleaned_data["author"], *self.cleaned_data["others"]]
        return f"picked {', '.join(each.name for each in chosen if each)}"


@pytest.fixture
def authors() -> dict[str, Author]:
    return {
        name: Author.objects.create(name=name, is_anonymous_writer=name == "Sybil", email=f"{name}@hidden.example")
        for name in ("Anna", "Sybil", "Vera")
    }


@pytest.fixture
def ask(server: MCPServer, people: Mapping[str, User]) -> Callable[..., Any]:  # noqa: F811 - the fixture
    """Ask Ann to fill in a form, and return the result with the properties of the form as she was shown it first."""

    def call(form: Any, content: Any, user: str = "ann", **options: Any) -> tuple[Any, Any]:
        shown: list[Any] = []

        name = f"choose_{len(server.tools)}"

        @tool(name=name, server=server)
        def choose(ctx: Context) -> str:
            answer = ctx.elicit("Which?", form, **options)
            return str({name: str(getattr(value, "pk", value)) for name, value in answer.data.items()})

        def answer(question: Any) -> Any:
            shown.append(question["params"]["requestedSchema"])
            return content

        result = MCPClient(people[user], server=server).call(name, answers=answer)
        return result, shown[0] if shown else None

    return call


def test_a_person_is_offered_the_rows_that_the_caller_may_see_by_their_declared_titles(
    server: MCPServer, ask: Callable[..., Any], authors: Mapping[str, Author]
) -> None:
    register(Author, Authors, server=server)
    _, shown = ask(Pick, {"author": str(authors["Anna"].pk)})
    offered = [{"const": str(authors["Anna"].pk), "title": "Anna"}]
    assert shown["properties"]["author"]["oneOf"] == offered
    assert shown["properties"]["others"]["items"] == {"anyOf": offered}
    assert "hidden.example" not in str(shown)


@pytest.mark.parametrize("name", ["Sybil", "Vera"])
@pytest.mark.parametrize("field", ["author", "others"])
def test_an_answer_with_a_hidden_row_is_refused_as_by_the_tool_of_the_form(
    server: MCPServer,
    ask: Callable[..., Any],
    authors: Mapping[str, Author],
    people: Mapping[str, User],  # noqa: F811 - the fixture
    name: str,
    field: str,
) -> None:
    register(Author, Authors, server=server)
    form_tool(Pick, server=server)
    value: Any = str(authors[name].pk) if field == "author" else [str(authors[name].pk)]
    result, _ = ask(Pick, {field: value})
    called = MCPClient(people["ann"], server=server).call("pick", {field: value})
    assert not result.ok
    assert not called.ok
    for text in (result.text, called.text):
        assert "Select a valid choice." in text
        assert "hidden.example" not in text
        assert name not in text


def test_rows_are_addressed_as_the_models_own_tools_address_them(
    server: MCPServer,
    ask: Callable[..., Any],
) -> None:
    register(Tag, Tags, server=server)
    sea = Tag.objects.create(word="sea")
    form = type("Shelve", (forms.Form,), {"tag": forms.ModelChoiceField(Tag.objects.all(), initial=sea)})
    result, shown = ask(form, {"tag": "sea"})
    assert result.text == str({"tag": str(sea.pk)})
    offered = {"type": "string", "oneOf": [{"const": "sea", "title": "sea"}], "title": "Tag", "default": "sea"}
    assert shown["properties"] == {"tag": offered}


def test_who_may_see_no_row_is_asked_for_none_and_the_tool_says_so_where_one_is_needed(
    server: MCPServer, ask: Callable[..., Any], authors: Mapping[str, Author]
) -> None:
    register(Author, Authors, server=server)
    Author.objects.filter(name="Anna").delete()
    result, shown = ask(Pick, {"author": str(authors["Sybil"].pk)})
    assert shown["properties"] == {}
    assert result.text == str({"author": "None", "others": "<QuerySet []>"})
    needed = type("Needed", (forms.Form,), {"author": forms.ModelChoiceField(Author.objects.all())})
    result, shown = ask(needed, {})
    assert shown is None
    assert result.text == "The user was not asked: there is no author to choose from."


def test_a_long_list_of_rows_is_bounded_and_one_beyond_it_is_still_an_answer(
    ask: Callable[..., Any], authors: Mapping[str, Author], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(form_app, "MAX_CHOICES", 2)
    result, shown = ask(Pick, {"author": str(authors["Vera"].pk)})
    assert len(shown["properties"]["author"]["oneOf"]) == 2
    assert shown["properties"]["author"]["description"] == "Only the first 2 are listed."
    assert result.ok


def test_a_question_that_callers_share_shows_each_their_own_rows(
    server: MCPServer,
    people: Mapping[str, User],  # noqa: F811 - the fixture
    authors: Mapping[str, Author],
) -> None:
    class OfTheirOwn(Authors):
        def get_queryset(self, ctx: Context) -> Any:
            return Author.objects.filter(name={"ann": "Anna", "root": "Sybil"}[ctx.user.username])

        def has_view_permission(self, ctx: Context, obj: Author | None = None) -> bool:
            return True

    register(Author, OfTheirOwn, server=server)
    question = Elicitation("Which?", Pick)

    @prompt(server=server)
    def choose(ctx: Context) -> str:
        return ctx.ask(question)[0].data["author"].name  # type: ignore[no-any-return]

    for user, name in (("ann", "Anna"), ("root", "Sybil")):
        found = MCPClient(people[user], server=server).prompt("choose", answers=[{"author": str(authors[name].pk)}])
        assert found.text == name


class BookForm(forms.ModelForm):
    """Changes a book."""

    author = forms.ModelChoiceField(Author.objects.order_by("name"))

    class Meta:
        """Its author is required."""

        model = Book
        fields = ("title", "author")


class Suggest(Pick):
    """Has rows to begin with."""

    def __init__(self, *args: Any, first: Author, **kwargs: Any) -> None:
        super().__init__(*args, initial={"author": first, "others": [first.pk]}, **kwargs)


def test_an_empty_answer_keeps_rows_that_are_hidden_from_the_caller(
    server: MCPServer, ask: Callable[..., Any], authors: Mapping[str, Author]
) -> None:
    register(Author, Authors, server=server)
    hidden, known = authors["Sybil"], authors["Anna"]
    book = Book.objects.create(title="Salt", slug="salt", author=hidden)
    result, shown = ask(BookForm, {"title": "Tides"}, form_kwargs={"instance": book})
    assert shown["required"] == ["title"]
    assert shown["properties"]["author"]["description"] == "Leave empty to keep the present value."
    assert result.text == str({"title": "Tides", "author": str(hidden.pk)})
    result, _ = ask(BookForm, {"title": "Tides", "author": str(known.pk)}, form_kwargs={"instance": book})
    assert result.text == str({"title": "Tides", "author": str(known.pk)})
    result, shown = ask(Suggest, {"author": ""}, form_kwargs={"first": hidden})
    assert [*shown["properties"]] == ["author"]
    assert result.text == str({"author": str(hidden.pk), "others": f"<QuerySet [<Author: {hidden}>]>"})


def test_what_a_tool_has_set_on_the_row_of_a_question_stays(
    server: MCPServer,
    people: Mapping[str, User],  # noqa: F811 - the fixture
    authors: Mapping[str, Author],
) -> None:
    book = Book.objects.create(title="Salt", slug="salt", author=authors["Anna"])

    @tool(server=server)
    def retitle(ctx: Context) -> str:
        mine = Book.objects.get(pk=book.pk)
        mine.title, mine.pages = "Tides", 7
        answer = ctx.elicit("Which title?", BookForm, form_kwargs={"instance": mine})
        return f"{answer.data['title']}, {mine.pages} pages"

    def answer(question: Any) -> Any:
        fields = question["params"]["requestedSchema"]["properties"]
        return {name: field["default"] for name, field in fields.items()}

    with CaptureQueriesContext(connection) as queries:
        result = MCPClient(people["ann"], server=server).call("retitle", answers=answer)
    assert result.text == "Tides, 7 pages"
    assert "FOR UPDATE" not in str(queries.captured_queries)


def test_an_initial_row_that_is_gone_is_left_empty(
    server: MCPServer, ask: Callable[..., Any], authors: Mapping[str, Author]
) -> None:
    register(Author, Authors, server=server)
    gone = Author.objects.create(name="Zoe")
    Author.objects.filter(pk=gone.pk).delete()
    result, _ = ask(Suggest, {}, form_kwargs={"first": gone})
    assert result.text == str({"author": "None", "others": "<QuerySet []>"})


@pytest.mark.parametrize("title", ["publisher__name", "loud"])
def test_titles_of_rows_to_choose_from_take_no_query_of_each_row(
    server: MCPServer,
    ask: Callable[..., Any],
    people: Mapping[str, User],  # noqa: F811 - the fixture
    title: str,
) -> None:
    class Titled(ModelResource):
        fields = ("publisher__name", "loud")
        annotations: Mapping[str, Any] = {"loud": Upper("name")}
        title_field = title

    register(Author, Titled, server=server)
    form_tool(Pick, server=server)
    publisher = Publisher.objects.create(name="HARBOUR HOUSE")
    counts = []
    for _ in range(2):
        Author.objects.create(name="Harbour House", publisher=publisher)
        with CaptureQueriesContext(connection) as queries:
            _, shown = ask(Pick, {})
            refused = MCPClient(people["ann"], server=server).call("pick", {"author": 2**31 - 1})
        # Not those of the session: how often it looks for an answer depends on the time that one takes.
        counts.append(sum("library_" in query["sql"] for query in queries.captured_queries))
        assert {each["title"] for each in shown["properties"]["author"]["oneOf"]} == {"HARBOUR HOUSE"}
        assert "(HARBOUR HOUSE)" in refused.text
    assert counts[0] == counts[1] > 0


def test_a_form_gets_what_the_tool_gives_it(ask: Callable[..., Any], authors: Mapping[str, Author]) -> None:
    class Mine(Pick):
        def __init__(self, *args: Any, letter: str, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.fields["author"].queryset = Author.objects.filter(name__startswith=letter)

    result, shown = ask(Mine, {"author": str(authors["Vera"].pk)}, form_kwargs={"letter": "V"})
    assert [option["const"] for option in shown["properties"]["author"]["oneOf"]] == [str(authors["Vera"].pk)]
    assert result.ok
    result, _ = ask(Mine, {"author": str(authors["Anna"].pk)}, form_kwargs={"letter": "V"})
    assert not result.ok


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_tools_of_both_kinds_show_a_form_without_rows(server: MCPServer, kind: str, people: Mapping[str, User]) -> None:  # noqa: F811 - the fixture
    form = type("Name", (forms.Form,), {"name": forms.CharField(max_length=5)})

    def answered(ctx: Context) -> str:
        return ctx.elicit("Who?", form).data["name"]  # type: ignore[no-any-return]

    async def answered_on_the_loop(ctx: Context) -> str:
        return answered(ctx)

    tool(answered if kind == "sync" else answered_on_the_loop, name="who", server=server)
    client = MCPClient(people["ann"], server=server)
    assert client.call("who", answers=[{"name": "Augusta"}, {"name": "Ada"}]).text == "Ada"
