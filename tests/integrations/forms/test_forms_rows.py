"""Forms that change rows: what they get from a page's view, whose changes stay, and what is told of them afterwards."""

from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from django import forms
from django.contrib.admin.models import ADDITION, CHANGE, LogEntry
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured

from django_mcp import Context, MCPServer, ModelResource, form_tool, register
from tests.model_resources.conftest import Reader
from tests.model_resources.library.models import Book, Review, Tag

Made = Callable[..., Reader]
ALLOWED: dict[str, Any] = {"permission": None, "policy": "allow"}


class ReviewForm(forms.ModelForm):
    class Meta:
        model = Review
        fields = ("text", "stars")


@pytest.fixture
def ann(reader: Made, books: list[Book]) -> Reader:
    return reader("ann")


@pytest.fixture
def review(books: list[Book]) -> Review:
    return Review.objects.get(text="Wet.")


# The row of a function


@pytest.mark.parametrize("by", ["instance", "form_kwargs"])
def test_a_row_that_the_site_keeps_is_read_again_for_each_call(
    server: MCPServer, ann: Reader, review: Review, by: str
) -> None:
    """As that of ``ctx.user.profile`` is, which Django keeps on the user."""

    def kept(ctx: Context) -> Review:
        review.is_public = False  # what the site sets stays
        return review

    options = {"instance": kept} if by == "instance" else {"form_kwargs": lambda ctx: {"instance": kept(ctx)}}
    form_tool(ReviewForm, name="edit", server=server, **options, **ALLOWED)  # type: ignore[call-overload]
    Review.objects.filter(pk=review.pk).update(stars=1)
    ann.call("edit", text="Dry.")
    review.refresh_from_db()
    assert (review.text, review.stars, review.is_public) == ("Dry.", 1, False)


def test_a_row_that_is_gone_meanwhile_is_nothing_to_update(server: MCPServer, ann: Reader, review: Review) -> None:
    form_tool(ReviewForm, name="edit", instance=lambda _: review, server=server, **ALLOWED)
    Review.objects.filter(pk=review.pk).delete()
    assert ann.problem("edit", text="Dry.") == "There is nothing to update for this user."
    assert not Review.objects.filter(text="Dry.").exists()


# Results


def test_the_result_of_a_set_has_the_fields_that_callers_set(server: MCPServer, ann: Reader, review: Review) -> None:
    reviews = forms.inlineformset_factory(Book, Review, fields=("text", "stars"), can_order=True)
    form_tool(reviews, name="add_reviews", lookup="pk", queryset=lambda _: Book.objects.all(), server=server, **ALLOWED)
    tags = forms.modelformset_factory(Tag, fields=("word",), can_delete=True)
    form_tool(tags, name="add_tags", server=server, **ALLOWED)
    (row,) = ann.data("add_reviews", pk=review.book_id, reviews=[{"text": "New.", "stars": 2}])["rows"]
    assert row == {"pk": Review.objects.get(text="New.").pk, "text": "New.", "stars": 2}
    (row,) = ann.data("add_tags", tags=[{"word": "new"}])["rows"]
    assert row == {"pk": Tag.objects.get(word="new").pk, "word": "new"}


# History


def history(obj: Any) -> list[tuple[str, int, str]]:
    entries = LogEntry.objects.filter(object_id=str(obj.pk), content_type__model=obj._meta.model_name).order_by("pk")
    return [(each.user.username, each.action_flag, each.get_change_message()) for each in entries]


def test_what_a_form_wrote_is_in_the_history_of_the_admin(
    server: MCPServer, ann: Reader, reader: Made, review: Review
) -> None:
    tag_form = forms.modelform_factory(Tag, fields=("word",))
    form_tool(ReviewForm, name="edit", lookup="pk", queryset=lambda _: Review.objects.all(), server=server, **ALLOWED)
    form_tool(tag_form, name="add_tag", server=server, **ALLOWED)
    ann.call("edit", pk=review.pk, text="Dry.")
    ann.call("add_tag", word="new")
    reader().call("add_tag", word="of nobody")
    ann.problem("add_tag", word="new")
    assert history(review) == [("ann", CHANGE, "Changed Text.")]
    assert history(Tag.objects.get(word="new")) == [("ann", ADDITION, "Added.")]
    assert LogEntry.objects.count() == 2


def test_a_row_that_the_forms_arguments_bring_is_changed_and_a_new_one_is_added(
    server: MCPServer, ann: Reader, review: Review
) -> None:
    form_tool(ReviewForm, name="edit", form_kwargs=lambda _: {"instance": review}, server=server, **ALLOWED)
    ann.call("edit", text="Dry.")
    assert history(review) == [("ann", CHANGE, "Changed Text.")]


def test_rows_of_sets_are_in_the_history_of_their_own_or_of_their_parent(
    server: MCPServer, ann: Reader, review: Review
) -> None:
    reviews = forms.inlineformset_factory(Book, Review, fields=("text", "stars"))
    form_tool(reviews, name="add_reviews", lookup="pk", queryset=lambda _: Book.objects.all(), server=server, **ALLOWED)
    form_tool(forms.modelformset_factory(Tag, fields=("word",)), name="add_tags", server=server, **ALLOWED)
    ann.call("add_reviews", pk=review.book_id, reviews=[{"text": "New."}, {"text": "Newer."}])
    ann.call("add_tags", tags=[{"word": "a"}, {"word": "b"}])
    assert history(review.book) == [("ann", CHANGE, "Added review “New.”. Added review “Newer.”.")]
    assert [history(each) for each in Tag.objects.filter(word__in="ab")] == [[("ann", ADDITION, "Added.")]] * 2


def test_a_handler_that_saves_is_noted_and_one_that_does_not_is_not(
    server: MCPServer, ann: Reader, review: Review
) -> None:
    rows = {"lookup": "pk", "queryset": lambda _: Review.objects.all(), **ALLOWED}
    form_tool(ReviewForm, name="keep", handle=lambda ctx, form: form.save(), server=server, **rows)
    form_tool(ReviewForm, name="look", handle=lambda ctx, form: "looked", server=server, **rows)
    ann.call("look", pk=review.pk, text="Dry.")
    assert history(review) == []
    ann.call("keep", pk=review.pk, text="Dry.")
    assert history(review) == [("ann", CHANGE, "Changed Text.")]


# What views give to forms


class OfItsRow(forms.ModelForm):
    """Reads its row when it is made, as edit forms of a child row do."""

    class Meta:
        model = Review
        fields = ("text", "stars")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["text"].help_text = f"Of {self.instance.book.title}."


@pytest.mark.parametrize("by", ["lookup", "instance"])
def test_a_form_may_read_the_row_that_it_changes(server: MCPServer, ann: Reader, review: Review, by: str) -> None:
    which: dict[str, Any] = {"lookup": "pk", "queryset": lambda _: Review.objects.all()}
    options = which if by == "lookup" else {"instance": lambda _: Review.objects.get(pk=review.pk)}
    form_tool(OfItsRow, name="edit", server=server, **options, **ALLOWED)
    assert set(ann.list("tools/list")[0]["inputSchema"]["properties"]) >= {"text", "stars"}
    ann.call("edit", text="Dry.", **({"pk": review.pk} if by == "lookup" else {}))
    review.refresh_from_db()
    assert review.text == "Dry."


def test_a_form_that_needs_arguments_which_nobody_gives_is_still_a_mistake_of_the_site(
    server: MCPServer, review: Review
) -> None:
    class OfAUser(ReviewForm):
        def __init__(self, user: User, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)

    with pytest.raises(ImproperlyConfigured, match=r"cannot be created without arguments.*form_kwargs"):
        form_tool(OfAUser, name="edit", instance=lambda _: review, server=server, **ALLOWED)


class AsInAView(forms.Form):
    """Uses what ``FormMixin.get_form_kwargs`` always passes."""

    text = forms.CharField(required=False)
    note = forms.CharField(required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs["initial"]["text"] = "As on the page."
        if kwargs["prefix"]:
            raise AssertionError
        super().__init__(*args, **kwargs)

    def save(self) -> str:
        return f"{self.cleaned_data['text']} {self.cleaned_data['note']}"


class Particular(forms.Form):
    """Takes nothing that is not named."""

    text = forms.CharField()

    def __init__(self, data: Any = None, files: Any = None) -> None:
        super().__init__(data, files)

    def save(self) -> str:
        return str(self.cleaned_data["text"])


class WithItsOwn(forms.Form):
    """Sets what a view may pass, as forms do that no ``FormView`` shows."""

    text = forms.CharField(required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, initial={"text": "Its own."}, prefix="one", **kwargs)

    def save(self) -> str:
        return str(self.cleaned_data["text"])


class OfSomething(forms.Form):
    """Has an ``instance`` that is no row."""

    text = forms.CharField(required=False)

    def __init__(self, *args: Any, instance: Any = None, **kwargs: Any) -> None:
        self.instance = instance
        super().__init__(*args, **kwargs)

    def save(self) -> str:
        return f"{self.cleaned_data['text']} of {self.instance}"


def test_the_instance_of_a_plain_form_may_be_anything(server: MCPServer, ann: Reader) -> None:
    form_tool(OfSomething, name="one", server=server)
    form_tool(OfSomething, name="two", form_kwargs=lambda _: {"instance": {"a": 1}}, server=server)
    assert ann.call("one").text == " of None"
    assert ann.call("two").text == " of {'a': 1}"


def test_a_form_may_set_its_initial_values_and_prefix_itself(server: MCPServer, ann: Reader) -> None:
    form_tool(WithItsOwn, name="one", server=server)
    assert ann.call("one").text == "Its own."
    assert ann.call("one", text="x").text == "x"


def test_forms_get_initial_values_and_a_prefix_as_from_a_view(server: MCPServer, ann: Reader) -> None:
    form_tool(AsInAView, name="one", server=server)
    form_tool(Particular, name="two", server=server)
    form_tool(AsInAView, name="three", form_kwargs=lambda _: {"initial": {"note": "Hi."}}, server=server)
    form_tool(forms.formset_factory(AsInASet), name="several", argument="items", handle=joined, server=server)
    assert ann.call("one", note="x").text == "As on the page. x"
    assert ann.call("two", text="x").text == "x"
    assert ann.call("three").text == "As on the page. Hi."
    assert ann.call("several", items=[{"text": "a"}, {}]).text == "a, form-1"


class AsInASet(forms.Form):
    """Uses what formsets always pass."""

    text = forms.CharField(required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, initial={"text": kwargs["prefix"]}, **kwargs)


def joined(ctx: Context, formset: Any) -> str:
    return ", ".join(form.cleaned_data["text"] for form in formset.forms)


class Blocks(forms.Widget):
    """A widget of several inputs, as that of Wagtail's streams: it fails on a page that lacks them."""

    def value_from_datadict(self, data: Any, files: Any, name: str) -> Any:
        return [data[f"{name}-{place}"] for place in range(int(data[f"{name}-count"]))]


class BlocksForm(forms.ModelForm):
    """A form that looks at what has changed, as many do in ``clean`` or ``save``."""

    class Meta:
        model = Review
        fields = ("text", "stars")
        widgets: ClassVar[Any] = {"stars": Blocks}

    def clean(self) -> Any:
        assert self.has_changed()
        assert "stars" not in self.changed_data
        return super().clean()


def test_a_field_that_is_left_out_is_not_looked_for_in_its_inputs(
    server: MCPServer, ann: Reader, review: Review
) -> None:
    stars = review.stars

    @register(Review, server=server)
    class Reviews(ModelResource):
        form, fields, actions = BlocksForm, ("text",), ("update",)
        view_permission = change_permission = None

    form_tool(BlocksForm, name="edit", lookup="pk", queryset=lambda _: Review.objects.all(), server=server, **ALLOWED)
    server.tools["update_review"].policy = "allow"
    ann.call("edit", pk=review.pk, text="Dry.")
    ann.call("update_review", pk=review.pk, text="Wet.")
    review.refresh_from_db()
    assert (review.text, review.stars) == ("Wet.", stars)
    assert history(review) == [("ann", CHANGE, "Changed Text.")] * 2


FILE = {"filename": "a.txt", "content": "d29yZHM="}


class DateParts(forms.MultiWidget):
    """Three inputs for one date."""

    def __init__(self) -> None:
        super().__init__({"year": forms.NumberInput, "month": forms.NumberInput, "day": forms.NumberInput})

    def decompress(self, value: Any) -> list[Any]:
        return [value.year, value.month, value.day] if value else [None] * 3

    def value_from_datadict(self, data: Any, files: Any, name: str) -> Any:
        return "-".join(f"{int(part):02}" for part in super().value_from_datadict(data, files, name))


class LazyDateParts(DateParts):
    def value_from_datadict(self, data: Any, files: Any, name: str) -> Any:
        return "-".join(map(str, forms.MultiWidget.value_from_datadict(self, data, files, name)))


class Trimmed(forms.TextInput):
    def value_from_datadict(self, data: Any, files: Any, name: str) -> Any:
        return data.get(name).strip(" .")


class Scanned(forms.ClearableFileInput):
    def value_from_datadict(self, data: Any, files: Any, name: str) -> Any:
        return super().value_from_datadict(data, files, name)


def test_widgets_of_the_site_that_need_inputs_of_a_page_take_arguments_all_the_same(
    server: MCPServer, ann: Reader
) -> None:
    class Parts(forms.Form):
        day = forms.DateField(widget=DateParts)
        until = forms.DateField(widget=LazyDateParts, required=False)
        note = forms.CharField(widget=Trimmed, required=False)
        file = forms.FileField(widget=Scanned, required=False)

        def save(self) -> str:
            return repr([str(value) for value in self.cleaned_data.values()])

    form_tool(Parts, name="parts", server=server)
    full = {"day": "2026-05-01", "until": "2026-05-02", "note": "so.", "file": FILE}
    assert ann.call("parts", **full).text == repr(["2026-05-01", "2026-05-02", "so", "a.txt"])
    assert ann.call("parts", day="2026-05-01").text == repr(["2026-05-01", "None", "", "None"])
    assert "Argument 'day'" in ann.problem("parts", day="2026-05-41")
