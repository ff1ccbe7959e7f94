"""Django forms as questions to the person at the client, and what becomes of the answers."""

import datetime
from collections.abc import Mapping
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from django import forms
from django.contrib.auth.models import Group
from django.core.exceptions import ImproperlyConfigured, ValidationError
from django.db.models import IntegerChoices, TextChoices
from django.utils import translation
from django.utils.translation import gettext_lazy

from django_mcp.core.server import server
from django_mcp.model_resources.elicited_forms import ElicitedForm
from django_mcp.primitives.base import FormError
from tests.primitives.test_elicitation import checked


class Board(TextChoices):
    NONE = "none", "Room only"
    HALF = "half", "Half board"


class Floor(IntegerChoices):
    GROUND = 0
    FIRST = 1


BOARDS = [{"const": "none", "title": "Room only"}, {"const": "half", "title": "Half board"}]


def elicited(form: type[forms.BaseForm], **options: Any) -> ElicitedForm:
    """The form as somebody is asked it at an endpoint without models."""
    return ElicitedForm(SimpleNamespace(server=server, grant=None), form, **options)  # type: ignore[arg-type]


def schema_of(form: type[forms.BaseForm]) -> dict[str, Any]:
    return checked(elicited(form).schema)


def properties_of(form: type[forms.BaseForm]) -> dict[str, Any]:
    return schema_of(form)["properties"]


def asking_field(field: forms.Field) -> type[forms.Form]:
    """A Django form with one field ``value``."""
    return type("AskingField", (forms.Form,), {"value": field})


def written(value: Mapping[str, Any], *, required: bool = True) -> dict[str, Any]:
    """A schema with one property ``value``."""
    return {"type": "object", "properties": {"value": value}, "required": ["value"] if required else []}


def problems_of(form: type[forms.BaseForm], content: Any) -> list[str]:
    with pytest.raises(FormError) as caught:
        elicited(form).validate(content)
    assert str(caught.value) == " ".join(caught.value.problems)
    return caught.value.problems


def test_a_form_field_becomes_a_question_of_its_kind(subtests: pytest.Subtests) -> None:
    for field, schema in [
        (forms.CharField(), {"type": "string", "minLength": 1}),
        (forms.CharField(min_length=2, max_length=5), {"type": "string", "minLength": 2, "maxLength": 5}),
        (forms.CharField(widget=forms.Textarea, initial="Hi"), {"type": "string", "minLength": 1, "default": "Hi"}),
        (forms.SlugField(), {"type": "string", "minLength": 1}),
        (
            forms.UUIDField(),
            {"type": "string", "description": "Example: b7c6e1a4-4f0e-4c5b-9a53-3c1d7f1f9e10."},
        ),
        (forms.TimeField(), {"type": "string", "description": "Example: 18:30:00."}),
        (forms.DurationField(), {"type": "string", "description": "Example: P3DT2H30M, or 2:30:00."}),
        (forms.EmailField(max_length=99), {"type": "string", "maxLength": 99, "format": "email"}),
        (forms.URLField(assume_scheme="https"), {"type": "string", "format": "uri"}),
        (
            forms.DateField(initial=datetime.date(2026, 7, 28)),
            {"type": "string", "format": "date", "default": "2026-07-28"},
        ),
        (
            forms.DateTimeField(initial=lambda: datetime.datetime(2026, 7, 28, 9, tzinfo=datetime.UTC)),
            {"type": "string", "format": "date-time", "default": "2026-07-28T09:00:00+00:00"},
        ),
        (
            forms.DateTimeField(initial=datetime.datetime(2026, 7, 28, 9)),  # noqa: DTZ001 - Django makes it aware
            {"type": "string", "format": "date-time", "default": "2026-07-28T09:00:00+00:00"},
        ),
        (
            forms.IntegerField(min_value=1, max_value=9, initial=0),
            {"type": "integer", "minimum": 1, "maximum": 9, "default": 0},
        ),
        (
            forms.SplitDateTimeField(initial=datetime.datetime(2026, 7, 28, 9, tzinfo=datetime.UTC)),
            {"type": "string", "format": "date-time", "default": "2026-07-28T09:00:00+00:00"},
        ),
        (forms.NullBooleanField(required=True), {"type": "boolean"}),
        (forms.IntegerField(min_value=lambda: 4), {"type": "integer", "minimum": 4}),
        (forms.FloatField(min_value=0.5, initial=1.5), {"type": "number", "minimum": 0.5, "default": 1.5}),
        (
            forms.DecimalField(max_value=Decimal("2.5"), initial=Decimal("1.5")),
            {"type": "number", "maximum": 2.5, "default": 1.5},
        ),
        (forms.BooleanField(), {"type": "boolean"}),
        (forms.BooleanField(initial=False), {"type": "boolean", "default": False}),
        (forms.ChoiceField(choices=Board.choices), {"type": "string", "oneOf": BOARDS}),
        (
            forms.ChoiceField(choices=[("", "—"), *Board.choices], initial=Board.HALF),
            {"type": "string", "oneOf": BOARDS, "default": "half"},
        ),
        (
            forms.ChoiceField(choices=lambda: [("Cold", [Board.choices[0]]), ("Warm", [Board.choices[1]])]),
            {"type": "string", "oneOf": BOARDS},
        ),
        (forms.ChoiceField(choices=Board.choices, initial="full"), {"type": "string", "oneOf": BOARDS}),
        (
            forms.TypedChoiceField(choices=Floor.choices, coerce=int, initial=0),
            {
                "type": "string",
                "oneOf": [{"const": "0", "title": "Ground"}, {"const": "1", "title": "First"}],
                "default": "0",
            },
        ),
        (
            forms.MultipleChoiceField(choices=Board.choices, initial=["half", "full"]),
            {"type": "array", "items": {"anyOf": BOARDS}, "default": ["half"]},
        ),
        (
            forms.TypedMultipleChoiceField(choices=Floor.choices, coerce=int),
            {
                "type": "array",
                "items": {"anyOf": [{"const": "0", "title": "Ground"}, {"const": "1", "title": "First"}]},
            },
        ),
    ]:
        with subtests.test(field=field, schema=schema):
            assert schema_of(asking_field(field)) == written({"title": "Value", **schema})


def test_a_form_fields_words_are_shown_without_markup() -> None:
    field = forms.CharField(label="Your name", help_text="As in your <b>passport</b>.", required=False)
    assert schema_of(asking_field(field)) == {
        "type": "object",
        "properties": {"value": {"type": "string", "title": "Your name", "description": "As in your passport."}},
    }


def test_a_forms_words_are_in_the_language_of_the_caller() -> None:
    given = asking_field(forms.CharField(label=gettext_lazy("Yes")))
    for language, word in (("de", "Ja"), ("fr", "Oui"), ("en", "Yes")):
        with translation.override(language):  # as each call is served
            assert elicited(given).schema["properties"]["value"]["title"] == word


class Signup(forms.Form):
    prefix = "signup"

    name = forms.CharField(max_length=5)
    day = forms.DateField(required=False)
    moment = forms.DateTimeField(required=False)
    seats = forms.IntegerField(max_value=9, required=False)
    price = forms.DecimalField(required=False)
    floors = forms.TypedMultipleChoiceField(choices=Floor.choices, coerce=int, required=False)
    board = forms.ChoiceField(choices=Board.choices, required=False)
    terms = forms.BooleanField()
    news = forms.BooleanField(required=False)
    source = forms.CharField(disabled=True, initial="client")

    def clean(self) -> dict[str, Any]:
        if self.cleaned_data.get("seats") == 7:
            raise ValidationError("Seven is %(word)s.", params={"word": "taken"})
        return self.cleaned_data


def test_a_forms_answer_is_its_cleaned_data() -> None:
    content = {
        "name": "Ada",
        "day": "2026-07-28",
        "moment": "2026-07-28T10:00:00+02:00",
        "seats": 3,
        "price": 2.5,
        "floors": ["0", "1"],
        "board": "half",
        "terms": True,
        "news": False,
        "unasked": 1,
        "source": "forged",
    }
    assert elicited(Signup).validate(content) == {
        "name": "Ada",
        "day": datetime.date(2026, 7, 28),
        "moment": datetime.datetime(2026, 7, 28, 8, tzinfo=datetime.UTC),
        "seats": 3,
        "price": Decimal("2.5"),
        "floors": [0, 1],
        "board": "half",
        "terms": True,
        "news": False,
        "source": "client",
    }


def test_what_need_not_be_filled_in_may_be_absent_or_null() -> None:
    value = elicited(Signup).validate({"name": "Ada", "terms": True, "day": None})
    assert (value["day"], value["seats"], value["floors"], value["news"]) == (None, None, [], False)


def test_disabled_fields_are_not_asked_for() -> None:
    schema = schema_of(Signup)
    assert "source" not in schema["properties"]
    assert schema["required"] == ["name", "terms"]


def test_each_problem_with_a_forms_answer_is_a_sentence_that_names_the_field(subtests: pytest.Subtests) -> None:
    for content, problems in [
        ({}, ["name: This field is required."]),
        ({"name": "Augusta"}, ["name: Ensure this value has at most 5 characters (it has 7)."]),
        ({"seats": 10}, ["seats: Ensure this value is less than or equal to 9."]),
        ({"seats": 7}, ["Seven is taken."]),
        ({"day": "someday"}, ["day: Enter a valid date. Example: 2026-05-31."]),
        (
            {"board": "full"},
            [
                (
                    "board: Select a valid choice. full is not one of the available choices. "
                    "Choose one of: none (Room only), half (Half board)."
                )
            ],
        ),
        ({"floors": "0"}, ["floors: must be an array, not a string."]),
        ({"name": ["Ada"]}, ["name: must be a string, not an array."]),
        ({"terms": {"x": 1}, "seats": [1]}, 2),
        ({"terms": False}, ["terms: This field is required. It must be true."]),
        ({"terms": None}, ["terms: This field is required. It must be true."]),
    ]:
        with subtests.test(content=content, problems=problems):
            found = problems_of(Signup, ({"name": "Ada", "terms": True} | content) if content else {"terms": True})
            assert len(found) == problems if isinstance(problems, int) else found == problems


def test_a_form_field_of_another_kind_is_refused_by_name_and_kind(subtests: pytest.Subtests) -> None:
    for field in [
        forms.FileField(),
        forms.ImageField(),
        forms.JSONField(),
        forms.MultiValueField(fields=[forms.CharField()]),
        forms.Field(),
    ]:
        with (
            subtests.test(field=field),
            pytest.raises(
                ImproperlyConfigured, match=f"AskingField: 'value' is a {type(field).__name__}.*A form supports"
            ),
        ):
            schema_of(asking_field(field))


def test_a_form_that_cannot_be_made_without_arguments_is_refused() -> None:
    class Wanting(forms.Form):
        def __init__(self, user: Any, **options: Any) -> None:
            super().__init__(**options)

    with pytest.raises(ImproperlyConfigured, match=r"Wanting: the form cannot be created.*user.*form_kwargs"):
        schema_of(Wanting)


def test_fields_that_a_form_adds_when_it_is_made_are_asked_for() -> None:
    class Growing(forms.Form):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self.fields["extra"] = forms.IntegerField()

    assert schema_of(Growing)["required"] == ["extra"]
    assert elicited(Growing).validate({"extra": 3}) == {"extra": 3}


class Membership(forms.Form):
    group = forms.ModelChoiceField(Group.objects.order_by("name"), required=False)
    others = forms.ModelMultipleChoiceField(Group.objects.order_by("name"), required=False)
    by_name = forms.ModelChoiceField(Group.objects.order_by("name"), to_field_name="name", required=False)


@pytest.mark.django_db
def test_rows_to_choose_from_are_read_each_time_the_form_is_shown() -> None:
    readers = Group.objects.create(name="readers")
    assert properties_of(Membership)["group"]["oneOf"] == [{"const": str(readers.pk), "title": "readers"}]
    writers = Group.objects.create(name="writers")
    shown = properties_of(Membership)
    assert [option["title"] for option in shown["group"]["oneOf"]] == ["readers", "writers"]
    assert shown["by_name"]["oneOf"][0] == {"const": "readers", "title": "readers"}
    assert shown["others"]["items"] == {"anyOf": shown["group"]["oneOf"]}
    answer = {"group": str(writers.pk), "others": [str(writers.pk)], "by_name": "readers"}
    value = elicited(Membership).validate(answer)
    assert (value["group"], list(value["others"]), value["by_name"]) == (writers, [writers], readers)


@pytest.mark.django_db
def test_a_row_as_initial_value_is_shown_by_its_key() -> None:
    group = Group.objects.create(name="readers")
    single = asking_field(forms.ModelChoiceField(Group.objects.all(), initial=group))
    several = asking_field(forms.ModelMultipleChoiceField(Group.objects.all(), initial=[group]))
    assert properties_of(single)["value"]["default"] == str(group.pk)
    assert properties_of(several)["value"]["default"] == [str(group.pk)]


def test_a_choice_of_nothing_is_the_sites_mistake() -> None:
    with pytest.raises(ImproperlyConfigured, match="'value' has no choices"):
        schema_of(asking_field(forms.ChoiceField(choices=[])))


def test_a_form_never_asks_for_a_secret(subtests: pytest.Subtests) -> None:
    login = type("Login", (forms.Form,), {"passphrase": forms.CharField()})
    for form in (login, asking_field(forms.CharField(widget=forms.PasswordInput))):
        with subtests.test(form=form), pytest.raises(ImproperlyConfigured, match=r"looks like a secret.*elicit_url"):
            schema_of(form)


def test_a_name_that_only_mentions_a_secret_may_be_asked() -> None:
    class Fine(forms.Form):
        forgot_password = forms.BooleanField(required=False)
        credit_card = forms.ChoiceField(choices=[("1", "The one that ends in 42")])
        tokens = forms.IntegerField()
        password_hint = forms.CharField()

    assert len(properties_of(Fine)) == 4


def test_a_list_that_a_client_sends_as_text_is_understood(db: None) -> None:
    class Stay(forms.Form):
        boards = forms.MultipleChoiceField(choices=Board.choices)
        floors = forms.TypedMultipleChoiceField(choices=Floor.choices, coerce=int)
        groups = forms.ModelMultipleChoiceField(Group.objects.order_by("name"))
        note = forms.CharField()

    made = [Group.objects.create(name=name) for name in ("a", "b")]
    keys = [group.pk for group in made]
    content = {"boards": '["half", "none"]', "floors": "[0, 1]", "groups": str(keys), "note": "[1]"}
    cleaned = elicited(Stay).validate(content)
    assert (cleaned["boards"], cleaned["floors"], [*cleaned["groups"]]) == (["half", "none"], [0, 1], made)
    assert cleaned["note"] == "[1]"
    assert "boards: must be an array, not a string." in problems_of(Stay, {**content, "boards": "half]"})
