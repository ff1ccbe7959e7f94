"""Forms of a row that callers name, as ``Form(project=project)`` of a view whose URL names the project."""

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import pytest
from django import forms
from django.apps import apps
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured

from django_mcp import MCPServer, ModelArgument, ModelResource, form_tool, register
from django_mcp.test import MCPClient
from tests.model_resources.conftest import Reader
from tests.model_resources.library.models import Author, Book, Review, Tag
from tests.model_resources.looking import look

Made = Callable[..., Reader]


class BookForm(forms.ModelForm):
    """A form as sites write them: its row's parent comes from the URL."""

    follows = forms.ModelChoiceField(Book.objects.none(), required=False)

    class Meta:
        model = Book
        fields = ("title", "slug")

    def __init__(self, *args: Any, author: Author, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.author = author
        self.fields["follows"].queryset = author.books.all()  # type: ignore[attr-defined]

    def save(self, commit: bool = True) -> Any:
        self.instance.author = self.author
        return super().save(commit)


class NoteForm(forms.Form):
    """Write to an author."""

    text = forms.CharField()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.author = kwargs.pop("author")
        super().__init__(*args, **kwargs)

    def save(self) -> str:
        return f"{self.author.name}: {self.cleaned_data['text']}"


@pytest.fixture
def authors(server: MCPServer, books: list[Book]) -> Mapping[str, Author]:
    """Carl is hidden from everybody but superusers."""

    @register(Author, server=server)
    class Authors(ModelResource):
        fields = ("name",)
        search_fields = ("name",)

        def get_queryset(self, ctx: Any) -> Any:
            rows = super().get_queryset(ctx)
            return rows if ctx.user.is_superuser else rows.exclude(name="Carl Dahl")

    assert Authors
    return {author.name.split()[0]: author for author in Author.objects.all()}


@pytest.fixture
def ann(reader: Made, authors: Mapping[str, Author]) -> Reader:
    return reader("ann")


def of_author(server: MCPServer, form: Any = NoteForm, **options: Any) -> None:
    form_tool(form, name="work", parents={"author": Author}, server=server, **{"policy": "allow", **options})


def test_the_row_is_an_argument_and_reaches_the_form(
    server: MCPServer, ann: Reader, authors: Mapping[str, Author]
) -> None:
    of_author(server)
    schema = next(tool for tool in ann.list("tools/list") if tool["name"] == "work")["inputSchema"]
    assert [*schema["properties"]] == ["author", "text"]
    assert schema["required"] == ["author", "text"]
    assert schema["properties"]["author"]["type"] == "integer"
    assert schema["properties"]["author"]["description"] == "Primary key of the author."
    assert ann.call("work", author=authors["Anna"].pk, text="Hello").text == "Anna Berg: Hello"
    assert ann.call("work", author=str(authors["Anna"].pk), text="Hello").text == "Anna Berg: Hello"


def test_a_hidden_row_is_reported_as_one_that_does_not_exist(
    server: MCPServer, ann: Reader, reader: Made, authors: Mapping[str, Author]
) -> None:
    of_author(server)
    words = "No author with primary key '{}' found. Use search_authors to find one."
    for key in (authors["Carl"].pk, 10**6):
        assert ann.problem("work", author=key, text="Hello") == words.format(key)
    assert reader("root").call("work", author=authors["Carl"].pk, text="Hello").text == "Carl Dahl: Hello"
    assert ann.problem("work", text="Hello") == "Missing argument 'author'."
    for value in (None, True, [authors["Anna"].pk], {"pk": 1}, 1.5):
        assert "Argument 'author' must be the primary key of an author" in ann.problem("work", author=value, text="")


def test_callers_who_may_not_view_the_model_find_no_row(
    server: MCPServer, reader: Made, authors: Mapping[str, Author]
) -> None:
    of_author(server)
    assert reader("bob").problem("work", author=authors["Anna"].pk, text="Hello").startswith("No author with")


def test_choices_and_the_saved_row_are_those_of_the_parent(
    server: MCPServer, ann: Reader, books: list[Book], authors: Mapping[str, Author]
) -> None:
    of_author(server, BookForm, permission=None)
    given = {"author": authors["Anna"].pk, "title": "Reef", "slug": "reef"}
    problem = ann.problem("work", **given, follows=books[2].pk)
    assert problem.startswith("Argument 'follows': Select a valid choice.")
    assert "Salt" in problem
    assert "Night Ferry" not in problem
    ann.call("work", **given, follows=books[0].pk)
    assert Book.objects.get(slug="reef").author == authors["Anna"]


def test_the_site_decides_which_rows_there_are_and_how_they_are_named(
    server: MCPServer, ann: Reader, books: list[Book]
) -> None:
    mine = Annotated[Book, ModelArgument(lambda ctx: Book.objects.filter(owner=ctx.user), lookup_field="slug")]

    class ReviewForm(forms.Form):
        text = forms.CharField()

        def __init__(self, *args: Any, book: Book, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.book = book

        def save(self) -> str:
            return str(self.book.title)

    form_tool(ReviewForm, name="review", parents={"book": mine}, server=server)
    schema = next(tool for tool in ann.list("tools/list") if tool["name"] == "review")["inputSchema"]
    assert schema["properties"]["book"] == {
        "type": "string",
        "maxLength": 200,
        "description": "Slug of the book.",
    }
    assert ann.call("review", book="salt", text="Wet.").text == "Salt"
    words = "No book with slug '{}' found."
    assert ann.problem("review", book="tides", text="Wet.") == words.format("tides")
    assert ann.problem("review", book="nothing", text="Wet.") == words.format("nothing")


def test_a_parent_may_be_one_of_another_parent(server: MCPServer, ann: Reader, authors: Mapping[str, Author]) -> None:
    def books_of(ctx: Any, author: Author) -> Any:
        return author.books.all()

    class StarsForm(forms.Form):
        stars = forms.IntegerField()

    def handle(ctx: Any, form: Any, author: Author, book: Book) -> str:
        return f"{author.name}, {book.title}, {form.cleaned_data['stars']}"

    form_tool(
        StarsForm,
        parents={"author": Author, "book": Annotated[Book, ModelArgument(books_of, lookup_field="slug")]},
        handle=handle,
        server=server,
    )
    anna = authors["Anna"].pk
    assert ann.call("stars", author=anna, book="salt", stars=3).text == "Anna Berg, Salt, 3"
    assert ann.problem("stars", author=anna, book="foghorn", stars=3) == "No book with slug 'foghorn' found."
    assert ann.problem("stars", stars=3) == "Missing argument 'author'. Missing argument 'book'."


def test_functions_of_the_site_take_the_parent_by_its_name(
    server: MCPServer, ann: Reader, books: list[Book], authors: Mapping[str, Author]
) -> None:
    plain = forms.modelform_factory(Book, fields=("title", "slug"))
    of_author(
        server, plain, permission=None, form_kwargs=lambda ctx, author: {"instance": Book(author=author, shelf="Z")}
    )
    ann.call("work", author=authors["Anna"].pk, title="Reef", slug="reef")
    made = Book.objects.get(slug="reef")
    assert (made.author, made.shelf) == (authors["Anna"], "Z")

    first = plain
    form_tool(
        first,
        name="rename_first",
        parents={"author": Author},
        instance=lambda ctx, author: author.books.order_by("pk").first(),
        permission=None,
        policy="allow",
        server=server,
    )
    ann.call("rename_first", author=authors["Anna"].pk, title="Salt and Sand")
    books[0].refresh_from_db()
    assert books[0].title == "Salt and Sand"


def test_form_kwargs_adds_to_what_the_class_gets(server: MCPServer, ann: Reader, authors: Mapping[str, Author]) -> None:
    of_author(server, form_kwargs=lambda ctx: {"initial": {"text": f"From {ctx.user.username}"}})
    assert ann.call("work", author=authors["Anna"].pk).text == "Anna Berg: From ann"


class Moved(forms.ModelForm):
    class Meta:
        model = Book
        fields = ("title",)


@pytest.fixture
def declared_books(server: MCPServer, authors: Mapping[str, Author]) -> None:
    @register(Book, server=server)
    class Books(ModelResource):
        fields = ("title", "author")

        def get_queryset(self, ctx: Any) -> Any:
            return super().get_queryset(ctx).exclude(title="Tides")

    assert Books


@pytest.mark.usefixtures("declared_books")
def test_the_row_to_change_is_one_of_the_parent(
    server: MCPServer, reader: Made, books: list[Book], authors: Mapping[str, Author]
) -> None:
    root, anna = reader("root"), authors["Anna"].pk
    of_author(server, BookForm, lookup="pk")
    root.data("work", author=anna, pk=books[0].pk, title="Salt and Sand")
    books[0].refresh_from_db()
    assert books[0].title == "Salt and Sand"
    for other in (books[2], books[1]):  # of Carl, and hidden
        assert root.problem("work", author=anna, pk=other.pk, title="No").startswith("No book with pk")
    assert root.problem("work", author=10**6, pk=books[0].pk, title="No").startswith("No author with primary key")

    form_tool(
        Moved,
        name="move",
        parents={"author": Author},
        lookup="slug",
        queryset=lambda ctx, author: author.books.all(),
        policy="allow",
        server=server,
    )
    root.data("move", author=anna, slug="tides", title="Ebb")
    assert root.problem("move", author=anna, slug="foghorn", title="Ebb").startswith("No book with slug 'foghorn'")


class WithHidden(forms.Form):
    """As sites write them: the page has the row in a hidden field."""

    author = forms.CharField(widget=forms.HiddenInput, required=False)
    text = forms.CharField()

    def __init__(self, *args: Any, author: Author, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.of = author

    def clean_author(self) -> Author:
        assert self.cleaned_data["author"] == self.of.pk
        return self.of

    def save(self) -> str:
        return f"{self.cleaned_data['author'].name}: {self.cleaned_data['text']}"


class WithChoice(forms.ModelForm):
    class Meta:
        model = Book
        fields = ("author", "title", "slug")

    def __init__(self, *args: Any, author: Author, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)


def test_a_field_of_the_parents_name_has_its_row(
    server: MCPServer, ann: Reader, books: list[Book], authors: Mapping[str, Author]
) -> None:
    of_author(server, WithHidden)
    form_tool(WithChoice, name="add", parents={"author": Author}, permission=None, policy="allow", server=server)
    anna = authors["Anna"].pk
    assert ann.call("work", author=anna, text="Hello").text == "Anna Berg: Hello"
    ann.call("add", author=anna, title="Reef", slug="reef")
    assert Book.objects.get(slug="reef").author_id == anna
    form_tool(
        WithChoice,
        name="give",
        parents={"author": Author},
        lookup="pk",
        queryset=lambda ctx: Book.objects.all(),
        permission=None,
        policy="allow",
        server=server,
    )
    ann.call("give", author=anna, pk=books[2].pk)
    books[2].refresh_from_db()
    assert books[2].author_id == anna, "the argument, not what the row had"


def saved(ctx: Any, formset: Any) -> str:
    return " / ".join(form.save() for form in formset.forms)


def test_each_form_of_a_set_gets_the_row(server: MCPServer, ann: Reader, authors: Mapping[str, Author]) -> None:
    notes = forms.formset_factory(NoteForm)
    form_tool(
        notes,
        name="notes",
        argument="notes",
        parents={"author": Author},
        handle=saved,
        server=server,
    )
    assert ann.call("notes", author=authors["Anna"].pk, notes=[{"text": "a"}, {"text": "b"}]).text == (
        "Anna Berg: a / Anna Berg: b"
    )
    assert ann.problem("notes", author=authors["Carl"].pk, notes=[{"text": "a"}]).startswith("No author with")
    hidden = forms.formset_factory(WithHidden)
    form_tool(hidden, name="hidden", argument="all", parents={"author": Author}, handle=saved, server=server)
    (tool,) = [tool for tool in ann.list("tools/list") if tool["name"] == "hidden"]
    given = tool["inputSchema"]["properties"]["all"]["items"]
    assert [*given["properties"]] == ["text"]
    assert ann.call("hidden", author=authors["Anna"].pk, all=[{"text": "a"}]).text == "Anna Berg: a"
    inline = forms.inlineformset_factory(Book, Review, fields=("text",))
    form_tool(
        inline,
        name="add_reviews",
        lookup="slug",
        parents={"author": Author},
        queryset=lambda ctx, author: author.books.all(),
        permission=None,
        server=server,
    )
    anna = authors["Anna"].pk
    assert len(ann.data("add_reviews", author=anna, slug="salt", reviews=[{"text": "New."}])["rows"]) == 1
    assert ann.problem("add_reviews", author=anna, slug="foghorn", reviews=[{"text": "New."}]) == (
        "No book with slug 'foghorn' found."
    )


def test_an_approver_reads_which_row_it_is(
    server: MCPServer, people: Mapping[str, User], authors: Mapping[str, Author]
) -> None:
    of_author(server)
    of_author_preview = look(server, people["ann"], "work", author=authors["Anna"].pk, text="Hello")
    parent, text = of_author_preview["changes"]
    assert (parent["field"], parent["label"]) == ("author", "Author")
    assert parent["after"]["title"] == "Anna Berg"
    assert text == {"field": "text", "label": "Text", "after": "Hello"}


def test_an_approver_of_a_change_reads_it_as_what_stays(
    server: MCPServer, people: Mapping[str, User], books: list[Book], authors: Mapping[str, Author]
) -> None:
    of_author(server, BookForm, lookup="pk", queryset=lambda ctx, author: author.books.all(), permission=None)
    shown = look(server, people["ann"], "work", author=authors["Anna"].pk, pk=books[0].pk, title="Sand")
    assert shown["changes"][0]["before"] == shown["changes"][0]["after"]
    assert shown["changes"][0]["after"]["title"] == "Anna Berg"


def test_the_page_of_the_form_needs_the_row_and_submits_it(
    server: MCPServer, people: Mapping[str, User], authors: Mapping[str, Author], books: list[Book]
) -> None:
    form_tool(
        BookForm, name="add", parents={"author": Author}, permission=None, policy="allow", app=True, server=server
    )
    client, anna = MCPClient(people["ann"], server=server, apps=True), authors["Anna"].pk
    assert client.definition("add_form")["inputSchema"]["required"] == ["author"]
    html = client.call("add_form", author=anna, title="Reef").html
    assert re.search(r'data-mcp-arguments="\{&quot;author&quot;: ' + str(anna) + r'\}"', html)
    assert "Tides" in html
    assert "Night Ferry" not in html
    refused = client.call("add", author=anna, title="", slug="reef")
    assert not refused.ok
    assert f"&quot;author&quot;: {anna}" in refused.html
    client.call("add_form", author=authors["Carl"].pk).assert_error_mentions("No author with primary key")


def test_a_repeated_call_for_another_row_is_another_call(
    server: MCPServer, people: Mapping[str, User], authors: Mapping[str, Author]
) -> None:
    of_author(server, idempotency_key="author")
    client = MCPClient(people["root"], server=server)
    assert client.call("work", author=authors["Anna"].pk, text="Hello").text == "Anna Berg: Hello"
    assert client.call("work", author=authors["Carl"].pk, text="Hello").text == "Carl Dahl: Hello"


class Taken(forms.Form):
    author = forms.CharField()

    def __init__(self, *args: Any, author: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)

    def save(self) -> None:
        """Save nothing."""


WRONG: list[tuple[Any, dict[str, Any], str]] = [
    (NoteForm, {"parents": {}}, "parents must be a dict of models"),
    (NoteForm, {"parents": Author}, "parents must be a dict of models"),
    (NoteForm, {"parents": {"the author": Author}}, "'the author' cannot be the name of a keyword argument"),
    (NoteForm, {"parents": {"instance": Author}}, "'instance' is an argument of every form"),
    (NoteForm, {"parents": {"author": "library.Author"}}, "'author' must be a model, not 'library.Author'"),
    (NoteForm, {"parents": {"author": list[Author]}}, "'author' must be a model"),
    (NoteForm, {"parents": {"author": Tag}}, "library.Tag is not registered"),
    (Moved, {"parents": {"author": Author}}, "neither the class nor a function of form_tool takes the parent 'author'"),
    (Taken, {"parents": {"author": Author}}, "'author' is a parent and also a field of the form; rename one of them"),
    (
        forms.formset_factory(NoteForm),
        {"parents": {"author": Author}, "argument": "author", "handle": lambda ctx, form: None},
        "'author' is a parent and also the array of forms",
    ),
    (
        BookForm,
        {"parents": {"author": Author}, "lookup": "author", "queryset": lambda ctx: Book.objects.all()},
        "'author' is a parent and also the lookup; rename the parent",
    ),
]


@pytest.mark.usefixtures("authors")
@pytest.mark.parametrize(("form", "options", "words"), WRONG, ids=[words[:40] for *_, words in WRONG])
def test_a_wrong_declaration_says_what_is_wrong(
    server: MCPServer, form: Any, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(ImproperlyConfigured, match=words):
        form_tool(form, name="work", server=server, **options)


@pytest.mark.usefixtures("declared_books")
def test_without_a_foreign_key_of_that_name_the_rows_to_change_are_unknown(server: MCPServer) -> None:
    class Of(BookForm):
        def __init__(self, *args: Any, writer: Author, **kwargs: Any) -> None:
            super().__init__(*args, author=writer, **kwargs)

    words = r"Book has no foreign key 'writer' to Author.*queryset=lambda ctx, writer"
    with pytest.raises(ImproperlyConfigured, match=words):
        form_tool(Of, parents={"writer": Author}, lookup="pk", server=server)


@pytest.mark.usefixtures("authors")
def test_an_endpoint_without_the_parents_model_does_not_offer_the_form(
    server: MCPServer, make_server: Callable[..., MCPServer]
) -> None:
    of_author(server, tags={"forms"})
    other = make_server("other", source=server, include_tags={"forms"})
    assert "work" not in MCPClient(server=other).names()
    problem = str(other.tools["work"].find_failure())  # type: ignore[attr-defined] # a LateTool; what E029 shows
    assert "library.Author is registered at" in problem
    assert "does not select it" in problem


def test_a_form_declared_at_the_start_may_come_before_the_model_of_its_parent(
    server: MCPServer, people: Mapping[str, User], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apps, "ready", False)
    of_author(server)
    monkeypatch.setattr(apps, "ready", True)
    problem = str(server.tools["work"].find_failure())  # type: ignore[attr-defined] # a LateTool; what E029 shows
    assert "library.Author is not registered" in problem
    register(Author, type("Authors", (ModelResource,), {"fields": ["name"]}), server=server)
    anna = Author.objects.create(name="Anna Berg")
    called = MCPClient(people["ann"], server=server).call("work", author=anna.pk, text="Hello")
    assert called.text == "Anna Berg: Hello"
