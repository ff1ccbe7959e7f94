"""What is wrong with how a declaration lets callers write: nothing of it is served, and a system check says why."""

from collections.abc import Sequence
from typing import Any

from django import forms
from django.core.checks import run_checks
from django.db import models
from django.test.utils import isolate_apps

from django_mcp import MCPServer, ModelResource, register
from tests.model_resources.conftest import registering
from tests.model_resources.library.models import Author, Book, Copy, Draft, Leaf, Tag, Ticket


def messages(server: MCPServer, model: Any, verbs: Sequence[str] = ("create",), **declared: Any) -> list[str]:
    fields = declared.pop("fields", ("pk",))
    register(model, type("Declared", (ModelResource,), {"fields": fields, "actions": verbs, **declared}), server=server)
    found = [each for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.E027"]
    if found:
        assert not server.tools
        assert not server.resources
    return [f"{each.msg} {each.hint}" for each in found]


def test_fields_that_cannot_be_written(server: MCPServer) -> None:
    fields: list[tuple[Any, list[str], str]] = [
        (Book, [], "actions has 'create', but no field is writable"),
        (Book, ["nosuch"], "has no field 'nosuch' of its own. Choose from 'title', 'slug',"),
        (Book, ["author_id"], "has no field 'author_id' of its own"),
        (Book, ["author__name"], "has no field 'author__name' of its own"),
        (Book, ["reviews"], "has no field 'reviews' of its own"),
        (Book, ["id"], "'id' is the primary key"),
        (Ticket, ["id"], "'id' is the primary key"),
        (Book, ["cover"], "'cover' holds a file or bytes"),
        (Book, ["raw"], "'raw' holds a file or bytes"),
        (Book, ["author"], "'author' refers to library.Author, which is not registered here. Register that model"),
        (Book, ["tags"], "'tags' refers to library.Tag, which is not registered here"),
        (Book, ["owner"], "'owner' refers to auth.User, which is not registered here"),
    ]
    wrong = []
    for model, writable_fields, words in fields:
        with registering(server):
            found = messages(server, model, writable_fields=writable_fields)
            if [words in message for message in found] != [True]:
                wrong.append((model, writable_fields, found))
    assert wrong == []


def test_a_field_that_is_not_editable(server: MCPServer) -> None:
    (message,) = messages(server, Book, writable_fields=["title", "key"], secret_fields=["key"])
    assert "'key' is not editable, so it cannot be written" in message


def test_each_wrong_field_is_told(server: MCPServer) -> None:
    assert len(messages(server, Book, writable_fields=["id", "cover", "nosuch", "title"])) == 3


def test_an_argument_called_as_another_one(server: MCPServer) -> None:
    with isolate_apps("tests.model_resources.library"):

        class Renamed(models.Model):  # noqa: DJ008
            word = models.SlugField(unique=True)
            new_word = models.SlugField()

            class Meta:
                app_label = "library"

    (message,) = messages(server, Renamed, lookup_field="word", writable_fields=["word", "new_word"])
    assert "two arguments would have the name 'new_word'" in message


def test_no_verb_that_needs_fields_needs_none(server: MCPServer) -> None:
    assert not messages(server, Book, verbs=["delete"], writable_fields=["author", "nosuch"])
    assert set(server.tools) >= {"delete_book"}


def test_fields_that_the_model_needs_may_be_left_to_save_model(server: MCPServer) -> None:
    assert not messages(server, Copy, writable_fields=["number"])


def unset(server: MCPServer, model: Any, **declared: Any) -> list[str]:
    """What is told of columns that nothing sets."""
    with registering(server):
        assert not messages(server, model, **declared)
        return [str(each.msg) for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.W043"]


def test_columns_that_a_new_row_needs_and_nothing_sets_are_told_at_start(server: MCPServer) -> None:
    (message,) = unset(server, Leaf, writable_fields=["title", "body"])
    assert "no argument of create_leaf and no default sets path, depth, kind, slug, needed by library.Leaf" in message
    (message,) = unset(server, Copy, writable_fields=["number"])
    assert "no default sets book, note," in message


@isolate_apps("tests.model_resources.library")
def test_columns_that_no_form_shows_are_not_told(server: MCPServer) -> None:
    class Branch(models.Model):
        name = models.CharField(max_length=20)
        left = models.PositiveIntegerField(editable=False)  # as django-mptt has it

        class Meta:
            app_label = "library"

        def __str__(self) -> str:
            return self.name

    assert unset(server, Branch, writable_fields=["name"]) == []


class Rooted(forms.ModelForm):
    class Meta:
        model = Leaf
        fields = ("title",)

    def clean(self) -> None:
        other = Author()
        other.path = other.depth = other.body = 1
        setattr(self.instance, "path", "1")  # noqa: B010


def test_what_code_sets_is_said_by_save_model_and_guessed_from_nothing(server: MCPServer) -> None:
    def save_model(self: Any, ctx: Any, obj: Any, change: bool) -> None:
        obj.save()

    (message,) = unset(server, Leaf, form=Rooted)
    assert "sets path, depth, kind, slug, body," in message
    assert unset(server, Leaf, form=Rooted, save_model=save_model) == []
    assert unset(server, Leaf, writable_fields=["title"], save_model=save_model) == []
    assert unset(server, Leaf, writable_fields=["title"], verbs=["update", "delete"]) == []
    assert unset(server, Tag, writable_fields=["word"]) == []


def test_a_secret_is_told_as_everywhere(server: MCPServer) -> None:
    assert not messages(server, Author, writable_fields=["password"])
    assert [each.id for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.E023"] == ["django_mcp.E023"]
    assert not server.tools


def test_registering_the_other_model_mends_a_relation(server: MCPServer) -> None:
    assert messages(server, Book, writable_fields=["tags"])
    assert not messages(server, Tag, verbs=())
    assert "create_book" in server.tools


class WithFile(forms.ModelForm):
    class Meta:
        model = Book
        fields = ("title", "cover")


class WithKey(forms.ModelForm):
    class Meta:
        model = Ticket
        fields = ("id", "holder")


class Everything(forms.ModelForm):
    class Meta:
        model = Tag
        fields = "__all__"  # noqa: DJ007 - which is what is wrong with it


class OfDraft(forms.ModelForm):
    class Meta:
        model = Draft
        fields = ("title",)


class NoChoice(forms.ModelForm):
    book = forms.CharField()

    class Meta:
        model = Draft
        fields = ("title", "book")


def test_forms_that_cannot_be_used(server: MCPServer) -> None:
    forms_of: list[tuple[Any, Any, str]] = [
        (Book, WithFile, "'cover' holds a file or bytes"),
        (Ticket, WithKey, "'id' is the primary key"),
        (Tag, Everything, "form Everything does not declare Meta.fields"),
        (Book, OfDraft, "form is for library.Draft. Use a form for library.Book"),
        (Book, forms.Form, "Use a subclass of ModelForm"),
        (Book, "BookForm", "Use a subclass of ModelForm"),
        (Draft, NoChoice, "'book' is a relation, but its form field is a CharField"),
    ]
    wrong = []
    for model, form, words in forms_of:
        with registering(server):
            found = messages(server, model, form=form)
            if [words in message for message in found] != [True]:
                wrong.append((model, form, found))
    assert wrong == []


def test_a_form_and_write_fields_at_once(server: MCPServer) -> None:
    (message,) = messages(server, Draft, form=OfDraft, writable_fields=["title"])
    assert "both writable_fields and form are declared" in message


def test_a_form_may_ask_for_a_relation_that_is_not_registered(server: MCPServer) -> None:
    class WithBook(forms.ModelForm):
        class Meta:
            model = Draft
            fields = ("title", "book")

    assert not messages(server, Draft, form=WithBook)
    assert "create_draft" in server.tools


def test_a_secret_in_a_form_is_told_too(server: MCPServer) -> None:
    class WithPassword(forms.ModelForm):
        class Meta:
            model = Author
            fields = ("name", "password")

    assert not messages(server, Author, form=WithPassword)
    assert [each.id for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.E023"] == ["django_mcp.E023"]
