"""Rows written through a ``ModelForm`` that a declaration names."""

import datetime
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from django import forms

from django_mcp import Context, MCPServer, ModelResource, form_tool, register
from tests.model_resources.conftest import Reader
from tests.model_resources.library.models import Author, Book, Copy, Sign, Tag


class BookForm(forms.ModelForm):
    reason = forms.CharField(max_length=20, help_text="Why it is written.")
    loud = forms.BooleanField(required=False)

    class Meta:
        model = Book
        fields = ("title", "slug", "author", "price", "published", "added", "extra", "summary", "tags")

    def clean_title(self) -> str:
        title: str = self.cleaned_data["title"]
        if "forbidden" in title:
            raise forms.ValidationError("There is a word in it that is not allowed.")
        return title

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        if data.get("loud"):
            self.instance.title = data["title"] = data["title"].upper()
        if data["price"] > 100 and not data["summary"]:
            self.add_error("summary", "What is expensive needs a summary.")
        return data

    def save(self, commit: bool = True) -> Book:
        self.instance.internal = self.cleaned_data["reason"]
        return super().save(commit)


class Books(ModelResource):
    fields = ("title", "price", "author__name", "summary", "added", "extra", "tags__word")
    lookup_field = "slug"
    actions = ("create", "update")
    form = BookForm


@pytest.fixture
def root(server: MCPServer, reader: Callable[..., Reader], books: list[Book]) -> Reader:
    register(Book, Books, server=server)
    return reader("root")


def anna() -> int:
    return Author.objects.get(name="Anna Berg").pk


def test_arguments_are_the_form_s_fields(root: Reader) -> None:
    schemas = {tool["name"]: tool["inputSchema"] for tool in root.list("tools/list")}
    create, update = schemas["create_book"], schemas["update_book"]
    assert set(create["properties"]) == set(BookForm.base_fields)
    assert set(create["required"]) == {"title", "slug", "author", "reason"}
    assert set(update["required"]) == {"slug", "reason"}
    assert create["properties"]["reason"]["maxLength"] == 20
    assert create["properties"]["reason"]["description"] == "Why it is written."


def test_a_row_is_created_by_the_form(root: Reader) -> None:
    made = root.data("create_book", title="Reef", slug="reef", author=anna(), reason="new", extra={"a": [1]}, loud=True)
    assert (made["title"], made["price"], made["extra"]) == ("REEF", "10.00", {"a": [1]})
    assert Book.objects.get(slug="reef").internal == "new"


def test_json_is_written_as_it_is(root: Reader) -> None:
    for value in ("words", '"', "1", 1, None, [], {"a": None}, True):
        written = root.data("update_book", slug="salt", reason="a", extra=value)["extra"]
        left = root.data("update_book", slug="salt", reason="a", price="1.00")["extra"]
        assert repr((written, left)) == repr((value, value))


def test_only_what_is_given_changes(root: Reader) -> None:
    moment = "2026-10-25T00:30:00.123456Z"
    root.data("update_book", slug="night-ferry", reason="a", added=moment, summary=" spaced ", extra={"b": None})
    Book.objects.filter(slug="night-ferry").update(summary="  left as it is  ")
    before = Book.objects.filter(slug="night-ferry").values().get()
    root.data("update_book", slug="night-ferry", reason="a", price="3.00")
    after = Book.objects.filter(slug="night-ferry").values().get()
    assert {key for key in after if before[key] != after[key]} == {"price"}
    assert set(Book.objects.get(slug="night-ferry").tags.values_list("word", flat=True)) == {"sea", "night"}


def test_the_form_s_own_rules_hold_and_name_the_argument(root: Reader) -> None:
    words = root.problem("update_book", slug="salt", reason="a", title="forbidden")
    assert words == "Argument 'title': There is a word in it that is not allowed."


def test_the_form_sees_the_whole_row_where_only_a_part_is_given(root: Reader) -> None:
    assert root.problem("update_book", slug="salt", reason="a", price="200") == (
        "Argument 'summary': What is expensive needs a summary."
    )
    Book.objects.filter(slug="salt").update(summary="Gold on every page.")
    assert root.data("update_book", slug="salt", reason="a", price="200")["price"] == "200.00"


def test_a_further_field_of_the_form_is_no_reason_to_say_that_something_is_given(root: Reader) -> None:
    assert root.problem("update_book", slug="salt") == "Missing argument 'reason'."


def test_fields_that_the_form_lacks_cannot_be_given(root: Reader) -> None:
    for name in ("internal", "owner", "id", "cover", "pk"):
        assert root.problem("update_book", slug="salt", reason="a", **{name: 1}).startswith("Unknown argument")


def test_unique_values_are_told_without_whose_they_are(root: Reader) -> None:
    words = root.problem("update_book", slug="salt", reason="a", new_slug="tides")
    assert words == "Argument 'new_slug': Book with this Slug already exists."


def test_a_relation_to_a_model_that_is_not_registered_is_the_form_s_to_allow(root: Reader) -> None:
    words = root.problem("update_book", slug="salt", reason="a", author=999_999)
    assert words.startswith("Argument 'author': Select a valid choice. That choice is not one of the available")
    sea = Tag.objects.get(word="sea").pk
    assert root.data("update_book", slug="tides", reason="a", tags=[sea])["tags__word"] == ["sea"]
    words = root.problem("update_book", slug="tides", reason="a", tags=[999_999])
    assert words.startswith("Argument 'tags': Select a valid choice. 999999 is not one")


class TestRegisteredRelations:
    @pytest.fixture
    def root(self, server: MCPServer, reader: Callable[..., Reader], books: list[Book]) -> Reader:
        @register(Author, server=server)
        class Authors(ModelResource):
            fields = ("name",)
            title_field = "name"

            def get_queryset(self, ctx: Context) -> Any:
                return Author.objects.exclude(name="Carl Dahl")

        @register(Tag, server=server)
        class Tags(ModelResource):
            fields = ("word",)
            lookup_field = "word"

            def get_queryset(self, ctx: Context) -> Any:
                return Tag.objects.exclude(word="night")

        assert Authors
        assert Tags
        register(Book, Books, server=server)
        return reader("root")

    def test_are_resolved_through_the_door_of_their_model(self, root: Reader) -> None:
        hidden = Author.objects.get(name="Carl Dahl").pk
        words = root.problem("update_book", slug="salt", reason="a", author=hidden)
        assert words.startswith("Argument 'author': Select a valid choice. That choice is not one of the available")
        assert "Carl" not in words
        assert root.data("update_book", slug="foghorn", reason="a", author=anna())["author__name"] == "Anna Berg"

    def test_what_is_there_and_hidden_stays(self, root: Reader) -> None:
        root.data("update_book", slug="night-ferry", reason="a", title="Ferry", tags=[])
        ferry = Book.objects.get(slug="night-ferry")
        assert ferry.author.name == "Carl Dahl"
        assert list(ferry.tags.values_list("word", flat=True)) == ["night"]
        root.data("update_book", slug="night-ferry", reason="a", tags=["sea"])
        assert set(ferry.tags.values_list("word", flat=True)) == {"sea", "night"}


def test_a_row_is_validated_as_a_whole_although_the_form_has_only_a_part(
    server: MCPServer, reader: Callable[..., Reader], books: list[Book]
) -> None:
    class Numbering(forms.ModelForm):
        class Meta:
            model = Copy
            fields = ("number",)

    @register(Copy, server=server)
    class Copies(ModelResource):
        fields = ("number",)
        actions = ("update",)
        form = Numbering

    assert Copies
    Copy.objects.create(book=books[0], number=1, note="x")
    other = Copy.objects.create(book=books[0], number=2, note="x")
    assert reader("root").problem("update_copy", pk=other.pk, number=1).startswith("The values conflict")


def test_a_form_with_a_prefix_and_a_widget_of_many_inputs_works(
    server: MCPServer, reader: Callable[..., Reader], books: list[Book]
) -> None:
    class Fancy(forms.ModelForm):
        prefix = "fancy"

        class Meta:
            model = Book
            fields = ("title", "added", "pages")
            widgets = {"added": forms.SplitDateTimeWidget}

    @register(Book, server=server)
    class Fancies(ModelResource):
        fields = ("title", "added", "pages")
        lookup_field = "slug"
        actions = ("update",)
        form = Fancy

    assert Fancies
    changed = reader("root").data("update_book", slug="salt", added="2026-02-03T04:05:06Z")
    assert (changed["title"], changed["pages"]) == ("Salt", 210)
    assert Book.objects.get(slug="salt").added == datetime.datetime(2026, 2, 3, 4, 5, 6, tzinfo=datetime.UTC)


def test_a_disabled_field_is_no_argument(server: MCPServer, reader: Callable[..., Reader], books: list[Book]) -> None:
    class Fixed(forms.ModelForm):
        title = forms.CharField(disabled=True)

        class Meta:
            model = Book
            fields = ("title", "shelf")

    @register(Book, server=server)
    class Fixeds(ModelResource):
        fields = ("title", "shelf")
        lookup_field = "slug"
        actions = ("update",)
        form = Fixed

    assert Fixeds
    root = reader("root")
    assert root.problem("update_book", slug="salt", title="New").startswith("Unknown argument 'title'")
    assert root.data("update_book", slug="salt", shelf="Z") | {"uri": ""} == {
        "uri": "",
        "slug": "salt",
        "title": "Salt",
        "shelf": "Z",
    }


class Counted(forms.TextInput):
    """A widget that needs keys of its own, as a page sends them with each of its values."""

    def value_from_datadict(self, data: Any, files: Any, name: str) -> Any:
        return data.get(name) or data[f"{name}-count"]


class CountedForm(forms.ModelForm):
    class Meta:
        model = Book
        fields = ("title", "slug", "author", "summary")
        widgets = {"summary": Counted}


def test_a_field_that_is_not_given_does_not_need_the_keys_of_its_widget(
    server: MCPServer, reader: Callable[..., Reader], books: list[Book]
) -> None:
    class Counting(ModelResource):
        fields = ("title", "summary")
        lookup_field = "slug"
        actions = ("create", "update")
        form = CountedForm

    register(Book, Counting, server=server)
    form_tool(CountedForm, name="retitle", lookup="pk", queryset=lambda _: Book.objects.all(), server=server)
    root = reader("root")
    assert root.data("create_book", title="Reef", slug="reef", author=anna())["summary"] == ""
    assert root.data("update_book", slug="reef", summary="Fish.")["summary"] == "Fish."
    assert root.data("update_book", slug="reef", title="Atoll")["summary"] == "Fish."
    root.data("retitle", pk=Book.objects.get(slug="reef").pk, title="Shoal")
    assert (Book.objects.get(slug="reef").title, Book.objects.get(slug="reef").summary) == ("Shoal", "Fish.")


class Languages(Counted):
    """A widget that its field asks, as those of translated columns are."""

    def __init__(self, attrs: Any = None) -> None:
        super().__init__(attrs)
        self.languages = ["en"]


class LanguagesField(forms.CharField):
    widget = Languages

    def clean(self, value: Any) -> Any:
        return f"{value or ''} ({', '.join(self.widget.languages)})"  # type: ignore[attr-defined]


def test_a_field_that_asks_its_widget_is_written(
    server: MCPServer, reader: Callable[..., Reader], books: list[Book]
) -> None:
    class Form(forms.ModelForm):  # type: ignore[type-arg]
        class Meta:
            model = Book
            fields = ("title", "slug", "author", "summary")
            field_classes: ClassVar = {"summary": LanguagesField}
            widgets: ClassVar = {"summary": Languages}

        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self.fields["summary"].widget.languages = ["en", "de"]  # type: ignore[attr-defined]

    form_tool(Form, name="add_book", permission=None, server=server)
    root = reader("root")
    root.data("add_book", title="Reef", slug="reef", author=anna())
    root.data("add_book", title="Atoll", slug="atoll", author=anna(), summary="Fish")
    found = Book.objects.filter(slug__in=["reef", "atoll"]).order_by("slug").values_list("summary", flat=True)
    assert [*found] == ["Fish (en, de)", " (en, de)"]


@pytest.mark.parametrize("is_of_site", [True, False])
def test_a_translated_text_is_written_in_the_form_in_which_it_is_read(
    server: MCPServer, reader: Callable[..., Reader], people: Any, is_of_site: bool
) -> None:
    class Signs(ModelResource):
        fields = ("name",)
        actions = ("create", "update")
        writable_fields = () if is_of_site else ("name",)
        form = forms.modelform_factory(Sign, fields=["name"]) if is_of_site else None

    register(Sign, Signs, server=server)
    root = reader("root")
    made = root.data("create_sign", name='{"de": "Meer", "en": "Sea"}')
    assert made["name"] == '{"de": "Meer", "en": "Sea"}'
    changed = root.data("update_sign", pk=made["pk"], name=made["name"].replace("Sea", "Ocean"))
    assert changed["name"] == '{"de": "Meer", "en": "Ocean"}'
    assert root.data("update_sign", pk=made["pk"], name="Both")["name"] == "Both"
    assert str(Sign.objects.get().name) == "Both"
    (schema,) = {
        tool["inputSchema"]["properties"]["name"]["type"]
        for tool in root.list("tools/list")
        if tool["name"] in {"create_sign", "update_sign"}
    }
    assert schema == "string"


def test_a_refused_value_is_the_error_though_clean_reads_it(root: Reader) -> None:
    problem = root.problem("create_book", title="A", slug="a", author=anna(), price=-(10**9), reason="x")
    assert "Argument 'price'" in problem, problem


class CopyForm(forms.ModelForm):
    class Meta:
        model = Copy
        fields = ("book", "number", "note")


@pytest.mark.parametrize("way", ["ModelResource", "form_tool"])
def test_a_row_that_is_not_there_is_the_error_though_clean_reads_it(
    server: MCPServer, reader: Callable[..., Reader], books: list[Book], monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr(Copy, "clean", lambda self: self.book.title)
    if way == "form_tool":
        form_tool(CopyForm, server=server, permission=None)
    else:
        register(Book, Books, server=server)

        @register(Copy, server=server)
        class Copies(ModelResource):
            fields = ("book", "number", "note")
            actions = ("create",)
            writable_fields = ("book", "number", "note")

    root = reader("root")
    hidden, shown = (999_999, books[0].pk) if way == "form_tool" else ("nosuch", books[0].slug)
    assert "Argument 'book'" in root.problem("create_copy", book=hidden, number=1, note="x")
    assert root.data("create_copy", book=shown, number=1, note="x")


def test_an_error_of_clean_alone_is_a_crash(
    server: MCPServer, reader: Callable[..., Reader], books: list[Book], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Copy, "clean", lambda self: {}["missing"])
    form_tool(CopyForm, server=server, permission=None)
    problem = reader("root").problem("create_copy", book=books[0].pk, number=1, note="x")
    assert "Internal server error" in problem
