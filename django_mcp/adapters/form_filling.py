"""Forms filled in with the arguments of a call, as if a person had sent the page, and what they then say is wrong."""

import difflib
import html
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any, NoReturn

from django import forms
from django.core.exceptions import ValidationError
from django.core.files.uploadedfile import UploadedFile
from django.utils.choices import flatten_choices
from django.utils.datastructures import MultiValueDict
from django.utils.html import strip_tags

from django_mcp.adapters.form_schema import asked, foreign_column
from django_mcp.adapters.form_values import kind_of, read
from django_mcp.model_resources.schema import form_value, storable
from django_mcp.model_resources.writes import Given, as_shown
from django_mcp.primitives.validation_errors import about_argument, missing_argument, sentence, unknown_argument

Data = MultiValueDict[str, Any]

_MOST_NAMED = 20


def put(data: Data, key: str, value: Any) -> None:
    """Write down a value of JSON as a page sends it: a list as one value after the other."""
    if isinstance(value, list):
        data.setlist(key, value)
    else:
        data[key] = value


def fill(form: Any, given: Mapping[str, Any], most_bytes: int) -> None:
    """Give a form that is bound, and not yet validated, the values that its fields clean.

    What is not given is what the page would show at first. Of a value of a wrong kind the field itself will tell.

    Args:
        form: its fields that must not change are disabled.
        given: by name of field; null is an empty input.
        most_bytes: how large a file may be.
    """
    for name, field in asked(form).items():
        key = form.add_prefix(name)
        if (column := foreign_column(form, name)) is not None:
            if name in given:
                form.data[key] = given[name]
            _read_by_column(field, column, given.get(name), form.get_initial_for_field(field, name))
            continue
        if name in given:
            value = _read(field, given[name], most_bytes)
        else:
            initial = form.get_initial_for_field(field, name)
            value = None if initial is None or isinstance(field, forms.FileField) else _initial(field, initial)
            if value is None:
                continue
        if not _is_of_django(field.widget):
            continue
        if isinstance(value, UploadedFile):
            form.files[key] = value
        else:
            is_clearing = (
                value is None and isinstance(field, forms.FileField) and form.get_initial_for_field(field, name)
            )
            form.data[key] = False if is_clearing else value  # as the checkbox beside a file does
    for field in form.fields.values():
        if _is_of_django(field.widget):
            kind = getattr(field.widget, "input_type", None)
            field.widget = Given()
            field.widget.input_type = kind  # what is shown in the end leaves passwords out


def _read_by_column(field: Any, column: Any, value: Any, initial: Any) -> None:
    """Have a field of one form clean what the column of another package's class makes of a value of JSON; where there
    is none, what the page would show at first. Widgets of packages want inputs of their own, which no call has.
    """
    clean, field.widget = field.clean, Given()
    try:
        storable(value)
        taken = initial if value is None and initial is not None else form_value(column, field, value)
    except ValidationError as error:
        refuse(field, error)
    except ValueError as error:
        refuse(field, ValidationError(f"{error}.", code="kind"))
    else:
        field.clean = lambda *_: clean(taken)


def _read(field: forms.Field, value: Any, most_bytes: int) -> Any:
    try:
        return read(field, value, most_bytes)
    except ValidationError as error:
        refuse(field, error)
        return None


def refuse(field: forms.Field, error: ValidationError) -> None:
    """Have a field of one form find *error* in whatever it is given."""

    def clean(*_: Any) -> NoReturn:
        raise error

    field.clean = clean  # type: ignore[assignment, method-assign]


def _initial(field: Any, initial: Any) -> Any:
    if isinstance(field, forms.MultiValueField) and not isinstance(initial, list | tuple):
        return field.widget.decompress(initial)
    return as_shown(field, initial)


def _is_of_django(widget: forms.Widget) -> bool:
    """Whether a widget does no more than to find values where Django's pages put them.

    One that the site wrote may make something else of them, which its field then expects.
    """
    return type(widget).value_from_datadict.__module__.startswith("django.")


# What is wrong


def unknown(given: Iterable[str], known: Iterable[str], *where: str) -> Iterator[str]:
    """A sentence for each argument that there is not."""
    names = list(known)
    return (unknown_argument([*where, name], names) for name in given if name not in names)


def problems(form: forms.BaseForm, given: Container[str], names: Container[str], where: str = "") -> Iterator[str]:
    """All that a form finds wrong, a sentence each, with the argument it is about.

    Args:
        form: filled in.
        given: names of the fields it was filled in with.
        names: of those that can be.
        where: the argument that the form is a part of, like ``"passengers[2]"``.
    """
    for name, errors in form.errors.as_data().items():
        for error in errors:
            if name in names:
                yield _of_field(form.fields[name], error, f"{where}.{name}" if where else name, name in given)
            else:
                yield in_words(error, where)


def in_words(error: ValidationError, where: str = "") -> str:
    """An error about no field."""
    words = _plain(error)
    return about_argument([where], words) if where else words


def _of_field(field: Any, error: ValidationError, where: str, is_given: bool) -> str:
    is_plain = error.code == "required" and error.message == forms.Field.default_error_messages["required"]
    if is_plain and not is_given:
        return missing_argument([where])
    return f"{about_argument([where], _plain(error))}{_hint(field, error)}"


def _hint(field: Any, error: ValidationError) -> str:
    """What would be right, where the form does not say."""
    if error.code == "required" and isinstance(field, forms.BooleanField):
        return " It must be true."
    if error.code == "invalid_choice" and not isinstance(field, forms.ModelChoiceField):
        return _offer(field, str((error.params or {}).get("value", "")))
    example = kind_of(field).example
    return f" Write it like {example}." if error.code == "invalid" and example else ""


def _offer(field: Any, value: str) -> str:
    choices = [str(each) for each, _ in flatten_choices(getattr(field, "choices", ())) if each not in (None, "")]
    close = choices if len(choices) <= _MOST_NAMED else difflib.get_close_matches(value[:100], choices, _MOST_NAMED)
    named = close or choices[:_MOST_NAMED]
    if not named:
        return ""
    return f" {'Choose one of' if len(named) == len(choices) else 'There are, among others,'} {', '.join(named)}."


def _plain(error: ValidationError) -> str:
    """An error's words; a form may write them as HTML."""
    words = " ".join(
        html.unescape(strip_tags(each)) if hasattr(each, "__html__") else str(each) for each in error.messages
    )
    return sentence(words.replace("\0", "\\0"))
