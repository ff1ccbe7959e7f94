"""Sets of forms as tools: an array, told item by item."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from django import forms
from django.contrib.auth.models import Permission, User
from django.core.exceptions import ImproperlyConfigured

from django_mcp import Context, MCPServer, ModelResource, form_tool, register
from tests.model_resources.conftest import Reader
from tests.model_resources.library.models import Author, Book, Review, Tag

pytestmark = pytest.mark.usefixtures("people")
Made = Callable[..., Reader]


class PassengerForm(forms.Form):
    name = forms.CharField(max_length=10)
    age = forms.IntegerField(min_value=0, max_value=120, initial=30)
    paper = forms.FileField(required=False)


class Party(forms.BaseFormSet):
    def clean(self) -> None:
        if any(self.errors):
            return
        names = [form.cleaned_data["name"] for form in self.forms]
        if len(names) != len(set(names)):
            raise forms.ValidationError("Two have the same name.")

    def save(self) -> str:
        return ", ".join(f"{form.cleaned_data['name']} ({form.cleaned_data['age']})" for form in self.forms)


PassengerFormSet = forms.formset_factory(
    PassengerForm, Party, extra=2, min_num=1, max_num=3, validate_min=True, validate_max=True, can_delete=True
)


@pytest.fixture
def ann(server: MCPServer, reader: Made) -> Reader:
    form_tool(PassengerFormSet, name="board", server=server)
    return reader("ann")


def test_a_set_is_an_array(ann: Reader) -> None:
    (tool,) = ann.list("tools/list")
    schema = tool["inputSchema"]
    assert schema["required"] == ["passengers"]
    array = schema["properties"]["passengers"]
    assert (array["type"], array["minItems"], array["maxItems"]) == ("array", 1, 3)
    assert set(array["items"]["properties"]) == {"name", "age", "paper"}
    assert array["items"]["required"] == ["name"]


def test_each_item_is_a_form(ann: Reader) -> None:
    assert ann.call("board", passengers=[{"name": "Ann", "age": 3}, {"name": "Bob"}]).text == "Ann (3), Bob (30)"


def test_errors_say_in_which_item_they_are(ann: Reader) -> None:
    words = ann.problem(
        "board", passengers=[{"name": "Ann"}, {"name": 7, "aged": 1}, {"age": 200, "paper": {"filename": "a"}}]
    )
    assert words == (
        "Unknown argument 'passengers[1].aged'. Did you mean 'age'? 'passengers[1]' takes 'name', 'age', 'paper'. "
        "Argument 'passengers[1].name' must be a string, not a number. "
        "Missing argument 'passengers[2].name'. "
        "Argument 'passengers[2].age': Ensure this value is less than or equal to 120. "
        "Argument 'passengers[2].paper': its 'content' is required and must be a string."
    )


def test_errors_of_the_set_are_told_with_those_of_its_items(ann: Reader) -> None:
    same = [{"name": "Ann"}, {"name": "Ann"}]
    assert ann.problem("board", passengers=same) == "Argument 'passengers': Two have the same name."
    assert ann.problem("board", passengers=[], crew=1) == (
        "Unknown argument 'crew'. It takes 'passengers'. Argument 'passengers': Please submit at least 1 form."
    )


def test_a_careless_array_is_told_what_it_must_be(ann: Reader, subtests: pytest.Subtests) -> None:
    for given, words in [
        ({}, "Missing argument 'passengers'."),
        ({"passengers": None}, "Argument 'passengers' must be an array of objects, not null."),
        ({"passengers": {"name": "Ann"}}, "Argument 'passengers' must be an array of objects, not an object."),
        ({"passengers": ["Ann", {}]}, "Argument 'passengers[0]' must be an object, not a string."),
        ({"passengers": [{"name": "A"}] * 1000}, "Argument 'passengers' must have at most 3 items, not 1000."),
        ({"passengers": [{}]}, "Missing argument 'passengers[0].name'."),
        ({"passengers": [{"name": "Ann", "DELETE": True}]}, "Unknown argument 'passengers[0].DELETE'."),
    ]:
        with subtests.test(given=given, words=words):
            assert words in ann.problem("board", **given)


def test_very_many_problems_are_cut_short(server: MCPServer, reader: Made) -> None:
    made = forms.formset_factory(PassengerForm)
    form_tool(made, handle=lambda *_: None, name="board", server=server)
    words = reader("ann").problem("board", passengers=[{}] * 500)
    assert words.count("Missing") == 19
    assert words.endswith("And 481 more errors.")


def test_without_a_limit_of_its_own_a_set_has_one(server: MCPServer, reader: Made) -> None:
    made = forms.formset_factory(PassengerForm)
    form_tool(made, handle=lambda *_: None, name="board", server=server)
    (tool,) = reader("ann").list("tools/list")
    assert tool["inputSchema"]["properties"]["passengers"]["maxItems"] == 500
    assert "at most 500 items" in reader("ann").problem("board", passengers=[{}] * 501)


def test_the_order_is_that_of_the_array(server: MCPServer, reader: Made) -> None:
    made = forms.formset_factory(PassengerForm, can_order=True)

    def handle(ctx: Context, formset: Any) -> str:
        return " ".join(form.cleaned_data["name"] for form in formset.ordered_forms)

    form_tool(made, handle=handle, name="board", argument="people", server=server)
    assert reader("ann").call("board", people=[{"name": "b"}, {"name": "a"}]).text == "b a"


def test_each_form_gets_its_arguments(server: MCPServer, reader: Made) -> None:
    class Personal(PassengerForm):
        def __init__(self, *args: Any, user: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.fields["name"].initial = user.username

    made = forms.formset_factory(Personal, Party)
    form_tool(made, form_kwargs=lambda ctx: {"user": ctx.user}, name="board", argument="people", server=server)
    assert reader("ann").call("board", people=[{}, {"name": "Bob"}]).text == "ann (30), Bob (30)"


def test_the_original_is_the_same_before_and_after(server: MCPServer, reader: Made) -> None:
    sent = {
        "form-TOTAL_FORMS": "2",
        "form-INITIAL_FORMS": "0",
        "form-0-name": "Ann",
        "form-0-age": "3",
        "form-1-name": "",
        "form-1-age": "200",
    }

    def answers() -> Any:
        bound = PassengerFormSet(sent)
        return bound.is_valid(), bound.errors, bound.as_p(), PassengerFormSet().as_p()

    before = answers()
    assert form_tool(PassengerFormSet, name="board", server=server) is PassengerFormSet
    reader("ann").call("board", passengers=[{"name": "Ann"}])
    reader("ann").call("board", passengers=[{"age": 1}])
    assert answers() == before


@pytest.mark.postgresql
class TestSetsOfRows:
    def test_are_created(self, server: MCPServer, reader: Made, books: list[Book]) -> None:
        form_tool(forms.modelformset_factory(Tag, fields=("word",)), permission=None, server=server)
        ann = reader("ann")
        (tool,) = ann.list("tools/list")
        assert (tool["name"], tool["description"]) == ("create_tags", "Creates tags.")
        assert set(tool["inputSchema"]["properties"]["tags"]["items"]["properties"]) == {"word"}
        made = ann.data("create_tags", tags=[{"word": "wind"}, {"word": "rain"}])["rows"]
        assert [row["word"] for row in made] == ["wind", "rain"]
        assert Tag.objects.filter(word__in=["wind", "rain"]).count() == 2
        words = ann.problem("create_tags", tags=[{"word": "sea"}, {"word": "snow"}])
        assert words == "Argument 'tags[0].word': Tag with this Word already exists."
        assert not Tag.objects.filter(word="snow").exists()

    def test_those_there_are_cannot_be_reached(self, server: MCPServer, reader: Made, books: list[Book]) -> None:
        form_tool(forms.modelformset_factory(Tag, fields=("word",)), permission=None, server=server)
        sea = Tag.objects.get(word="sea")
        words = reader("ann").problem("create_tags", tags=[{"id": sea.pk, "word": "ocean"}])
        assert words.startswith("Unknown argument 'tags[0].id'.")
        assert Tag.objects.filter(word="sea").exists()

    def test_two_of_the_same_are_an_error_of_the_set(self, server: MCPServer, reader: Made) -> None:
        form_tool(forms.modelformset_factory(Tag, fields=("word",)), permission=None, server=server)
        words = reader("ann").problem("create_tags", tags=[{"word": "wind"}, {"word": "wind"}])
        assert words.startswith("Argument 'tags")
        assert "Please correct the duplicate data for word" in words


@pytest.mark.postgresql
class TestInlineSets:
    @pytest.fixture
    def ann(self, server: MCPServer, reader: Made, books: list[Book]) -> Reader:
        @register(Book, server=server)
        class Books(ModelResource):
            fields = ("title",)

            def get_queryset(self, ctx: Context) -> Any:
                return Book.objects.exclude(slug="tides")

        assert Books
        made = forms.inlineformset_factory(Book, Review, fields=("text", "stars"))
        form_tool(made, lookup="pk", permission=None, server=server)
        return reader("ann")

    def test_add_to_a_row_that_the_caller_sees(self, ann: Reader) -> None:
        tools = {tool["name"]: tool for tool in ann.list("tools/list")}
        schema = tools["create_reviews"]["inputSchema"]
        assert set(schema["properties"]) == {"pk", "reviews"}
        assert set(schema["properties"]["reviews"]["items"]["properties"]) == {"text", "stars"}
        book = Book.objects.get(slug="foghorn")
        rows = ann.data("create_reviews", pk=book.pk, reviews=[{"text": "Loud."}, {"text": "Low.", "stars": 1}])
        assert list(book.reviews.order_by("pk").values_list("text", "stars")) == [("Loud.", 3), ("Low.", 1)]
        assert [row["text"] for row in rows["rows"]] == ["Loud.", "Low."]

    def test_one_row_is_told_of_as_one(self, ann: Reader) -> None:
        book = Book.objects.get(slug="foghorn")
        answer = ann.call("create_reviews", pk=book.pk, reviews=[{"text": "Loud."}])
        assert answer.text.startswith("1 review was created.")

    def test_not_to_one_that_the_caller_does_not(self, ann: Reader) -> None:
        book = Book.objects.get(slug="tides")
        words = ann.problem("create_reviews", pk=book.pk, reviews=[{"text": "Loud."}])
        assert words == f"No book with pk '{book.pk}' found. Use search_books to find one."
        assert not book.reviews.exists()

    def test_tell_which_item_is_wrong(self, ann: Reader) -> None:
        book = Book.objects.get(slug="foghorn")
        words = ann.problem("create_reviews", pk=book.pk, reviews=[{"text": "Loud."}, {"stars": -1, "book": 1}])
        assert "Unknown argument 'reviews[1].book'." in words
        assert "Missing argument 'reviews[1].text'." in words
        assert "Argument 'reviews[1].stars': Ensure this value is greater than or equal to 0." in words

    def test_must_say_to_which_row(self, server: MCPServer) -> None:
        made = forms.inlineformset_factory(Author, Book, fields=("title",))
        with pytest.raises(ImproperlyConfigured, match="select it with lookup or instance"):
            form_tool(made, server=server)


def test_a_set_that_nobody_saves_is_refused(server: MCPServer) -> None:
    with pytest.raises(ImproperlyConfigured, match="has no method 'save'"):
        form_tool(forms.formset_factory(PassengerForm), server=server)


def test_a_key_that_is_no_argument_does_not_tell_which_rows_there_are(
    server: MCPServer, reader: Callable[..., Reader]
) -> None:
    form_tool(forms.modelformset_factory(Tag, fields=("word",)), permission=None, server=server)
    there, nowhere = Tag.objects.create(word="hidden").pk, 999_999
    told = {reader("ann").problem("create_tags", tags=[{"word": "new", "id": key}]) for key in (there, nowhere)}
    assert told == {"Unknown argument 'tags[0].id'. 'tags[0]' takes 'word'."}


@pytest.mark.postgresql
def test_adding_to_a_row_takes_the_rights_to_change_it_and_to_add_rows(
    server: MCPServer, reader: Made, books: list[Book], people: Mapping[str, User]
) -> None:
    made = forms.inlineformset_factory(Book, Review, fields=("text", "stars"))
    form_tool(made, lookup="pk", queryset=lambda _: Book.objects.all(), server=server)
    form_tool(forms.modelformset_factory(Tag, fields=("word",)), server=server)
    rights = Permission.objects.filter(content_type__app_label="library")
    for codename, names in (
        ("add_review", set()),
        ("change_book", {"create_reviews"}),
        ("add_tag", {"create_reviews", "create_tags"}),
    ):
        people["ann"].user_permissions.add(rights.get(codename=codename))
        assert reader("ann").tool_names() == names
    assert reader("").tool_names() == set()
