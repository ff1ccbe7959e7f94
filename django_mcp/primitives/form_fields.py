"""Forms from Django's ``Form`` classes."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from django import forms
from django.core.exceptions import NON_FIELD_ERRORS, ImproperlyConfigured
from django.utils import timezone
from django.utils.html import strip_tags

from django_mcp.primitives.form_shapes import ALLOWED, options_of, refuse_secret, sentence


def _text(field: Any) -> dict[str, Any]:
    lengths = {"minLength": getattr(field, "min_length", None), "maxLength": getattr(field, "max_length", None)}
    return {"type": "string", **{key: value for key, value in lengths.items() if value is not None}}


def _number(field: Any) -> dict[str, Any]:
    whole = not isinstance(field, forms.FloatField | forms.DecimalField)
    limits = {"minimum": _called(field.min_value), "maximum": _called(field.max_value)}
    number: type[int | float] = int if whole else float
    given = {key: number(value) for key, value in limits.items() if value is not None}
    return {"type": "integer" if whole else "number", **given}


def _called(value: Any) -> Any:
    return value() if callable(value) else value


_CHOICES = (forms.ChoiceField, forms.ModelChoiceField)

# The first that fits. Those with None are kinds of a later one, and no text a person types.
_KINDS: tuple[tuple[type[forms.Field], Callable[[Any], dict[str, Any]] | None], ...] = (
    (forms.JSONField, None),
    (forms.MultipleChoiceField, lambda _: {"type": "array"}),
    (forms.ModelMultipleChoiceField, lambda _: {"type": "array"}),
    (forms.ChoiceField, lambda _: {"type": "string"}),
    (forms.ModelChoiceField, lambda _: {"type": "string"}),
    (forms.BooleanField, lambda _: {"type": "boolean"}),
    (forms.IntegerField, _number),
    (forms.DateTimeField, lambda _: {"type": "string", "format": "date-time"}),
    (forms.DateField, lambda _: {"type": "string", "format": "date"}),
    (forms.EmailField, lambda field: {**_text(field), "format": "email"}),
    (forms.URLField, lambda field: {**_text(field), "format": "uri"}),
    (forms.CharField, _text),
)


class DjangoForm:
    """A form made from a Django ``Form`` class.

    Labels become titles, help texts descriptions and initial values defaults. Disabled fields are not asked for.

    Raises:
        ImproperlyConfigured: a field no form at a client can ask for, or a class that wants arguments.
    """

    def __init__(self, form_class: type[forms.BaseForm], label: str) -> None:
        self._class = form_class
        self._label = f"{label} {form_class.__name__}"
        try:
            fields = _asked(form_class())
        except TypeError as error:
            msg = f"{self._label}: the form must be made without arguments: {error}."
            raise ImproperlyConfigured(msg) from error
        for name, field in fields.items():
            kind = self._kind(name, field)
            if getattr(field.widget, "input_type", None) == "password":
                kind["format"] = "password"
            if not isinstance(field, _CHOICES):
                refuse_secret(name, kind, self._label)

    @property
    def names(self) -> set[str]:
        """Of the fields a person fills in."""
        return set(_asked(self._class()))

    @property
    def schema(self) -> dict[str, Any]:
        """Made anew each time: choices may be rows of the database, and labels are in the language of the moment."""
        form = self._class()
        fields = _asked(form)
        schema: dict[str, Any] = {"type": "object", "properties": {name: self._property(form, name) for name in fields}}
        if required := [name for name, field in fields.items() if field.required]:
            schema["required"] = required
        return schema

    def read(self, content: Mapping[str, Any]) -> tuple[dict[str, Any] | None, list[str]]:
        """The form's ``cleaned_data``, or what is wrong with *content*."""
        fields = _asked(self._class())
        problems = [
            sentence(name, "Enter one value, not several.")
            for name, value in content.items()
            if isinstance(value, list | dict) and self._kind(name, fields[name])["type"] != "array"
        ]
        if problems:
            return None, problems
        prefixed = self._class().add_prefix
        form = self._class(data={prefixed(name): value for name, value in content.items()})
        return (form.cleaned_data, []) if form.is_valid() else (None, list(_problems(form)))

    def _kind(self, name: str, field: forms.Field) -> dict[str, Any]:
        for kind, make in _KINDS:
            if isinstance(field, kind) and make is not None:
                return make(field)
            if isinstance(field, kind):
                break
        msg = f"{self._label}: {name!r} is a {type(field).__name__}, which no form can ask for. {ALLOWED}"
        raise ImproperlyConfigured(msg)

    def _property(self, form: forms.BaseForm, name: str) -> dict[str, Any]:
        field = form.fields[name]
        found = {**self._kind(name, field), "title": str(form[name].label)}
        if field.help_text:
            found["description"] = strip_tags(str(field.help_text))
        if isinstance(field, _CHOICES):
            options = [{"const": str(value), "title": str(title)} for value, title in _choices(field.choices)]
            if not options:
                msg = f"{self._label}: {name!r} has nothing to choose from; see to that before you ask."
                raise ImproperlyConfigured(msg)
            found |= {"items": {"anyOf": options}} if found["type"] == "array" else {"oneOf": options}
        default = _default(field, form.get_initial_for_field(field, name), found)
        return found if default in (None, "", []) else {**found, "default": default}


def _asked(form: forms.BaseForm) -> dict[str, forms.Field]:
    return {name: field for name, field in form.fields.items() if not field.disabled}


def _choices(choices: Any) -> Iterator[tuple[Any, Any]]:
    """Value and label, those of groups too, without the empty choice."""
    for value, title in choices:
        if isinstance(title, list | tuple):
            yield from _choices(title)
        elif value is not None and str(value) != "":
            yield value, title


def _default(field: forms.Field, initial: Any, schema: Mapping[str, Any]) -> Any:
    """An initial value in JSON; None where there is none, or it is none of the choices."""
    if initial is None or initial == "":
        return None
    options = options_of(schema)
    if options is not None:
        prepared = field.prepare_value(initial)
        if schema["type"] == "array":
            chosen = {str(each) for each in prepared}
            return [option for option in options if option in chosen]
        return str(prepared) if str(prepared) in options else None
    if schema["type"] != "string":
        return {"integer": int, "number": float, "boolean": bool}[schema["type"]](initial)
    if schema.get("format") == "date-time" and timezone.is_naive(initial):
        initial = timezone.make_aware(initial)
    return initial.isoformat() if hasattr(initial, "isoformat") else str(initial)


def _problems(form: forms.BaseForm) -> Iterator[str]:
    for name, errors in form.errors.as_data().items():
        for error in errors:
            if (
                name != NON_FIELD_ERRORS
                and error.code == "required"
                and isinstance(form.fields[name], forms.BooleanField)
            ):
                yield sentence(name, "This must be true.")
            else:
                words = " ".join(str(message) for message in error.messages)
                yield sentence("" if name == NON_FIELD_ERRORS else name, words)
