"""Forms of models as tools: rows that are made and changed, and whose rows these are."""

import base64
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from django import forms
from django.contrib.auth.forms import UserCreationForm
from django.contrib.auth.models import Permission, User
from django.core.exceptions import ImproperlyConfigured, ValidationError
from django.core.files.storage import default_storage
from django.db import models
from django.test.utils import isolate_apps

from django_mcp import Context, MCPServer, ModelResource, form_tool, register
from django_mcp.approvals.tool_policies import default_decision
from django_mcp.core.policies import Decision
from tests.model_resources.conftest import ByName, Reader
from tests.model_resources.library.models import Author, Book, Copy, Draft, Leaf, Publisher, Review, Tag

pytestmark = [pytest.mark.usefixtures("books"), pytest.mark.postgresql]
Made = Callable[..., Reader]


class BookForm(forms.ModelForm):
    loud = forms.BooleanField(required=False, help_text="In capital letters.")

    class Meta:
        model = Book
        fields = ("title", "slug", "author", "price", "pages", "binding", "published", "extra", "summary", "tags")

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        if data.get("loud") and "title" in data:
            data["title"] = data["title"].upper()
        if data.get("price", 0) > 100 and not data.get("summary"):
            self.add_error("summary", "What is expensive needs a summary.")
        return data


def anna() -> int:
    return Author.objects.get(name="Anna Berg").pk


def new(**more: Any) -> dict[str, Any]:
    return {"title": "Reef", "slug": "reef", "author": anna(), **more}


class TestMakingARow:
    @pytest.fixture
    def ann(self, server: MCPServer, reader: Made) -> Reader:
        form_tool(BookForm, permission=None, server=server)
        return reader("ann")

    def test_takes_the_form_s_fields(self, ann: Reader) -> None:
        (tool,) = ann.list("tools/list")
        assert tool["name"] == "create_book"
        assert tool["description"] == "Creates one book."
        assert tool["annotations"] == {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": False}
        schema = tool["inputSchema"]
        assert set(schema["required"]) == {"title", "slug", "author"}
        asked = schema["properties"]
        assert asked["title"] == {"type": "string", "minLength": 1, "maxLength": 200, "description": "As on the cover."}
        assert asked["pages"] | {"type": "integer", "minimum": 0, "default": 100} == asked["pages"]
        assert asked["author"] == {"type": "integer", "description": "Primary key of the author."}
        assert asked["tags"]["items"] == {"type": "integer"}
        assert asked["binding"]["enum"] == ["paper", "cloth"]

    def test_saves_it_and_tells_what_was_given(self, ann: Reader) -> None:
        tag = Tag.objects.get(word="sea")
        made = ann.data("create_book", **new(loud=True, tags=[tag.pk], extra={"a": [1]}, published="2026-01-02"))
        book = Book.objects.get(slug="reef")
        assert (book.title, book.pages, book.extra, list(book.tags.all())) == (
            "REEF",
            100,
            {"a": [1]},
            [tag],
        )
        assert made == {
            "pk": book.pk,
            "title": "REEF",
            "slug": "reef",
            "author": anna(),
            "price": "10",
            "pages": 100,
            "binding": "paper",
            "published": "2026-01-02",
            "extra": {"a": [1]},
            "summary": "",
            "tags": [tag.pk],
            "loud": True,
        }
        assert "internal" not in made

    def test_is_told_in_words_too(self, ann: Reader) -> None:
        words, data = ann.call("create_book", **new()).text.split("\n")
        assert words == "The book was created."
        assert '"title":"Reef"' in data

    def test_is_refused_by_the_form_and_by_the_model(self, ann: Reader) -> None:
        words = ann.problem("create_book", **new(slug="salt", price=200, pages=-1))
        assert words == (
            "Argument 'pages': Ensure this value is greater than or equal to 0. "
            "Argument 'summary': What is expensive needs a summary. "
            "Argument 'slug': Book with this Slug already exists."
        )
        assert not Book.objects.filter(title="Reef").exists()

    def test_chooses_among_the_rows_of_the_form(self, ann: Reader) -> None:
        words = ann.problem("create_book", **new(author=999_999, tags=[999_999, True]))
        before, _, after = words.partition(" Choose one of: ")
        assert before == "Argument 'author': Select a valid choice. That choice is not one of the available choices."
        assert after.endswith(" Argument 'tags' must be a key (a string or an integer), not true or false.")
        for wrong in (10**30, "x", "", {"pk": 1}, "\0"):
            assert "Argument 'author'" in ann.problem("create_book", **new(author=wrong))

    def test_tells_of_what_the_database_does_not_take_in_general_words(self, server: MCPServer, reader: Made) -> None:
        def twice(ctx: Context, form: Any) -> None:
            Tag.objects.create(word="sea")

        form_tool(BookForm, name="twice", handle=twice, permission=None, server=server)
        assert reader("ann").problem("twice", **new()).startswith("The values conflict with each other")

    def test_is_all_or_nothing(self, server: MCPServer, reader: Made) -> None:
        def half(ctx: Context, form: Any) -> None:
            form.save()
            raise RuntimeError

        form_tool(BookForm, name="half", handle=half, permission=None, server=server)
        assert "Internal server error" in reader("ann").problem("half", **new())
        assert not Book.objects.filter(slug="reef").exists()


def test_a_new_object_may_have_values_already(server: MCPServer, reader: Made, people: Mapping[str, User]) -> None:
    form_tool(
        BookForm, form_kwargs=lambda ctx: {"instance": Book(owner=ctx.user, pages=7)}, permission=None, server=server
    )
    assert reader("bob").data("create_book", **new())["pages"] == 7
    assert Book.objects.get(slug="reef").owner == people["bob"]


def test_the_original_saves_the_same(server: MCPServer, reader: Made) -> None:
    def saved(slug: str) -> dict[str, Any]:
        data = {**new(slug=slug), "price": "3.50", "pages": "7", "binding": "cloth", "extra": '{"a": 1}'}
        form = BookForm(data)
        form.save()
        return Book.objects.filter(slug=slug).values().get()

    def without_keys(row: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in row.items() if name not in {"id", "key", "slug"}}

    before = saved("before")
    page = BookForm().as_p()
    form_tool(BookForm, permission=None, server=server)
    reader("ann").data("create_book", **new(slug="tool", price="3.50", pages=7, binding="cloth", extra={"a": 1}))
    assert without_keys(saved("after")) == without_keys(before)
    assert without_keys(Book.objects.filter(slug="tool").values().get()) == without_keys(before)
    assert BookForm().as_p() == page


class TestRegisteredModels:
    @pytest.fixture
    def ann(self, server: MCPServer, reader: Made) -> Reader:
        @register(Author, server=server)
        class Authors(ModelResource):
            fields = ("name",)

            def get_queryset(self, ctx: Context) -> Any:
                return Author.objects.exclude(name="Carl Dahl")

        @register(Tag, server=server)
        class Tags(ModelResource):
            fields = ("word",)
            object_permissions = True

            def has_view_permission(self, ctx: Any, obj: Any = None) -> bool:
                return obj is None or obj.word != "night"

        @register(Book, server=server)
        class Books(ModelResource):
            fields = ("title", "author__name", "tags__word")
            lookup_field = "slug"

            def get_queryset(self, ctx: Context) -> Any:
                return Book.objects.exclude(slug="tides").exclude(title="Unseen")

        assert Authors
        assert Tags
        assert Books
        form_tool(BookForm, permission=None, server=server)
        form_tool(BookForm, lookup="pk", permission=None, policy="allow", server=server)
        return reader("ann")

    def test_are_shown_as_their_declaration_shows_them(self, ann: Reader) -> None:
        made = ann.data("create_book", **new())
        assert made == {
            "uri": "library://book/reef",
            "slug": "reef",
            "title": "Reef",
            "author__name": "Anna Berg",
            "tags__word": [],
        }

    def test_only_a_sentence_is_told_of_what_the_caller_cannot_see(self, ann: Reader) -> None:
        answer = ann.call("create_book", **new(title="Unseen"))
        assert answer.text == "The book was created."
        assert "structuredContent" not in answer.result

    def test_rows_the_caller_cannot_see_are_none_of_the_choices(self, ann: Reader, subtests: pytest.Subtests) -> None:
        for field, model, name in [("author", Author, "Carl Dahl"), ("tags", Tag, "night")]:
            with subtests.test(field=field, model=model, name=name):
                hidden = model.objects.get(**{"word" if model is Tag else "name": name}).pk
                missing = 999_999
                given = [hidden] if model is Tag else hidden
                words = ann.problem("create_book", **new(**{field: given}))
                assert words.startswith(f"Argument {field!r}: Select a valid choice.")
                other = ann.problem("create_book", **new(**{field: [missing] if model is Tag else missing}))
                assert words.replace(str(hidden), "…") == other.replace(str(missing), "…")

    def test_rows_the_caller_cannot_see_cannot_be_changed(self, ann: Reader) -> None:
        hidden, seen = Book.objects.get(slug="tides"), Book.objects.get(slug="salt")
        for key in (hidden.pk, "Pet00"):
            words = ann.problem("update_book", pk=key, title="x")
            assert words == f"No book with pk '{key}' found. Use search_books to find one."
        assert ann.data("update_book", pk=seen.pk, title="Pepper")["title"] == "Pepper"

    def test_who_may_not_view_the_model_finds_none(self, ann: Reader, reader: Made) -> None:
        seen = Book.objects.get(slug="salt")
        assert reader("bob").problem("update_book", pk=seen.pk, title="x") == f"No book with pk '{seen.pk}' found."

    def test_what_is_there_and_hidden_stays(self, ann: Reader) -> None:
        ferry = Book.objects.get(slug="night-ferry")
        ann.data("update_book", pk=ferry.pk, title="Ferry")
        assert set(ferry.tags.values_list("word", flat=True)) == {"sea", "night"}
        ann.data("update_book", pk=ferry.pk, tags=[])
        ferry.refresh_from_db()
        assert (ferry.title, ferry.author.name) == ("Ferry", "Carl Dahl")
        assert set(ferry.tags.values_list("word", flat=True)) == {"night"}


class TestChangingARow:
    @pytest.fixture
    def ann(self, server: MCPServer, reader: Made) -> Reader:
        form_tool(
            BookForm,
            lookup="pk",
            queryset=lambda ctx: Book.objects.filter(owner=ctx.user),
            permission=None,
            policy="allow",
            server=server,
        )
        return reader("ann")

    @pytest.fixture
    def mine(self) -> Book:
        return Book.objects.get(slug="salt")

    def test_asks_for_nothing_but_which(self, ann: Reader) -> None:
        (tool,) = ann.list("tools/list")
        assert tool["name"] == "update_book"
        assert tool["inputSchema"]["required"] == ["pk"]
        assert tool["inputSchema"]["properties"]["pk"] == {"type": "integer", "description": "Primary key of the book."}
        assert tool["description"] == "Changes one book. Omitted fields keep their values."

    def test_changes_only_what_is_given(self, ann: Reader, mine: Book) -> None:
        Book.objects.filter(pk=mine.pk).update(summary="  as it is ", added="2026-10-25T00:30:00.123456Z")
        before = Book.objects.filter(pk=mine.pk).values().get()
        answer = ann.call("update_book", pk=mine.pk, price="3.00")
        assert answer.text.startswith("The book was changed.")
        after = Book.objects.filter(pk=mine.pk).values().get()
        assert {name for name in after if after[name] != before[name]} == {"price"}
        assert answer.result["structuredContent"] == {"pk": mine.pk, "price": "3.00", "loud": False}
        assert list(mine.tags.values_list("word", flat=True)) == ["sea"]

    def test_null_empties_and_the_form_sees_the_whole_row(self, ann: Reader, mine: Book) -> None:
        ann.data("update_book", pk=mine.pk, price=200, summary="Gold.")
        assert ann.problem("update_book", pk=mine.pk, summary=None) == (
            "Argument 'summary': What is expensive needs a summary."
        )

    def test_rows_of_others_do_not_exist(self, ann: Reader, mine: Book) -> None:
        other = Book.objects.get(slug="tides")
        for key in (other.pk, 999_999, "x", [], {}, None, "\0", 10**30):
            assert ann.problem("update_book", pk=key, title="x").startswith("No book with pk ")
        assert ann.problem("update_book", title="x") == "Missing argument 'pk'."

    def test_unknown_arguments_are_told_by_the_form_s_names(self, ann: Reader, mine: Book) -> None:
        assert ann.problem("update_book", pk=mine.pk, titel="x").startswith(
            "Unknown argument 'titel'. Did you mean 'title'?"
        )


def test_a_form_of_all_fields_leaves_alone_what_is_not_given(server: MCPServer, reader: Made) -> None:
    made = forms.modelform_factory(Author, fields="__all__")
    form_tool(
        made,
        name="update",
        lookup="pk",
        queryset=lambda _: Author.objects.all(),
        permission=None,
        policy="allow",
        server=server,
    )
    reader("ann").data("update", pk=anna(), email="b@example.com")
    author = Author.objects.get(pk=anna())
    assert (author.name, author.email, author.publisher.name) == ("Anna Berg", "b@example.com", "Harbour House")


def test_the_row_may_be_the_caller_s_own(server: MCPServer, reader: Made) -> None:
    made = forms.modelform_factory(User, fields=("first_name", "last_name"))
    form_tool(
        made,
        name="update_me",
        instance=lambda ctx: User.objects.get(pk=ctx.user.pk),
        permission=None,
        policy="allow",
        server=server,
    )
    reader("ann").data("update_me", first_name="Ann")
    assert User.objects.get(username="ann").first_name == "Ann"
    assert reader("").problem("update_me", first_name="x") == "There is nothing to update for this user."


def test_a_relation_is_given_by_the_field_it_is_to(server: MCPServer, reader: Made) -> None:
    class Tagged(forms.ModelForm):
        tag = forms.ModelChoiceField(Tag.objects.exclude(word="night"), to_field_name="word")

        class Meta:
            model = Draft
            fields = ("title",)

    form_tool(Tagged, name="draft", permission=None, server=server)
    ann = reader("ann")
    (tool,) = ann.list("tools/list")
    assert tool["inputSchema"]["properties"]["tag"] == {"type": "string", "description": "Word of the tag."}
    assert ann.data("draft", title="a", tag="sea")["tag"] == Tag.objects.get(word="sea").pk
    assert ann.problem("draft", title="a", tag="night").startswith("Argument 'tag': Select a valid choice.")


def test_which_rows_can_be_chosen_may_depend_on_who_asks(server: MCPServer, reader: Made) -> None:
    class Mine(forms.Form):
        book = forms.ModelChoiceField(queryset=None)

        def __init__(self, user: User, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.fields["book"].queryset = Book.objects.filter(owner=user)

        def save(self) -> str:
            title: str = self.cleaned_data["book"].title
            return title

    form_tool(Mine, form_kwargs=lambda ctx: {"user": ctx.user}, server=server)
    salt = Book.objects.get(slug="salt").pk
    assert reader("ann").call("mine", book=salt).text == "Salt"
    assert reader("bob").problem("mine", book=salt).startswith("Argument 'book': Select a valid choice.")


def test_passwords_are_not_shown_again(server: MCPServer, reader: Made) -> None:
    form_tool(UserCreationForm, permission=None, server=server)
    ann = reader("ann")
    (tool,) = ann.list("tools/list")
    assert tool["inputSchema"]["properties"]["password1"]["format"] == "password"
    secret = "a very Long one 4711"
    made = ann.call("create_user_creation", username="new", password1=secret, password2=secret)
    assert made.result["structuredContent"]["username"] == "new"
    assert secret not in str(made.result)
    assert User.objects.get(username="new").check_password(secret)
    words = ann.problem("create_user_creation", username="other", password1="a", password2="b")
    assert words == "Argument 'password2': The two password fields didn’t match."


class TestFiles:
    @pytest.fixture
    def ann(self, server: MCPServer, reader: Made) -> Reader:
        made = forms.modelform_factory(Book, fields=("title", "cover"))
        form_tool(
            made,
            name="update",
            lookup="slug",
            queryset=lambda _: Book.objects.all(),
            permission=None,
            policy="allow",
            server=server,
        )
        return reader("ann")

    def test_are_stored_kept_and_taken_away(self, ann: Reader) -> None:
        file = {"filename": "a.txt", "content": base64.b64encode(b"words").decode()}
        assert ann.data("update", slug="salt", cover=file)["cover"] == "a.txt"
        book = Book.objects.get(slug="salt")
        assert book.cover.read() == b"words"
        ann.data("update", slug="salt", title="Pepper")
        assert Book.objects.get(slug="salt").cover.name == book.cover.name
        ann.data("update", slug="salt", cover=None)
        assert not Book.objects.get(slug="salt").cover
        book.cover.storage.delete(book.cover.name)


def test_errors_about_several_fields_are_told_without_a_field(server: MCPServer, reader: Made) -> None:
    made = forms.modelform_factory(Copy, fields=("book", "number", "note"))
    form_tool(made, name="copy", permission=None, server=server)
    salt = Book.objects.get(slug="salt")
    Copy.objects.create(book=salt, number=1, note="x")
    assert reader("ann").problem("copy", book=salt.pk, number=1, note="y") == (
        "Copy with this Book and Number already exists."
    )


def test_what_cannot_work_is_said_at_the_start(server: MCPServer, subtests: pytest.Subtests) -> None:
    made = forms.modelform_factory(Publisher, fields=("secret_terms",))
    for options, words in [
        ({"lookup": "pk"}, "Publisher is not registered .* set queryset"),
        ({"lookup": "colour", "queryset": print}, "is not a field of library.Publisher"),
        ({"lookup": "name", "queryset": print}, "not unique"),
    ]:
        with subtests.test(options=options, words=words), pytest.raises(ImproperlyConfigured, match=words):
            form_tool(made, permission=None, server=server, **options)


def test_a_lookup_that_is_a_field_of_the_form_too_is_refused(server: MCPServer) -> None:
    with pytest.raises(ImproperlyConfigured, match="use lookup='pk'"):
        form_tool(BookForm, lookup="slug", queryset=print, permission=None, policy="allow", server=server)


class AuthorForm(forms.ModelForm):
    class Meta:
        model = Author
        fields = ("name",)


def grant(user: User, *codenames: str) -> None:
    user.user_permissions.add(*Permission.objects.filter(content_type__app_label="library", codename__in=codenames))


class TestRightsToWriteRows:
    """What a ``ModelForm`` writes takes the permission that the same write through ``ModelResource`` takes."""

    @staticmethod
    def publish(server: MCPServer, **options: Any) -> None:
        form_tool(AuthorForm, server=server, **options)
        form_tool(AuthorForm, lookup="pk", queryset=lambda _: Author.objects.all(), server=server, **options)

    def test_anonymous_callers_and_users_without_the_permission_have_no_such_tool(
        self, server: MCPServer, reader: Made
    ) -> None:
        self.publish(server)
        for name in ("", "ann", "bob"):
            assert reader(name).tool_names() == set()
            assert "create_author" in str(reader(name).call("create_author", name="New").error)
        assert not Author.objects.filter(name="New").exists()

    def test_creating_takes_the_add_permission_and_changing_the_change_permission(
        self, server: MCPServer, reader: Made, people: Mapping[str, User]
    ) -> None:
        self.publish(server)
        grant(people["ann"], "add_author")
        grant(people["bob"], "change_author")
        assert reader("ann").tool_names() == {"create_author"}
        assert reader("bob").tool_names() == {"update_author"}
        assert reader("ann").data("create_author", name="New")["name"] == "New"

    def test_changing_asks_for_an_approval_and_creating_does_not(self, server: MCPServer) -> None:
        self.publish(server)
        decided = {name: default_decision(tool) for name, tool in server.tools.items()}
        assert decided == {"create_author": Decision.ALLOW, "update_author": Decision.ASK}

    def test_permission_none_opens_it(self, server: MCPServer, reader: Made) -> None:
        self.publish(server, permission=None, policy="allow")
        assert reader("").tool_names() == {"create_author", "update_author"}
        assert reader("").data("update_author", pk=anna(), name="Anna")["name"] == "Anna"

    def test_groups_and_predicates_come_on_top_of_it(self, server: MCPServer, reader: Made) -> None:
        self.publish(server, visible=lambda ctx: ctx.user.username != "root")
        assert reader("root").tool_names() == set()
        assert reader("ann").tool_names() == set()

    def test_the_declaration_of_the_model_decides_where_there_is_one(
        self, server: MCPServer, reader: Made, people: Mapping[str, User]
    ) -> None:
        self.publish(server)  # before the model is registered

        @register(Author, server=server)
        class Authors(ModelResource):
            fields = ("name",)
            tools = ()
            add_permission = None

            def has_change_permission(self, ctx: Any, obj: Any = None) -> bool:
                return obj is None or obj.name == "Anna Berg"

        assert Authors
        assert reader("bob").tool_names() == set(), "he may not view authors"
        ann = reader("ann")
        assert ann.data("create_author", name="New")["name"] == "New"
        server.tools["update_author"].policy = "allow"
        carl = Author.objects.get(name="Carl Dahl")
        assert ann.problem("update_author", pk=carl.pk, name="x") == "You do not have permission to update this author."
        assert ann.data("update_author", pk=anna(), name="Anna")["name"] == "Anna"

    def test_a_new_object_in_place_of_a_row_takes_the_add_permission(
        self, server: MCPServer, reader: Made, people: Mapping[str, User]
    ) -> None:
        form_tool(AuthorForm, name="mine", instance=lambda _: Author(), policy="allow", server=server)
        grant(people["ann"], "change_author")
        assert reader("ann").problem("mine", name="New") == "You do not have permission to add authors."
        grant(people["ann"], "add_author")
        assert reader("ann").data("mine", name="New")["name"] == "New"

    def test_a_row_in_place_of_a_new_object_takes_the_change_permission(
        self, server: MCPServer, reader: Made, people: Mapping[str, User]
    ) -> None:
        form_tool(AuthorForm, form_kwargs=lambda _: {"instance": Author.objects.get(name="Anna Berg")}, server=server)
        grant(people["ann"], "add_author")
        assert reader("ann").problem("create_author", name="New") == "You do not have permission to update this author."
        assert Author.objects.filter(name="Anna Berg").exists()

    def test_a_selection_of_tools_without_the_model_keeps_its_rules(
        self, server: MCPServer, reader: Made, make_server: Callable[..., MCPServer], version: str
    ) -> None:
        form_tool(BookForm, tags=["shop"], permission=None, server=server)

        @register(Author, server=server)
        class Authors(ModelResource):
            fields = ("name",)

            def get_queryset(self, ctx: Context) -> Any:
                return Author.objects.exclude(name="Carl Dahl")

        assert Authors
        shop = make_server("shop", include_tags=["shop"], source=server, authentication=[ByName()])
        client = Reader(shop, version, "view")
        client.user = "ann"
        carl = Author.objects.get(name="Carl Dahl").pk
        assert client.problem("create_book", **new(author=carl)).startswith("Argument 'author': Select a valid choice.")


class ReviewForm(forms.ModelForm):
    class Meta:
        model = Review
        fields = ("book", "text", "stars")


CHOOSE = "Select a valid choice. That choice is not one of the available choices."


class TestRowsThatTheirDeclarationShowsByAnotherField:
    @pytest.fixture(autouse=True)
    def declared(self, server: MCPServer) -> None:
        @register(Book, server=server)
        class Books(ModelResource):
            fields = ("title",)
            lookup_field = "slug"

            def get_queryset(self, ctx: Context) -> Any:
                return Book.objects.exclude(slug="tides")

        @register(Tag, server=server)
        class Tags(ModelResource):
            fields = ("word",)
            lookup_field = "word"
            object_permissions = True

            def has_view_permission(self, ctx: Any, obj: Any = None) -> bool:
                return obj is None or obj.word != "night"

        assert Books
        assert Tags

    @pytest.fixture
    def ann(self, server: MCPServer, reader: Made) -> Reader:
        form_tool(ReviewForm, permission=None, server=server)
        return reader("ann")

    def test_are_chosen_by_that_field(self, ann: Reader) -> None:
        (tool,) = (tool for tool in ann.list("tools/list") if tool["name"] == "create_review")
        said = tool["inputSchema"]["properties"]["book"]
        assert (said["type"], said["description"]) == ("string", "Slug of the book.")
        made = ann.data("create_review", book="salt", text="Wet.")
        assert made["book"] == "salt"
        assert Review.objects.get(pk=made["pk"]).book.slug == "salt"

    def test_are_no_choice_where_the_caller_cannot_see_them_or_by_primary_key(self, ann: Reader) -> None:
        hidden, seen = Book.objects.get(slug="tides"), Book.objects.get(slug="salt")
        for wrong in ("tides", "no-such-book", hidden.pk, seen.pk, str(seen.pk)):
            assert ann.problem("create_review", book=wrong, text="x").startswith(
                f"Argument 'book': {CHOOSE} Choose one of: "
            )
        assert ann.problem("create_review", book=None, text="x") == "Argument 'book': This field is required."
        assert ann.problem("create_review", book=["salt"], text="x").startswith(
            "Argument 'book' must be a key (a string or an integer)"
        )

    def test_of_which_several_are_chosen_are_named_as_they_were_given(self, server: MCPServer, reader: Made) -> None:
        class Tagging(forms.Form):
            tags = forms.ModelMultipleChoiceField(Tag.objects.exclude(word="wind"))

            def save(self) -> str:
                return ", ".join(sorted(tag.word for tag in self.cleaned_data["tags"]))

        Tag.objects.create(word="wind")
        sea = Tag.objects.get(word="sea")
        Tag.objects.create(word=str(sea.pk))
        form_tool(Tagging, server=server)
        ann = reader("ann")
        (tool,) = (tool for tool in ann.list("tools/list") if tool["name"] == "tagging")
        assert tool["inputSchema"]["properties"]["tags"]["description"] == "Word of each tag."
        assert tool["inputSchema"]["properties"]["tags"]["items"]["type"] == "string"
        assert ann.call("tagging", tags=["sea", str(sea.pk)]).text == f"{sea.pk}, sea"
        for wrong in ("night", "wind", "no-such-word"):
            words = (
                f"Argument 'tags': Select a valid choice. {wrong} is not one of the available choices. Choose one of: "
            )
            assert ann.problem("tagging", tags=["sea", wrong]).startswith(words)

    def test_may_be_chosen_at_first_which_is_not_told(self, server: MCPServer, reader: Made) -> None:
        class Chosen(ReviewForm):
            def __init__(self, *args: Any, **options: Any) -> None:
                super().__init__(*args, **options)
                self.fields["book"].initial = Book.objects.get(slug="salt").pk

        form_tool(Chosen, permission=None, server=server)
        ann = reader("ann")
        (tool,) = (tool for tool in ann.list("tools/list") if tool["name"] == "create_chosen")
        assert "default" not in tool["inputSchema"]["properties"]["book"]
        assert "book" not in tool["inputSchema"]["required"]
        made = ann.data("create_chosen", text="x")
        assert Review.objects.get(pk=made["pk"]).book.slug == "salt"

    def test_are_what_a_page_would_send_to_a_form_that_looks_at_its_data(self, server: MCPServer, reader: Made) -> None:
        class Dependent(forms.Form):
            book = forms.ModelChoiceField(Book.objects.all())
            review = forms.ModelChoiceField(Review.objects.none(), required=False)

            def __init__(self, *args: Any, **options: Any) -> None:
                super().__init__(*args, **options)
                if "book" in self.data:
                    self.fields["review"].queryset = Review.objects.filter(book_id=int(self.data["book"]))

            def save(self) -> str:
                return f"{self.cleaned_data['review'].text} {self.has_changed()} {self.data['book']}"

        form_tool(Dependent, server=server)
        review = Review.objects.get(text="Wet.")
        assert reader("ann").call("dependent", book="salt", review=review.pk).text == f"Wet. True {review.book_id}"
        assert reader("ann").problem("dependent", book="tides").startswith(f"Argument 'book': {CHOOSE} Choose one of: ")

    def test_are_chosen_alike_in_each_form_of_a_set(self, server: MCPServer, reader: Made) -> None:
        form_tool(forms.modelformset_factory(Review, ReviewForm), permission=None, server=server)
        ann = reader("ann")
        (tool,) = (tool for tool in ann.list("tools/list") if tool["name"] == "create_reviews")
        item = tool["inputSchema"]["properties"]["reviews"]["items"]
        assert item["properties"]["book"]["description"] == "Slug of the book."
        ann.data("create_reviews", reviews=[{"book": "salt", "text": "a"}, {"book": "foghorn", "text": "b"}])
        assert {each.book.slug for each in Review.objects.filter(text__in="ab")} == {"salt", "foghorn"}
        words = ann.problem("create_reviews", reviews=[{"book": "salt", "text": "a"}, {"book": "tides", "text": "b"}])
        assert words.startswith(f"Argument 'reviews[1].book': {CHOOSE} Choose one of: ")

    def test_stay_chosen_where_a_row_is_changed(self, server: MCPServer, reader: Made) -> None:
        rows = {"lookup": "pk", "queryset": lambda ctx: Review.objects.all()}
        form_tool(ReviewForm, **rows, permission=None, policy="allow", server=server)
        review, tides = Review.objects.get(text="Wet."), Book.objects.get(slug="tides")
        ann = reader("ann")
        ann.data("update_review", pk=review.pk, text="Dry.")
        assert Review.objects.get(pk=review.pk).book.slug == "salt"
        ann.data("update_review", pk=review.pk, book="foghorn")
        assert Review.objects.get(pk=review.pk).book.slug == "foghorn"
        Review.objects.filter(pk=review.pk).update(book=tides)
        ann.data("update_review", pk=review.pk, text="Wet again.")
        assert Review.objects.get(pk=review.pk).book == tides

    def test_are_chosen_so_at_endpoints_that_take_the_tool_with_or_without_the_model(
        self, server: MCPServer, reader: Made, make_server: Callable[..., MCPServer], version: str
    ) -> None:
        form_tool(ReviewForm, tags=["shop"], permission=None, server=server)
        shop = make_server("shop", include_tags=["shop"], source=server, authentication=[ByName()])
        other = make_server("other", include_tags=["shop"], source=server, authentication=[ByName()])

        @register(Book, server=other)
        class Books(ModelResource):
            fields = ("title",)
            lookup_field = "key"
            secret_fields = ("key",)

        assert Books
        salt = Book.objects.get(slug="salt")
        for endpoint, field, value in ((shop, "slug", "salt"), (other, "key", str(salt.key)), (server, "slug", "salt")):
            client = Reader(endpoint, version, "view")
            client.user = "ann"
            (tool,) = (tool for tool in client.list("tools/list") if tool["name"] == "create_review")
            said = tool["inputSchema"]["properties"]["book"]["description"]
            assert said == f"{field.capitalize()} of the book."
            client.data("create_review", book=value, text="x")
            assert client.problem("create_review", book=salt.pk, text="x").startswith(
                f"Argument 'book': {CHOOSE} Choose one of: "
            )

    def test_keep_the_field_that_the_form_names_itself(self, server: MCPServer, reader: Made) -> None:
        class Own(forms.Form):
            book = forms.ModelChoiceField(Book.objects.all(), to_field_name="key")

            def save(self) -> str:
                title: str = self.cleaned_data["book"].title
                return title

        form_tool(Own, server=server)
        salt = Book.objects.get(slug="salt")
        assert reader("ann").call("own", book=str(salt.key)).text == "Salt"


def test_a_form_tool_follows_a_declaration_that_comes_after_it(server: MCPServer, reader: Made) -> None:
    form_tool(ReviewForm, permission=None, server=server)
    ann = reader("ann")

    def said() -> str:
        (tool,) = (tool for tool in ann.list("tools/list") if tool["name"] == "create_review")
        words: str = tool["inputSchema"]["properties"]["book"]["description"]
        return words

    assert said() == "Primary key of the book."

    @register(Book, server=server)
    class Books(ModelResource):
        fields = ("title",)
        lookup_field = "slug"

    assert Books
    assert said() == "Slug of the book."
    assert ann.data("create_review", book="salt", text="x")["book"] == "salt"


class LeafForm(forms.ModelForm):
    class Meta:
        model = Leaf
        fields = ("title", "body", "place")

    def clean(self) -> None:
        self.instance.path, self.instance.depth = self.cleaned_data.get("title", ""), 1


class TestColumnsOfOtherPackages:
    def test_take_json_where_they_hold_it_and_are_told_as_json(self, server: MCPServer, reader: Made) -> None:
        form_tool(LeafForm, permission=None, server=server)
        root = reader("root")
        (tool,) = root.list("tools/list")
        assert tool["inputSchema"]["properties"]["body"]["description"] == "A BlocksField, as JSON. What is on it."
        body = [{"type": "h2", "value": "Salt"}]
        made = root.data("create_leaf", title="Reef", body=body, place="B/7")
        assert (made["body"], made["place"]) == (body, "B/7")
        assert str(Leaf.objects.get().body[0]) == "<h2>Salt</h2>"

    def test_refuse_what_their_class_or_its_form_field_does_not_take(self, server: MCPServer, reader: Made) -> None:
        form_tool(LeafForm, permission=None, server=server)
        root = reader("root")
        for body, words in [
            (7, "not a valid value of this field."),
            ([{"type": "p", "value": " "}], "Some blocks are wrong."),
            ([{"type": "script", "value": "x"}], "only 0 of 1 items of the list have an allowed type."),
        ]:
            assert words in root.problem("create_leaf", title="Reef", body=body)
        assert "body" in root.problem("create_leaf", title="Reef")
        assert not Leaf.objects.exists()

    @isolate_apps("tests.model_resources.library")
    def test_are_empty_texts_where_they_may_be_left_out(self, server: MCPServer, reader: Made) -> None:
        class RichText(models.Field):
            def get_internal_type(self) -> str:
                return "TextField"

        class Page(models.Model):  # noqa: DJ008
            text = RichText(blank=True)

            class Meta:
                app_label = "library"

        class PageForm(forms.ModelForm):
            class Meta:
                model = Page
                fields = ("text",)

            def save(self) -> str:  # type: ignore[override]
                return repr(self.instance.text)

        form_tool(PageForm, name="write", permission=None, server=server)
        assert reader("ann").call("write").text == "''"


def test_a_handler_leaves_no_file_of_a_row_that_is_rolled_back(server: MCPServer, reader: Made) -> None:
    made = forms.modelform_factory(Book, fields=("title", "slug", "author", "cover"))

    def save(ctx: Context, form: Any) -> Any:
        book = form.save()
        ctx.on_rollback(lambda: book.cover.delete(save=False))
        assert default_storage.exists(book.cover.name)
        stored.append(book.cover.name)
        if book.title == "Bad":
            raise ValidationError("Not on Sundays.")
        return book

    stored: list[str] = []
    form_tool(made, name="add_book", handle=save, permission=None, server=server)
    author = Author.objects.first()
    assert author is not None
    file = {"filename": "a.txt", "content": base64.b64encode(b"words").decode()}
    for title in ("Bad", "Good"):
        answer = reader("root").call("add_book", title=title, slug=title.lower(), author=author.pk, cover=file)
        assert bool(answer.result.get("isError")) is (title == "Bad"), answer.text
    kept = stored.pop()
    assert stored
    assert [name for name in stored if name != kept and default_storage.exists(name)] == []
    assert default_storage.exists(kept)
    default_storage.delete(kept)
