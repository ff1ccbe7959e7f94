"""A choice of a row that does not exist for the caller: the error says which there are, and how to find them."""

from typing import Any

import pytest
from django import forms

from django_mcp import Context, MCPServer, ModelResource, form_tool, register
from tests.integrations.forms.test_forms_rows import Made
from tests.model_resources.conftest import Reader
from tests.model_resources.library.models import Author, Book, Tag

NOBODY = 2**31 - 1
"""A key that no row has, however many tests have made rows before."""


class Shelve(forms.Form):
    """Put a book on a shelf."""

    tag = forms.ModelChoiceField(Tag.objects.order_by("word"), required=False)
    tags = forms.ModelMultipleChoiceField(Tag.objects.order_by("word"), required=False)
    author = forms.ModelChoiceField(Author.objects.order_by("name"), required=False)

    def save(self) -> str:
        return "done"


class Authors(ModelResource):
    fields = ("name",)
    title_field = "name"
    search_fields = ("name",)

    def get_queryset(self, ctx: Context) -> Any:
        return Author.objects.exclude(name="Carl Dahl")


@pytest.fixture
def ann(server: MCPServer, reader: Made, books: list[Book]) -> Reader:
    form_tool(Shelve, name="shelve", server=server)
    return reader("ann")


@pytest.mark.parametrize(("field", "value"), [("tag", "Sea"), ("tags", ["Sea"]), ("tag", NOBODY), ("tags", [NOBODY])])
def test_few_rows_of_a_model_without_tools_are_named_with_their_keys(ann: Reader, field: str, value: Any) -> None:
    sea, night = Tag.objects.get(word="sea").pk, Tag.objects.get(word="night").pk
    text = ann.problem("shelve", **{field: value})
    assert text.startswith(f"Argument '{field}': ")
    assert text.endswith(f" Choose one of: {night} (night), {sea} (sea).")


def test_of_many_rows_the_nearest_are_named(ann: Reader) -> None:
    Tag.objects.bulk_create(Tag(word=f"word-{number}") for number in range(40))
    science = Tag.objects.create(word="science")
    assert ann.problem("shelve", tag="Sciense").endswith(f" The nearest are: {science.pk} (science).")
    assert ann.problem("shelve", tag=NOBODY).endswith("That choice is not one of the available choices.")


def test_rows_of_a_registered_model_are_those_that_the_caller_sees_and_the_search_tool_is_named(
    server: MCPServer, ann: Reader, reader: Made
) -> None:
    register(Author, Authors, server=server)
    anna = Author.objects.get(name="Anna Berg")
    carl = Author.objects.get(name="Carl Dahl")
    for value in ("Ana Berg", carl.pk):
        text = ann.problem("shelve", author=value)
        assert text.endswith(f" Choose one of: {anna.pk} (Anna Berg). Use search_authors to find one.")
        assert "carl@example.com" not in text
    assert "Anna" not in reader("bob").problem("shelve", author=anna.pk)


def test_the_labels_of_the_sites_own_field_are_used(server: MCPServer, ann: Reader) -> None:
    class Loud(forms.ModelChoiceField):
        def label_from_instance(self, obj: Any) -> str:
            return obj.word.upper()

    form_tool(type("Loudly", (Shelve,), {"tag": Loud(Tag.objects.filter(word="sea"))}), name="loudly", server=server)
    assert "(SEA)." in ann.problem("loudly", tag="x")


def test_items_of_a_set_are_helped_too(server: MCPServer, ann: Reader) -> None:
    form_tool(forms.formset_factory(Shelve), name="shelve_all", argument="items", handle=str, server=server)
    assert "(night)" in ann.problem("shelve_all", items=[{}, {"tag": "x"}])


def test_the_tools_of_a_model_help_with_their_relations(server: MCPServer, ann: Reader) -> None:
    class Books(ModelResource):
        fields = ("title",)
        actions = ("create",)
        writable_fields = ("title", "slug", "author")
        add_permission = None

    register(Author, Authors, server=server)
    register(Book, Books, server=server)
    text = ann.problem("create_book", title="New", slug="new", author=9999)
    assert text.startswith("Argument 'author': no author with pk '9999' found.")
    assert text.endswith("Use search_authors to find one.")


def test_null_and_truth_values_among_the_choices_are_named_as_json_has_them(
    server: MCPServer, reader: Made, books: list[Book]
) -> None:
    answers = [(True, "Certainly"), (False, "Never"), (None, "Unsure")]

    class Asked(forms.Form):
        sure = forms.TypedChoiceField(choices=answers, required=False, coerce=lambda value: value == "True")

        def save(self) -> str:
            return repr(self.cleaned_data["sure"])

    form_tool(Asked, name="ask", server=server)
    ann = reader("ann")
    (tool,) = ann.list("tools/list")
    assert tool["inputSchema"]["properties"]["sure"]["description"] == "true: Certainly; false: Never."
    assert ann.problem("ask", sure="x").endswith("Choose one of: true (Certainly), false (Never).")
    assert ann.call("ask", sure=True).text == "True"
