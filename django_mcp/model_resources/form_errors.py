"""Errors of a form in the words of a tool's arguments."""

import html
import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

from django import forms
from django.core.exceptions import ObjectDoesNotExist, ValidationError
from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.utils.choices import flatten_choices
from django.utils.html import strip_tags

from django_mcp.model_resources.schema import named_choices
from django_mcp.primitives.field_schema import field_type
from django_mcp.primitives.schema import ArgumentError
from django_mcp.primitives.validation_errors import (
    MAX_REPORTED,
    about_argument,
    missing_argument,
    sentence,
    shortened,
    unknown_argument,
)
from django_mcp.protocol.json_schema import as_word

MAX_NAMED = 20


class InvalidForm(ArgumentError):
    """The arguments do not make a valid form.

    Attributes:
        form: the bound form.
        unknown: problems of arguments that are not fields.
    """

    def __init__(self, problems: Sequence[str], form: forms.BaseForm, unknown: Sequence[str]) -> None:
        super().__init__(problems)
        self.form, self.unknown = form, unknown


def unknown_argument_errors(
    given: Iterable[str], known: Iterable[str], *where: str, room: int = MAX_REPORTED
) -> tuple[list[str], int]:
    """Return errors for the first unknown arguments, at most *room*, and how many more there are."""
    names = list(known)
    others = [name for name in given if name not in names]
    errors = [unknown_argument([*where, name], names) for name in others[: max(room, 0)]]
    return errors, len(others) - len(errors)


CONFLICT_MESSAGE = (
    "The values conflict with each other or with existing data: for example, a value must be unique, or a required "
    "value is missing. Change the values and retry."
)
"""Replaces messages that would name a constraint, or columns that callers cannot set."""
About = Callable[[Sequence[Any], str], str]
"""Returns the sentence about an argument, such as ``about_argument``."""


def form_error_messages(
    form: Any, given: Container[str], arguments: Mapping[str, str], where: str = "", about: About = about_argument
) -> Iterator[str]:
    """Yield an error for each problem of a bound form, with its argument.

    Args:
        given: names of the given fields.
        arguments: argument names by field.
        where: the argument that contains the form, such as ``"passengers[2]"``.
        about: returns the sentence about an argument.
    """
    model = getattr(getattr(form, "_meta", None), "model", None)
    for name, errors in _errors_of(form).as_data().items():
        for error in errors:
            if model is not None and names_hidden_fields(error, model, arguments):
                yield CONFLICT_MESSAGE
            elif name in arguments:
                argument = f"{where}.{arguments[name]}" if where else arguments[name]
                yield field_error_message(form.fields[name], error, argument, is_given=name in given, about=about)
            else:
                yield non_field_error_message(error, where)


def _errors_of(form: Any) -> Any:
    try:
        return form.errors
    except (ObjectDoesNotExist, AttributeError, LookupError, TypeError, ValueError):
        # Django calls clean() of the form and the row also if a field was refused, and it may read that field.
        if not form._errors:  # noqa: SLF001 - form.errors, which would validate again while there are none
            raise
        return form._errors  # noqa: SLF001 - likewise


def names_hidden_fields(error: ValidationError, model: type[models.Model], names: Container[str]) -> bool:
    """Return True if an error would name a constraint, or columns other than *names*."""
    params = error.params if isinstance(error.params, dict) else {}
    if "unique_check" in params:
        return any(name not in names for name in params["unique_check"])
    if error.code == "unique_for_date":
        return any(params[key] not in names for key in ("field", "date_field"))
    options = [base._meta for base in (model, *model._meta.all_parents)]  # noqa: SLF001 - Django's documented API
    constraints = [constraint for option in options for constraint in option.constraints]
    plain = [
        constraint
        for constraint in constraints
        if constraint.violation_error_message == constraint.default_violation_error_message
    ]
    return error.messages[0] in {str(constraint.get_violation_error_message()) for constraint in plain}


def non_field_error_message(error: ValidationError, where: str = "") -> str:
    words = plain_message(error)
    return about_argument([where], words) if where else words


_REQUIRED = "This field is required."
"""Django's words, for which arguments have better ones. In another language, the form's own stay."""


def field_error_message(
    field: Any, error: ValidationError, where: str, *, is_given: bool, about: About = about_argument
) -> str:
    if not is_given and error.code == "required" and plain_message(error) == _REQUIRED:
        return missing_argument([where])
    return f"{about([where], plain_message(error))}{_hint(field, error)}"


def _hint(field: Any, error: ValidationError) -> str:
    if error.code == "required" and isinstance(field, forms.BooleanField):
        return " It must be true."
    params = error.params if isinstance(error.params, dict) else {}
    if isinstance(field, forms.ModelChoiceField):
        offer = getattr(field, "mcp_offer", None) if error.code in {"invalid_choice", "invalid_pk_value"} else None
        return "" if offer is None else str(offer(str(params.get("value", params.get("pk", "")))))
    if error.code == "invalid_choice":
        return _offer(field, str(params.get("value", "")))
    example = getattr(field_type(field), "example", None)
    return f" Example: {example}." if error.code == "invalid" and example else ""


def _offer(field: Any, value: str) -> str:
    every: Any = flatten_choices(getattr(field, "choices", ()))
    choices = [(as_word(value), str(label)) for value, label in every if value not in (None, "")]
    named = named_choices(value, choices, MAX_NAMED)
    if not named:
        return ""
    return f" {'Choose one of:' if len(named) == len(choices) else 'The choices include:'} {', '.join(named)}."


def plain_message(error: ValidationError) -> str:
    """Return an error's text without HTML, with the details that Wagtail's errors have for each part of a value."""
    words = " ".join(
        html.unescape(strip_tags(message)) if hasattr(message, "__html__") else str(message)
        for message in error.messages
    )
    parts = getattr(error, "as_json_data", None)
    more = f" {json.dumps(parts(), cls=DjangoJSONEncoder)}" if callable(parts) else ""
    return sentence(words.replace("\0", "\\0")) + shortened(more, 500)
