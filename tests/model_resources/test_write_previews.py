"""What creating, changing or deleting a row would change, shown before it is done."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from django import forms
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_mcp import Context, MCPServer, ModelResource, ToolError, register
from django_mcp.primitives.schema import ArgumentError
from tests.model_resources import allowing
from tests.model_resources.conftest import Reader
from tests.model_resources.library.models import Author, Book, Copy, Draft, Publisher, Review, Tag, Ticket
from tests.model_resources.looking import changes, look

Look = Callable[..., Any]


class Books(allowing.Books):
    """Its own code is not to run while somebody only looks."""

    writable_fields = (*allowing.Books.writable_fields, "shelf")

    def save_model(self, ctx: Context, obj: Any, change: bool) -> None:
        raise AssertionError("a preview saves nothing")


@pytest.fixture
def ann(server: MCPServer, books: list[Book], people: Mapping[str, User]) -> Look:
    """Previews of Ann's calls, who may do everything to books."""
    allowing.allow(people["ann"], "add_book", "change_book", "delete_book")
    return lambda name, /, **arguments: look(server, people["ann"], name, **arguments)


@pytest.fixture
def root(server: MCPServer, books: list[Book], people: Mapping[str, User]) -> Look:
    return lambda name, /, **arguments: look(server, people["root"], name, **arguments)


def problem(preview: Look, name: str, /, **arguments: Any) -> str:
    with pytest.raises((ArgumentError, ToolError)) as caught:
        preview(name, **arguments)
    return str(caught.value)


def person(name: str) -> Author:
    return Author.objects.get(name=name)


class TestChanging:
    def test_each_field_that_would_differ_is_shown_before_and_after(self, server: MCPServer, ann: Look) -> None:
        register(Book, Books, server=server)
        shown = ann("update_book", slug="salt", title="Pepper", price="12.5", binding="cloth", published="2026-01-02")
        assert shown == {
            "verb": "update",
            "object": "Book Salt",
            "uri": "library://book/salt",
            "changes": [
                {"field": "title", "label": "Title", "before": "Salt", "after": "Pepper"},
                {"field": "binding", "label": "Binding", "before": "paper", "after": "cloth"},
                {"field": "published", "label": "Published", "before": None, "after": "2026-01-02"},
            ],
        }
        assert Book.objects.get(slug="salt").title == "Salt"

    def test_it_names_the_row_as_the_declaration_does(self, server: MCPServer, ann: Look) -> None:
        register(Book, type("Titled", (Books,), {"title_field": "title"}), server=server)
        shown = ann("update_book", slug="salt", title="Pepper", new_slug="pepper")
        assert (shown["object"], shown["uri"]) == ("Book Salt", "library://book/salt")
        assert changes(shown)["slug"] == ("salt", "pepper")

    def test_nothing_differs_where_everything_is_so_already(self, server: MCPServer, ann: Look) -> None:
        register(Book, Books, server=server)
        assert ann("update_book", slug="salt", title="Salt", price="12.5", extra=None)["changes"] == []

    def test_true_is_another_value_than_one_in_json(self, server: MCPServer, ann: Look) -> None:
        register(Book, Books, server=server)
        Book.objects.filter(slug="salt").update(extra={"a": 1, "b": 2})
        assert ann("update_book", slug="salt", extra={"b": 2, "a": 1})["changes"] == []
        assert changes(ann("update_book", slug="salt", extra={"a": True, "b": 2}))["extra"][1] == {"a": True, "b": 2}

    def test_of_a_long_text_what_is_around_the_change_is_shown(self, server: MCPServer, ann: Look) -> None:
        register(Book, Books, server=server)
        beginning, end = "word " * 800, " end" * 800
        Book.objects.filter(slug="salt").update(summary=f"{beginning}pay 10 euros{end}")
        before, after = changes(ann("update_book", slug="salt", summary=f"{beginning}pay 1000 euros{end}"))["summary"]
        assert "pay 10 euros" in before
        assert "pay 1000 euros" in after
        assert before.startswith("… ")
        assert before.endswith(" …")
        assert len(after) < 200

    @pytest.mark.parametrize(("old", "new"), [("a" * 1500, "a" * 1700), ("a" * 1700, "a" * 1500), ("", "b" * 3000)])
    def test_of_a_long_text_that_only_grows_or_shrinks_both_ends_differ(
        self, server: MCPServer, ann: Look, old: str, new: str
    ) -> None:
        register(Book, Books, server=server)
        Book.objects.filter(slug="salt").update(summary=old)
        before, after = changes(ann("update_book", slug="salt", summary=new))["summary"]
        assert before != after
        assert max(len(before), len(after)) < 1010

    def test_what_the_model_itself_changes_besides_is_shown_if_the_field_is(
        self, server: MCPServer, ann: Look, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def clean(book: Book) -> None:
            book.pages, book.internal = 7, "touched"

        monkeypatch.setattr(Book, "clean", clean)
        register(Book, Books, server=server)
        assert changes(ann("update_book", slug="salt", title="Pepper")) == {
            "title": ("Salt", "Pepper"),
            "pages": (210, 7),
        }

    def test_the_old_value_of_a_field_that_is_not_shown_is_not_shown_either(self, server: MCPServer, ann: Look) -> None:
        register(Book, Books, server=server)
        # Nor whether it is the same.
        for value in ("A", "Z"):
            shown = changes(ann("update_book", slug="salt", shelf=value))
            assert shown == {"shelf": {"hidden": True, "after": value}}

    def test_secrets_are_shown_neither_before_nor_after(
        self, server: MCPServer, root: Look, people: Mapping[str, User]
    ) -> None:
        @register(Author, server=server)
        class Authors(ModelResource):
            fields = ("name", "password")
            actions = ("create", "update", "delete")
            writable_fields = ("name", "email", "password")
            secret_fields = ("password",)

        assert Authors
        anna = person("Anna Berg")
        shown = root("update_author", pk=anna.pk, password="hunter2", email="new@example.com")
        hidden = {"hidden": True, "after": "new@example.com"}
        assert changes(shown) == {"email": hidden, "password": ("***", "***")}
        made = root("create_author", name="Dora", password="hunter2")
        assert changes(made)["password"] == {"after": "***"}
        gone = root("delete_author", pk=anna.pk)
        assert changes(gone)["password"] == {"before": "***"}
        assert "hunter2" not in str([shown, made, gone])
        assert "pbkdf2" not in str([shown, made, gone])

    def test_a_method_in_place_of_a_field_decides_what_was_there(self, server: MCPServer, ann: Look) -> None:
        class Masked(Books):
            def binding(self, obj: Book) -> str:
                return f"{obj.binding[0]}…"

        register(Book, Masked, server=server)
        assert changes(ann("update_book", slug="salt", binding="cloth"))["binding"] == ("p…", "cloth")

    def test_the_number_of_questions_does_not_depend_on_how_much_changes(self, server: MCPServer, root: Look) -> None:
        register(Book, Books, server=server)
        counts = []
        for given in ({"title": "Pepper"}, {"title": "Pepper", "price": "1.00", "summary": "a", "extra": [1]}):
            with CaptureQueriesContext(connection) as queries:
                root("update_book", slug="salt", **given)
            counts.append(len(queries))
        assert counts[0] == counts[1] <= 10


class TestCreating:
    def test_it_shows_what_the_row_would_have_of_all_that_can_be_given(self, server: MCPServer, ann: Look) -> None:
        register(Book, Books, server=server)
        shown = ann("create_book", title="Reef", slug="reef", summary="")
        assert (shown["verb"], shown["object"], "uri" in shown) == ("create", "Book", False)
        assert changes(shown) == {
            "title": {"after": "Reef"},
            "slug": {"after": "reef"},
            "price": {"after": "10.00"},
            "binding": {"after": "paper"},
            "summary": {"after": ""},
            "shelf": {"after": "A"},
        }
        assert not Book.objects.filter(slug="reef").exists()


class TestDeleting:
    def test_it_shows_the_row_and_how_many_others_go_with_it(self, server: MCPServer, ann: Look) -> None:
        register(Book, type("Short", (Books,), {"fields": ("title", "price", "author__name")}), server=server)
        salt = Book.objects.get(slug="salt")
        Draft.objects.create(title="One", book=salt)
        Draft.objects.create(title="Gone", book=salt, deleted=True)
        shown = ann("delete_book", slug="salt")
        assert shown.pop("also_digest")
        assert shown == {
            "verb": "delete",
            "object": "Book Salt",
            "uri": "library://book/salt",
            "changes": [
                {"field": "title", "label": "Title", "before": "Salt"},
                {"field": "price", "label": "Price", "before": "12.50"},
                {"field": "author__name", "label": "Author name", "before": "Anna Berg"},
            ],
            "also": [
                {"what": "book-tag relationship", "count": 1},
                {"what": "drafts", "count": 2},
                {"what": "reviews", "count": 2},
            ],
        }
        assert Book.objects.filter(slug="salt").exists()
        assert Review.objects.count() == 2

    def test_what_goes_with_what_goes_is_counted_too(self, server: MCPServer, root: Look) -> None:
        @register(Author, server=server)
        class Authors(ModelResource):
            fields = ("name",)
            actions = ("delete",)

        assert Authors
        also = {each["what"]: each["count"] for each in root("delete_author", pk=person("Anna Berg").pk)["also"]}
        assert also == {"books": 2, "reviews": 2, "book-tag relationship": 1}

    def test_what_something_needs_is_refused_in_the_words_of_the_tool(
        self, server: MCPServer, ann: Look, reader: Callable[..., Reader]
    ) -> None:
        register(Book, allowing.Books, server=server)
        Copy.objects.create(book=Book.objects.get(slug="salt"), number=1, note="x")
        words = problem(ann, "delete_book", slug="salt")
        assert words == "This book cannot be deleted because other rows refer to it."
        assert reader("ann").problem("delete_book", slug="salt") == words

    def test_a_site_that_deletes_in_its_own_way_may_do_so_nevertheless(self, server: MCPServer, ann: Look) -> None:
        class Kept(Books):
            def delete_model(self, ctx: Context, obj: Any) -> None:
                raise AssertionError("a preview deletes nothing")

        register(Book, Kept, server=server)
        Copy.objects.create(book=Book.objects.get(slug="salt"), number=1, note="x")
        assert ann("delete_book", slug="salt")["also"] is None
        assert ann("delete_book", slug="tides")["changes"]

    def test_nothing_is_claimed_to_go_along_where_a_site_deletes_in_its_own_way(
        self, server: MCPServer, ann: Look, root: Look, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Marked(Books):
            def delete_model(self, ctx: Context, obj: Any) -> None:
                raise AssertionError("a preview deletes nothing")

        @register(Tag, server=server)
        class Tags(ModelResource):
            fields = ("word",)
            actions = ("delete",)

        assert Tags
        register(Book, Marked, server=server)
        assert Review.objects.filter(book__slug="salt").exists()
        assert ann("delete_book", slug="salt")["also"] is None
        tag = Tag.objects.get(word="sea")
        assert root("delete_tag", pk=tag.pk)["also"] == [{"what": "book-tag relationships", "count": 2}]
        monkeypatch.setattr(Tag, "delete", lambda self: None, raising=False)
        assert root("delete_tag", pk=tag.pk)["also"] is None

    def test_the_parts_of_a_row_in_tables_of_parents_are_no_other_rows(self, server: MCPServer, root: Look) -> None:
        from tests.model_resources.library.models import RareCopy

        @register(RareCopy, server=server)
        class Rare(ModelResource):
            fields = ("number",)
            actions = ("delete",)

        assert Rare
        rare = RareCopy.objects.create(book=Book.objects.first(), number=1, note="x", worth=5)
        assert root("delete_rare_copy", pk=rare.pk)["also"] == []


class TestDoors:
    """What the call would be told, the preview is told in the same words; nobody is to approve it then."""

    def test_hidden_and_missing_rows_are_the_same(
        self, server: MCPServer, ann: Look, reader: Callable[..., Reader]
    ) -> None:
        class Few(allowing.Books):
            object_permissions = True

            def get_queryset(self, ctx: Context) -> Any:
                return Book.objects.exclude(slug="tides")

            def has_view_permission(self, ctx: Any, obj: Any = None) -> bool:
                return obj is None or obj.slug != "lanterns"

        register(Book, Few, server=server)
        for slug in ("tides", "lanterns", "nosuch", "a/b"):
            words = reader("ann").problem("update_book", slug=slug, title="x")
            assert words == f"No book with slug {slug!r} found."
            assert problem(ann, "update_book", slug=slug, title="x") == words
            assert problem(ann, "delete_book", slug=slug) == words

    def test_rows_that_may_be_seen_and_not_written(
        self, server: MCPServer, ann: Look, reader: Callable[..., Reader]
    ) -> None:
        class Owned(allowing.Books):
            def has_change_permission(self, ctx: Any, obj: Any = None) -> bool:
                return obj is None or obj.owner == ctx.user

            has_delete_permission = has_change_permission

        register(Book, Owned, server=server)
        for name, more in (("update_book", {"title": "x"}), ("delete_book", {})):
            words = reader("ann").problem(name, slug="tides", **more)
            assert words.startswith("You do not have permission")
            assert problem(ann, name, slug="tides", **more) == words

    def test_values_that_cannot_be(self, server: MCPServer, ann: Look, reader: Callable[..., Reader]) -> None:
        register(Book, allowing.Books, server=server)
        for name, arguments in (
            ("update_book", {"slug": "salt"}),
            ("update_book", {"slug": "salt", "new_slug": "tides"}),
            ("update_book", {"slug": "salt", "price": "1.234"}),
            ("update_book", {"slug": "salt", "title": ""}),
            ("create_book", {"title": "Reef", "slug": "salt"}),
            ("create_book", {"title": "Reef", "slug": "not a slug"}),
        ):
            assert problem(ann, name, **arguments) == reader("ann").problem(name, **arguments), (name, arguments)

    def test_rules_for_several_fields(
        self, server: MCPServer, root: Look, reader: Callable[..., Reader], books: list[Book]
    ) -> None:
        @register(Copy, server=server)
        class Copies(ModelResource):
            fields = ("number", "note", "lent", "due")
            actions = ("update",)
            writable_fields = fields

        assert Copies
        copy = Copy.objects.create(book=books[0], number=1, note="x", lent="2026-01-02")
        Copy.objects.create(book=books[0], number=2, note="x")
        for wrong in ({"number": 2}, {"number": 0}, {"due": "2026-01-01"}, {"note": "lost"}):
            assert problem(root, "update_copy", pk=copy.pk, **wrong) == reader("root").problem(
                "update_copy", pk=copy.pk, **wrong
            )


class Tags(ModelResource):
    fields = ("word",)
    lookup_field = "word"
    title_field = "word"

    def get_queryset(self, ctx: Context) -> Any:
        return Tag.objects.exclude(word="night")


class Authors(ModelResource):
    fields = ("name",)
    title_field = "name"

    def get_queryset(self, ctx: Context) -> Any:
        return Author.objects.exclude(name="Carl Dahl")


class Related(ModelResource):
    fields: Any = ("title", "author", "tags")
    lookup_field = "slug"
    actions = ("create", "update", "delete")
    writable_fields = ("title", "slug", "author", "tags")


def link(name: str) -> dict[str, Any]:
    return {"uri": f"library://author/{person(name).pk}", "title": name}


class TestRelations:
    @pytest.fixture
    def ann(self, server: MCPServer, ann: Look) -> Look:
        register(Author, Authors, server=server)
        register(Tag, Tags, server=server)
        for word in ("harbour", "tide"):
            Tag.objects.create(word=word)
        Author.objects.create(name="Dora Elk")
        return ann

    def test_rows_are_shown_as_their_declaration_shows_them(self, server: MCPServer, ann: Look) -> None:
        register(Book, Related, server=server)
        shown = ann("update_book", slug="salt", author=person("Dora Elk").pk, tags=["harbour", "tide"])
        tag = {word: {"uri": f"library://tag/{word}", "title": word} for word in ("sea", "harbour", "tide")}
        assert changes(shown) == {
            "author": (link("Anna Berg"), link("Dora Elk")),
            "tags": ([tag["sea"]], [tag["harbour"], tag["tide"]]),
        }
        made = changes(ann("create_book", title="Reef", slug="reef", author=person("Dora Elk").pk, tags=["tide"]))
        assert made["author"] == {"after": link("Dora Elk")}
        assert made["tags"] == {"after": [tag["tide"]]}

    def test_values_behind_a_relation_stand_for_it_where_only_they_are_shown(
        self, server: MCPServer, ann: Look
    ) -> None:
        register(Book, type("Named", (Related,), {"fields": ("title", "author__name", "tags__word")}), server=server)
        shown = changes(ann("update_book", slug="salt", author=person("Dora Elk").pk, tags=["sea", "tide"]))
        assert shown == {"author": ("Anna Berg", "Dora Elk"), "tags": (["sea"], ["sea", "tide"])}

    def test_rows_the_caller_cannot_see_are_not_told_of(self, server: MCPServer, ann: Look) -> None:
        register(Book, Related, server=server)
        shown = ann("update_book", slug="night-ferry", author=person("Dora Elk").pk, tags=["sea", "tide"])
        assert changes(shown)["author"] == {"hidden": True, "after": link("Dora Elk")}
        assert "night" not in str(changes(shown)["tags"])
        assert ann("update_book", slug="night-ferry", tags=["sea"])["changes"] == []
        assert "Carl" not in str(shown)
        hidden = person("Carl Dahl").pk
        words = problem(ann, "update_book", slug="salt", author=hidden)
        assert words.startswith(f"Argument 'author': no author with pk '{hidden}' found. Choose one of: ")
        assert "Carl" not in words

    def test_relations_that_are_not_shown_have_no_before(self, server: MCPServer, ann: Look) -> None:
        register(Book, type("Bare", (Related,), {"fields": ("title",)}), server=server)
        for name, words in (("Anna Berg", ["sea"]), ("Dora Elk", [])):
            shown = changes(ann("update_book", slug="salt", author=person(name).pk, tags=words))
            assert shown["author"] == {"hidden": True, "after": link(name)}
            assert shown["tags"].keys() == {"hidden", "after"}

    def test_of_large_sets_what_comes_and_goes_is_shown(self, server: MCPServer, ann: Look) -> None:
        register(Book, type("Worded", (Related,), {"fields": ("tags__word",)}), server=server)
        words = [f"word-{number:03}" for number in range(90)]
        Tag.objects.bulk_create(Tag(word=word) for word in words)
        Book.objects.get(slug="salt").tags.set(Tag.objects.filter(word__in=words[:30]))
        before, after = changes(ann("update_book", slug="salt", tags=words[1:]))["tags"]
        assert before == ["… (29 unchanged)", "word-000"]
        assert after[:2] == ["… (29 unchanged)", "word-030"]
        assert after[-1] == "… (10 more)"
        assert len(after) == 52

    def test_null_and_keys_that_are_no_primary_keys(self, server: MCPServer, ann: Look, root: Look) -> None:
        @register(Ticket, server=server)
        class Tickets(ModelResource):
            fields = ("holder", "about")
            actions = ("update",)
            writable_fields = fields

        assert Tickets
        ticket = Ticket.objects.create(holder="Ann", about=Tag.objects.get(word="sea"))
        sea, tide = ({"uri": f"library://tag/{word}", "title": word} for word in ("sea", "tide"))
        assert changes(root("update_ticket", pk=str(ticket.pk), about=None)) == {"about": (sea, None)}
        assert changes(root("update_ticket", pk=str(ticket.pk), about="tide")) == {"about": (sea, tide)}
        assert root("update_ticket", pk=str(ticket.pk), about="sea")["changes"] == []


class BookForm(forms.ModelForm):
    reason = forms.CharField(max_length=20)
    loud = forms.BooleanField(required=False)

    class Meta:
        model = Book
        fields = ("title", "slug", "author", "price", "extra", "tags")

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        if data.get("loud"):
            data["title"] = data["title"].upper()
        if data.get("price", 0) > 100:
            self.add_error("price", "Too much.")
        return data


class ByForm(ModelResource):
    fields = ("title", "price", "author__name", "tags__word", "pages")
    lookup_field = "slug"
    actions = ("create", "update")
    form: Any = BookForm


class TestForms:
    def test_it_shows_what_the_form_makes_of_what_is_given(self, server: MCPServer, root: Look) -> None:
        register(Book, ByForm, server=server)
        tag, carl = Tag.objects.get(word="night"), person("Carl Dahl")
        shown = root("update_book", slug="salt", reason="a", loud=True, author=carl.pk, tags=[tag.pk])
        assert changes(shown) == {
            "title": ("Salt", "SALT"),
            "author": ("Anna Berg", "Carl Dahl"),
            "tags": (["sea"], ["night"]),
        }
        assert root("update_book", slug="salt", reason="a", price="12.50")["changes"] == []

    def test_it_shows_what_the_form_would_begin_with_for_a_new_row(self, server: MCPServer, root: Look) -> None:
        register(Book, ByForm, server=server)
        made = root("create_book", title="Reef", slug="reef", reason="a", author=person("Carl Dahl").pk)
        assert changes(made) == {
            "title": {"after": "Reef"},
            "slug": {"after": "reef"},
            "author": {"after": "Carl Dahl"},
            "price": {"after": "10.00"},
        }

    def test_the_form_s_rules_hold(self, server: MCPServer, root: Look, reader: Callable[..., Reader]) -> None:
        register(Book, ByForm, server=server)
        for wrong in ({"price": "200"}, {"author": 999_999}, {"new_slug": "tides"}):
            words = problem(root, "update_book", slug="salt", reason="a", **wrong)
            assert words == reader("root").problem("update_book", slug="salt", reason="a", **wrong)

    def test_the_form_itself_is_not_saved(self, server: MCPServer, root: Look) -> None:
        class Saving(BookForm):
            def save(self, commit: bool = True) -> Any:
                raise AssertionError("a preview saves nothing")

        register(Book, type("Own", (ByForm,), {"form": Saving}), server=server)
        assert changes(root("update_book", slug="salt", reason="a", price="3")) == {"price": ("12.50", "3.00")}


class TestSoftly:
    def test_what_cannot_be_foreseen_is_told_when_it_is_done(
        self, server: MCPServer, ann: Look, reader: Callable[..., Reader]
    ) -> None:
        """What ``save_model`` refuses, say; that the preview is fine is no promise."""

        class Strict(allowing.Books):
            def save_model(self, ctx: Context, obj: Any, change: bool) -> None:
                raise ValidationError("Not today.")

        register(Book, Strict, server=server)
        assert changes(ann("update_book", slug="salt", title="Pepper"))
        assert reader("ann").problem("update_book", slug="salt", title="Pepper") == "Not today."

    def test_a_relation_to_a_model_that_is_registered_nowhere_shows_its_key(
        self, server: MCPServer, root: Look
    ) -> None:
        class Housing(forms.ModelForm):
            class Meta:
                model = Author
                fields = ("publisher",)

        @register(Author, server=server)
        class Homes(ModelResource):
            fields = ("name", "publisher")
            actions = ("update",)
            form = Housing

        assert Homes
        anna, new = person("Anna Berg"), Publisher.objects.create(name="Quay", secret_terms="much")
        old = anna.publisher_id
        assert changes(root("update_author", pk=anna.pk, publisher=new.pk)) == {"publisher": (old, new.pk)}
