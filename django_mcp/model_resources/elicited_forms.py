"""Django forms as elicitation forms: what the person at the client is shown, and the binding of the answer."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from django import forms
from django.core.exceptions import ImproperlyConfigured
from django.utils import timezone
from django.utils.choices import flatten_choices
from django.utils.translation import gettext as _

from django_mcp.core.context import Context
from django_mcp.model_resources.access import RowAccess
from django_mcp.model_resources.form_app import (
    has_hidden_rows,
    leave_hidden_rows,
    list_rows,
    unreadable_fields,
)
from django_mcp.model_resources.form_choices import row_choices
from django_mcp.model_resources.form_schema import (
    NOTHING,
    editable_fields,
    field_schema,
    initial_value,
    key_column,
    limit_notes,
    model_column,
)
from django_mcp.model_resources.form_sources import FormSource
from django_mcp.primitives.base import FormError, ToolError
from django_mcp.primitives.elicitation_schema import ALLOWED, options_of, refuse_secret, restricted, sentence
from django_mcp.primitives.field_schema import DECIMAL_INPUT, field_type, plain_text
from django_mcp.primitives.markers import MAX_BYTES
from django_mcp.primitives.text_values import read_members, readers

_CHOICES = (forms.ChoiceField, forms.ModelChoiceField)
_SEVERAL = (forms.MultipleChoiceField, forms.ModelMultipleChoiceField)
_PRIMITIVE = ("string", "number", "integer", "boolean")


class ElicitedForm:
    """A Django form for the person at the client of one call, bound as ``form_tool`` binds it.

    Rows are those that the caller may see. Disabled fields are left out, and so are optional ones without a choice.

    Args:
        form_class: the class.
        form_kwargs: keyword arguments for it.
        label: name for errors.
    """

    def __init__(
        self, ctx: Context, form_class: Any, form_kwargs: Mapping[str, Any] | None = None, label: str = "elicitation"
    ) -> None:
        self._ctx, self._label = ctx, f"{label} {form_class.__name__}"
        kwargs = None if form_kwargs is None else lambda _: form_kwargs
        self._source = FormSource(form_class, kwargs, MAX_BYTES, self._label, changes=False)
        # The tool's own row. It is not locked until the answer comes, and not read again.
        self._row = (form_kwargs or {}).get("instance")
        self._kept: set[str] = set()

    @cached_property
    def schema(self) -> dict[str, Any]:
        """The ``requestedSchema`` in the caller's language.

        Raises:
            ImproperlyConfigured: a field is not supported in a form, or requests a secret; the class requires other
                arguments, or a field of it has no choices.
            ToolError: a required field has no row that the caller may see.
        """
        form: Any = self._source.make_form(self._ctx, {}, self._row)
        access = RowAccess(self._ctx)
        initial = self._limit_rows(form, access)
        hidden = unreadable_fields(form, access)
        fields = {name: field for name, field in editable_fields(form).items() if name not in hidden}
        found = {name: self._property(form, name, initial) for name in fields}
        properties = {name: part for name, part in found.items() if part is not None}
        schema: dict[str, Any] = {"type": "object", "properties": properties}
        required = [name for name in properties if fields[name].required]
        return {**schema, "required": required} if required else schema

    def validate(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """Return ``cleaned_data``. Unknown fields are ignored; null and what is missing count as left empty.

        Raises:
            FormError: the answer is invalid.
        """
        answers = read_members({name: content.get(name) for name in self.schema["properties"]}, readers(self.schema))
        given = {name: answer for name, answer in answers.items() if name not in self._kept or answer not in (None, "")}
        form: Any = self._source.make_form(self._ctx, given, self._row)
        found = self._source.validate_form(self._ctx, form, given, about=_about, of_call=False)
        if found:
            raise FormError([*dict.fromkeys(found)])
        cleaned: dict[str, Any] = form.cleaned_data
        return cleaned

    def _limit_rows(self, form: Any, access: RowAccess) -> dict[str, Any]:
        """Limit the choices of rows, and return the initial ones, by field.

        An initial row that is hidden from the caller stays unless another one is chosen. Sets of such rows are left
        out.
        """
        initial = {}
        for name, choice in row_choices(form, self._ctx.server).items():
            field = form.fields[name]
            first, key = form.get_initial_for_field(field, name), key_column(field)
            more = _("Only the first %(count)s are listed.")
            initial[name] = list_rows(field, choice, access, key, first, more)
            field.to_field_name = choice.column.name if choice.is_declared else field.to_field_name
            if not initial[name] and has_hidden_rows(form, name, choice, key, first):
                self._kept.add(name)
                leave_hidden_rows(form, name)
        return initial

    def _property(self, form: Any, name: str, initial: Mapping[str, Any]) -> dict[str, Any] | None:
        field = form.fields[name]
        found = self._choice(name, field) if isinstance(field, _CHOICES) else self._primitive(form, name)
        if found is None:
            return None
        found["title"] = str(form[name].label)
        if words := [note for note in (field.help_text, *_words(field)) if note]:
            found["description"] = str(plain_text(*words))
        default = _default(field, initial[name] if name in initial else initial_value(form, name), found)
        return found if default in (None, "", []) else {**found, "default": default}

    def _choice(self, name: str, field: Any) -> dict[str, Any] | None:
        """Return the schema of a choice; None for an optional one without rows."""
        is_open = getattr(field, "queryset", field) is None  # the form sets it only when it is submitted
        known: list[tuple[Any, Any]] = [] if is_open else [*flatten_choices(field.choices)]
        options = [{"const": str(value), "title": str(label)} for value, label in known if value not in (None, "")]
        if options and isinstance(field, _SEVERAL):
            return {"type": "array", "items": {"anyOf": options}}
        if options:
            return {"type": "string", "oneOf": options}
        if is_open or not isinstance(field, forms.ModelChoiceField):
            msg = f"{self._label}: {name!r} has no choices. Check for this before you call ctx.elicit."
            raise ImproperlyConfigured(msg)
        if field.required:
            rows: Any = field.queryset
            called = rows.model._meta.verbose_name  # noqa: SLF001 - Django's documented API
            raise ToolError(f"The user was not asked: there is no {called} to choose from.")
        return None

    def _primitive(self, form: Any, name: str) -> dict[str, Any]:
        field = form.fields[name]
        schema = dict(field_schema(field, model_column(form, name), call=True))
        if schema.get("anyOf") == DECIMAL_INPUT["anyOf"]:
            schema["type"] = "number"
        if isinstance(schema.get("type"), list):
            kinds = [kind for kind in schema["type"] if kind != "null"]
            schema["type"] = kinds[0] if len(kinds) == 1 else None
        refuse_secret(name, schema, self._label)
        if schema.get("type") not in _PRIMITIVE:
            kind = type(field).__name__
            msg = f"{self._label}: {name!r} is a {kind}, which is not supported in a form. {ALLOWED}"
            raise ImproperlyConfigured(msg)
        schema.pop("const", None)
        return restricted(schema)


def _about(where: Any, words: str) -> str:
    return sentence(str(where[-1]), words)


def _words(field: Any) -> Iterator[Any]:
    """Yield descriptions of a value that the schema cannot express; an example where no format is told."""
    known = field_type(field)
    is_told = isinstance(field, forms.DateField | forms.DateTimeField | forms.SplitDateTimeField)
    if known is not None and known.example and not is_told:
        yield f"Example: {known.example}."
    yield from limit_notes(field, NOTHING)


def _default(field: Any, initial: Any, schema: Mapping[str, Any]) -> Any:
    if initial in field.empty_values:
        return None
    if (options := options_of(schema)) is not None:
        prepared = field.prepare_value(initial)
        if schema["type"] == "array":
            chosen = {str(key) for key in prepared}
            return [option for option in options if option in chosen]
        return str(prepared) if str(prepared) in options else None
    if schema["type"] != "string":
        return {"integer": int, "number": float, "boolean": bool}[schema["type"]](initial)
    if schema.get("format") == "date-time" and timezone.is_naive(initial):
        initial = timezone.make_aware(initial)
    return initial.isoformat() if hasattr(initial, "isoformat") else str(initial)
