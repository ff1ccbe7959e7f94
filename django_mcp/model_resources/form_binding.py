"""Forms and formsets as the arguments of a tool: schema, binding, choices of rows, errors."""

import html
import inspect
import json
import re
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy, deepcopy
from functools import partial
from typing import Any, NamedTuple, NoReturn

from django import forms
from django.core.exceptions import FieldDoesNotExist, ImproperlyConfigured, ObjectDoesNotExist, ValidationError
from django.core.files.uploadedfile import UploadedFile
from django.core.serializers.json import DjangoJSONEncoder
from django.db import Error, models
from django.db.models import QuerySet
from django.db.models.expressions import DatabaseDefault
from django.forms.formsets import DELETION_FIELD_NAME, ORDERING_FIELD_NAME
from django.utils.choices import flatten_choices
from django.utils.datastructures import MultiValueDict
from django.utils.html import strip_tags
from django.utils.text import camel_case_to_spaces, capfirst, slugify

from django_mcp.core.context import Context
from django_mcp.core.database import queries
from django_mcp.core.request import require_same
from django_mcp.model_resources.access import RowAccess, linked, locked, locked_again, on_writer
from django_mcp.model_resources.arguments import finding_hint
from django_mcp.model_resources.bound_resource import (
    BoundResource,
    TableRules,
    address_in,
    is_composite,
    is_unique,
    rules_at,
)
from django_mcp.model_resources.form_schema import (
    NOTHING,
    asked,
    foreign_column,
    form_schema,
    initial_value,
    key_column,
    read,
)
from django_mcp.model_resources.schema import MAX_VALUES, form_value, json_type, named_choices, storable
from django_mcp.model_resources.serializers import title_of
from django_mcp.primitives.base import ToolError
from django_mcp.primitives.field_schema import field_type
from django_mcp.primitives.schema import ArgumentError, Arguments, type_errors
from django_mcp.primitives.validation_errors import (
    MAX_REPORTED,
    about_argument,
    abridged,
    close_matches,
    kind_name,
    missing_argument,
    sentence,
    sentences,
    shortened,
    unknown_argument,
)
from django_mcp.protocol.json_schema import alternatives, as_word, takes_null

Data = MultiValueDict[str, Any]

_MAX_NAMED = 20
_MAX_NEAR = 5
_MAX_COMPARED = 500
"""Rows whose labels are compared with a value that is no key."""
_MAX_LABEL = 60


def put(data: Data, key: str, value: Any) -> None:
    """Set a JSON value as a browser would send it; a list becomes several values."""
    if isinstance(value, list):
        data.setlist(key, value)
    else:
        data[key] = value


def fill(form: Any, given: Mapping[str, Any], most_bytes: int) -> None:
    """Bind the values in *given* to a bound form that is not validated yet.

    Fields that are not given get their initial values, as on a page. Fields that must not change are already disabled.
    A value of a wrong type becomes an error of its field.

    Args:
        given: values by field name; null is an empty input.
        most_bytes: maximum size of a file.
    """
    for name, field in asked(form).items():
        key = form.add_prefix(name)
        if (column := foreign_column(form, name)) is not None:
            if name in given:
                form.data[key] = given[name]
            _read_by_column(field, column, given, form.get_initial_for_field(field, name))
            continue
        if name in given:
            value = _read(field, given[name], most_bytes)
        else:
            value = _at_first(form, name, field)
            if value is None:
                continue
        if isinstance(value, UploadedFile):
            form.files[key] = value
        elif _takes_values(field.widget) or not _is_readable(form, name, field):
            is_clearing = (
                value is None and isinstance(field, forms.FileField) and form.get_initial_for_field(field, name)
            )
            form.data[key] = False if is_clearing else value  # as the "clear" checkbox of a file does
    for name, field in form.fields.items():
        field.show_hidden_initial = False  # there is no earlier page to compare with
        # A widget of another package may fail without its inputs, which changed_data asks of disabled fields too.
        if _takes_values(field.widget) or field.disabled or not _is_readable(form, name, field):
            kind = getattr(field.widget, "input_type", None)
            field.widget = Given(field.widget)
            field.widget.input_type = kind  # rendering a form leaves passwords out


def _at_first(form: Any, name: str, field: forms.Field) -> Any:
    """Return what a page would show initially, or None for nothing or a database default."""
    initial, row = initial_value(form, name), getattr(form, "instance", None)
    for value in (initial, vars(row).get(name) if isinstance(row, models.Model) else None):
        if isinstance(value, DatabaseDefault):
            fix(field, value)
            return None
    return None if initial is None or isinstance(field, forms.FileField) else _initial(field, initial)


def _read_by_column(field: Any, column: Any, given: Mapping[str, Any], initial: Any) -> None:
    """Let a field clean JSON through the column of another package's class.

    Widgets of packages expect inputs that a call does not have.
    """
    clean, field.widget = field.clean, Given(field.widget)
    value, is_given = given.get(column.name), column.name in given
    field.has_changed = lambda *_: is_given  # Wagtail's fields compare values of their own
    if value is None and is_given and column.null:
        field.required, field.clean = False, lambda *_: None
        return
    try:
        storable(value)
        taken = initial if not is_given and initial is not None else form_value(column, field, value)
    except ValidationError as error:
        refuse(field, error)
    except ValueError as error:
        refuse(field, ValidationError(f"{error}.", code="kind"))
    else:
        # CharField would make it text; nothing is an empty text, as from a page.
        is_value = isinstance(field, forms.CharField) and taken is not None and not isinstance(taken, str)
        field.clean = lambda *_: taken if is_value else clean(taken)


def _read(field: forms.Field, value: Any, most_bytes: int) -> Any:
    try:
        return read(field, value, most_bytes)
    except ValidationError as error:
        refuse(field, error)
        return None


def may_prefill(field: Any) -> bool:
    """Return True if a page may show a value of the field: not for files and passwords."""
    return not isinstance(field, forms.FileField) and getattr(field.widget, "input_type", None) != "password"


def refuse(field: forms.Field, error: ValidationError) -> None:
    """Make a field fail with *error* for any input."""

    def clean(*_: Any) -> NoReturn:
        raise error

    field.clean = clean  # type: ignore[assignment, method-assign]


def _initial(field: Any, initial: Any) -> Any:
    if isinstance(field, forms.MultiValueField) and not isinstance(initial, list | tuple):
        return field.widget.decompress(initial)
    return as_shown(field, initial)


def _takes_values(widget: forms.Widget) -> bool:
    """Return False for a custom widget, which may convert values to something that its field expects.

    One of several inputs makes the value of its field from them, and a call has that value.
    """
    is_of_django = type(widget).value_from_datadict.__module__.startswith("django.")
    return is_of_django or isinstance(widget, forms.MultiWidget)


def _is_readable(form: Any, name: str, field: forms.Field) -> bool:
    """Return False if a custom widget requires inputs that the data lacks, whatever it raises then."""
    try:
        field.widget.value_from_datadict(form.data, form.files, form.add_prefix(name))
    except Exception:  # noqa: BLE001 - such as None.strip() or int(None)
        return False
    return True


class Given(forms.Widget):
    """A widget that takes a value as it is, not spread over the inputs of a page.

    Args:
        own: the widget that it replaces, which the field may still ask: fields of translated texts read its languages.
    """

    def __init__(self, own: forms.Widget) -> None:
        super().__init__()
        self._own = own

    def __getattr__(self, name: str) -> Any:
        if name == "_own":  # of a copy that is being made
            raise AttributeError(name)
        return getattr(self._own, name)

    def value_from_datadict(self, data: Any, files: Any, name: str) -> Any:
        return files.get(name) if files and name in files else data.get(name)

    def value_omitted_from_data(self, data: Any, files: Any, name: str) -> bool:
        return name not in data and not (files and name in files)


def as_shown(asked: Any, value: Any) -> Any:
    """Return the initial value as a page shows it. A datetime stays unchanged, since its text has no offset."""
    return value if isinstance(asked, forms.DateTimeField) else asked.prepare_value(value)


def keep(form: Any, obj: Any, given: Container[str]) -> None:
    """Keep the row's values of fields that are not given."""
    for name in written_by(form):
        if name in given:
            continue
        field = obj._meta.get_field(name)  # noqa: SLF001 - Django's documented API
        try:
            value = getattr(obj, name)
        except ObjectDoesNotExist:  # its related row is gone, so the form cannot show it
            del form.fields[name]
            continue
        fix(form.fields[name], value.all() if field.many_to_many else value)


def written_by(form: Any) -> list[str]:
    """Return the model's own fields that a ``ModelForm`` writes."""
    options = form._meta  # noqa: SLF001 - of ModelForm
    model = options.model._meta  # noqa: SLF001 - Django's documented API
    own = [field.name for field in (*model.concrete_fields, *model.many_to_many) if field.name in form.fields]
    return [
        name
        for name in own
        if (options.fields is None or name in options.fields) and name not in (options.exclude or ())
    ]


def fix(asked: Any, value: Any) -> None:
    """Make a field clean any input to *value*, which the form's ``clean`` then finds."""
    asked.required, asked.disabled = False, True
    asked.clean = lambda *_: value  # a FileField passes its initial value too


# Errors


class InvalidForm(ArgumentError):
    """The arguments do not make a valid form.

    Attributes:
        form: the bound form.
        unknown: problems of arguments that are not fields.
    """

    def __init__(self, problems: Sequence[str], form: forms.BaseForm, unknown: Sequence[str]) -> None:
        super().__init__(problems)
        self.form, self.unknown = form, unknown


def cleaned(form: Any, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, ValidationError]]:
    """Return the values of given fields as their fields clean them, or else their errors. Files are left out.

    The form as a whole is not validated.
    """
    values, errors = {}, {}
    for name, field in asked(form).items():
        if given.get(name) is not None and not isinstance(field, forms.FileField):
            try:
                values[name] = field.clean(form[name].data)
            except ValidationError as error:
                errors[name] = error
    return values, errors


def unknown(given: Iterable[str], known: Iterable[str], *where: str, room: int = MAX_REPORTED) -> tuple[list[str], int]:
    """Return errors for the first unknown arguments, at most *room*, and how many more there are."""
    names = list(known)
    others = [name for name in given if name not in names]
    told = [unknown_argument([*where, name], names) for name in others[: max(room, 0)]]
    return told, len(others) - len(told)


RULE = (
    "The values conflict with each other or with existing data: for example, a value must be unique, or a required "
    "value is missing. Change the values and retry."
)
"""Replaces messages that would name a constraint, or columns that callers cannot set."""


About = Callable[[Sequence[Any], str], str]
"""Returns the sentence about an argument, such as ``about_argument``."""


def problems(
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
    for name, errors in form.errors.as_data().items():
        for error in errors:
            if model is not None and is_about_others(error, model, arguments):
                yield RULE
            elif name in arguments:
                argument = f"{where}.{arguments[name]}" if where else arguments[name]
                yield _of_field(form.fields[name], error, argument, is_given=name in given, about=about)
            else:
                yield in_words(error, where)


def is_about_others(error: ValidationError, model: type[models.Model], names: Container[str]) -> bool:
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


def in_words(error: ValidationError, where: str = "") -> str:
    words = plain(error)
    return about_argument([where], words) if where else words


def _of_field(field: Any, error: ValidationError, where: str, *, is_given: bool, about: About = about_argument) -> str:
    is_plain = error.code == "required" and error.message == forms.Field.default_error_messages["required"]
    if is_plain and not is_given:
        return missing_argument([where])
    return f"{about([where], plain(error))}{_hint(field, error)}"


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
    named = named_choices(value, choices, _MAX_NAMED)
    if not named:
        return ""
    return f" {'Choose one of:' if len(named) == len(choices) else 'The choices include:'} {', '.join(named)}."


def plain(error: ValidationError) -> str:
    """Return an error's text without HTML, with the details that Wagtail's errors have for each part of a value."""
    words = " ".join(
        html.unescape(strip_tags(message)) if hasattr(message, "__html__") else str(message)
        for message in error.messages
    )
    parts = getattr(error, "as_json_data", None)
    more = f" {json.dumps(parts(), cls=DjangoJSONEncoder)}" if callable(parts) else ""
    return sentence(words.replace("\0", "\\0")) + shortened(more, 500)


class Lookup:
    """The argument that identifies the row to change.

    Args:
        name: a unique field or ``"pk"``; also the argument's name.
        rows: a function that takes the context and returns the caller's rows; None for those of the model's
            ``ModelResource``.

    Raises:
        ImproperlyConfigured: the field does not exist or is not unique.
    """

    def __init__(
        self, model: type[models.Model], name: str, rows: Callable[[Context], "QuerySet[Any]"] | None, label: str
    ) -> None:
        options = model._meta  # noqa: SLF001 - Django's documented API
        try:
            self.field: Any = options.pk if name == "pk" else options.get_field(name)
        except FieldDoesNotExist:
            msg = f"{label}: lookup {name!r} is not a field of {options.label}."
            raise ImproperlyConfigured(msg) from None
        if is_composite(self.field):
            msg = f"{label}: {options.label} has a composite primary key, so no single value identifies a row."
            raise ImproperlyConfigured(msg)
        if not (self.field.concrete and is_unique(self.field)):
            msg = f"{label}: lookup {name!r} is not unique, so it does not identify a row; use 'pk' or a unique field."
            raise ImproperlyConfigured(msg)
        self.model, self.name, self._rows = model, name, rows
        self.called = options.verbose_name
        field: Any = self.field
        key = "Primary key" if field.primary_key else capfirst(str(field.verbose_name))
        self.schema = {**json_type(self.field), "description": f"{key} of the {self.called}."}

    def find(self, ctx: Context, value: Any) -> Any:
        """Return the row, locked until the transaction ends.

        Raises:
            ToolError: it does not exist for the caller.
        """
        access, key = RowAccess(ctx), address_in(self.field, value) if isinstance(value, str | int) else None
        obj = None if key is None else locked(self.model, lambda: self._look(access, key))
        if obj is None:
            hint = finding_hint(None if self._rows else ctx.server.model_resources.get(self.model), access)
            raise ToolError(f"No {self.called} with {self.name} {str(value)[:80]!r} found.{hint}")
        return obj

    def _look(self, access: RowAccess, key: Any) -> Any:
        bound = None if self._rows is not None else access.ctx.server.model_resources.get(self.model)
        if self._rows is None and bound is None:  # an endpoint that selects the tool without the model
            return None
        rows = access.get_queryset(bound) if bound is not None else self._rows(access.ctx)  # type: ignore[misc]
        for obj in on_writer(rows).filter(**{self.field.attname: key})[:1]:
            return obj if bound is None or access.can_view(bound, obj) else None
        return None


class Choice(NamedTuple):
    """How a field chooses rows at an endpoint.

    Attributes:
        column: the column whose value identifies a row.
        rules: the model's access rules.
        is_declared: True if *column* is the lookup field of the model's ``ModelResource``, not the field's own column.
    """

    column: Any
    rules: TableRules
    rows: "QuerySet[Any]"
    is_declared: bool

    @property
    def may_move(self) -> bool:
        """True if a value may later identify a different row."""
        return not self.column.primary_key

    def among(self, access: RowAccess, value: Any) -> dict[Any, Any]:
        """Return the visible rows that a value or a list of values identifies, by column value."""
        keys = [address_in(self.column, entry) for entry in _each(value)[:MAX_VALUES]]
        name = self.column.attname
        named = {f"{name}__in": [key for key in keys if key is not None]}
        return {getattr(row, name): row for row in visible(self.rules, self.rows.all(), access, **named)}

    def offered(self, access: RowAccess) -> "QuerySet[Any]":
        """Return the rows of the field that the caller may see, before ``RowAccess.can_view_row``."""
        rows = on_writer(self.rows.all())
        shown = access.visible_rows(self.rules) if self.rules.exist else None
        return rows if shown is None else rows.filter(pk__in=on_writer(shown).order_by().values("pk"))

    def label(self, field: Any, access: RowAccess, rows: Iterable[Any]) -> Callable[[Any], str]:
        """Return the function for the label of a row, one of *rows*.

        That of the site's own field class; otherwise, of a model with access rules, not ``str(row)``, which could
        reveal undeclared fields.
        """
        is_usual = type(field).label_from_instance is forms.ModelChoiceField.label_from_instance
        usual: Callable[[Any], str] = field.label_from_instance
        if not self.rules.exist or not is_usual:
            return usual
        declared = access.as_declared(self.rules, rows)

        def label(row: Any) -> str:
            if row.pk in declared:
                return _title(*declared[row.pk], access)
            # Of a model of which only multi-table children are registered, this row is none of those.
            return str(row.pk) if self.rules.declarations else usual(row)

        return label


def _offer_rows(choice: Choice, access: RowAccess, field: Any, value: str) -> str:
    """Return sentences that name the keys and labels of rows, the nearest if there are many, and the search tool."""
    offered = choice.offered(access)[: _MAX_COMPARED + 1]
    rows = [row for row in offered if access.can_view_row(choice.rules, row)]
    label, column = choice.label(field, access, rows[:_MAX_COMPARED]), choice.column.attname
    named = [(shortened(str(label(row)), _MAX_LABEL), row) for row in rows[:_MAX_COMPARED]]
    is_whole = len(rows) <= _MAX_NAMED
    if not is_whole:
        folded = {words.casefold(): (words, row) for words, row in named}
        named = [folded[words] for words in close_matches(value.casefold(), folded, _MAX_NEAR)]
    shown = [f"{getattr(row, column)} ({words})" for words, row in named]
    offer = f" {'Choose one of:' if is_whole else 'The nearest are:'} {', '.join(shown)}." if shown else ""
    search = finding_hint(access.ctx.server.model_resources.get(choice.rows.model), access)
    return offer + search


def _title(bound: BoundResource, row: Any, access: RowAccess) -> str:
    own = (column.path.field for column in bound.columns if column.path is not None and not column.path.hops)
    text = next((column for column in own if isinstance(column, models.CharField)), None)
    if bound.resource.title_field or text is None:
        return title_of(bound, row, access)
    return str(getattr(row, text.attname)) or title_of(bound, row, access)


def visible(rules: TableRules, every: "QuerySet[Any]", access: RowAccess, **named: Any) -> list[Any]:
    """Return the rows with the values *named* that the caller may see; those of *every* if the model has no rules."""
    rows = access.visible_rows(rules) if rules.exist else every
    if rows is None:
        rows = rules.model._default_manager.all()  # noqa: SLF001 - Django's documented API
    return [row for row in on_writer(rows).order_by().filter(**named) if access.can_view_row(rules, row)]


def choices_of(form: Any, server: Any) -> dict[str, Choice]:
    """Return the choices of a form's fields, without fields that get their rows only in a call."""
    return {name: choice for name, field in form.fields.items() if (choice := _choice(field, server)) is not None}


def _choice(field: Any, server: Any) -> Choice | None:
    if not isinstance(field, forms.ModelChoiceField) or field.disabled or field.queryset is None:
        return None
    rules, own = rules_at(server, field.queryset.model), key_column(field)
    bound = rules.own
    is_declared = bound is not None and bound.is_sound and own.primary_key and not bound.lookup.primary_key
    return Choice(bound.lookup if is_declared else own, rules, field.queryset, is_declared)  # type: ignore[union-attr]


def declared(choices: Mapping[str, Choice]) -> dict[str, Any]:
    return {name: choice.column for name, choice in choices.items() if choice.is_declared}


def as_sent(choices: Mapping[str, Choice], given: Mapping[str, Any], access: RowAccess) -> dict[str, Any]:
    """Return *given* with primary keys in place of lookup values; values without a row are dropped."""
    sent = dict(given)
    for name, choice in choices.items():
        if choice.is_declared and name in given and _is_key(given[name]):
            keys, lacking = _keys(choice, given[name], choice.among(access, given[name]))
            sent[name] = keys
            if lacking is not None:
                del sent[name]
    return sent


def narrow(
    form: forms.BaseForm, given: Mapping[str, Any], access: RowAccess
) -> tuple[dict[str, Any], dict[str, set[Any]]]:
    """Restrict the choices of a form to rows that the caller may see.

    Returns:
        *given* with primary keys in place of lookup values; and the rows that ``chosen`` returns, which include models
        without access rules only in an approved call.
    """
    taken, found = dict(given), {}
    for name, choice in choices_of(form, access.ctx.server).items():
        is_bound = choice.may_move and access.ctx.grant is not None
        if name not in given:
            continue
        field: Any = form.fields[name]
        field.mcp_offer = partial(_offer_rows, choice, access, copy(field))  # for the error, before it is narrowed
        if not choice.rules.exist and not is_bound:
            continue
        rows = choice.among(access, given[name])
        if choice.may_move:
            found[name] = set(rows.values())
        field.queryset = field.queryset.filter(pk__in=[row.pk for row in rows.values()])
        if choice.is_declared and _is_key(given[name]):
            there = set(field.queryset.values_list("pk", flat=True))
            taken[name], lacking = _keys(
                choice, given[name], {key: row for key, row in rows.items() if row.pk in there}
            )
            field.mcp_given = given[name]
            if lacking is not None:
                words = field.error_messages["invalid_choice"]
                refuse(field, ValidationError(words, code="invalid_choice", params={"value": lacking}))
    return taken, found


def _is_key(value: Any) -> bool:
    if isinstance(value, list):
        return 0 < len(value) <= MAX_VALUES and all(type(entry) in (str, int) for entry in value)
    return type(value) in (str, int) and value != ""


def _keys(choice: Choice, value: Any, rows: Mapping[Any, Any]) -> tuple[Any, Any]:
    """Return the primary keys of the rows, or else the first value without a row."""
    keys: list[Any] = []
    for entry in _each(value):
        row = rows.get(address_in(choice.column, entry))
        if row is None:
            return None, entry
        keys.append(row.pk if type(row.pk) is int else str(row.pk))
    return (keys if isinstance(value, list) else keys[0]), None


def chosen(form: Any, given: Mapping[str, Any], access: RowAccess) -> dict[str, set[Any]]:
    """Return the chosen rows of fields whose values may later identify different rows."""
    choices = choices_of(form, access.ctx.server).items()
    found = {name: choice for name, choice in choices if name in given and choice.may_move}
    return {name: set(choice.among(access, given[name]).values()) for name, choice in found.items()}


def _each(value: Any) -> list[str | int]:
    return [entry for entry in (value if isinstance(value, list) else [value]) if isinstance(entry, str | int)]


def keep_hidden(form: Any, obj: Any, given: Mapping[str, Any], access: RowAccess) -> None:
    """Keep rows that the caller may not see in many-to-many sets that are replaced."""
    for name in written_by(form):
        field = obj._meta.get_field(name)  # noqa: SLF001 - Django's documented API
        rules = rules_at(access.ctx.server, field.related_model) if field.many_to_many else None
        if rules is None or not rules.exist or name not in given:
            continue
        there = list(linked(obj, field))
        seen = {row.pk for row in visible(rules, field.related_model._base_manager.all(), access, pk__in=there)}  # noqa: SLF001
        hidden: list[Any] = [key for key in there if key not in seen]
        form.fields[name].mcp_hidden = frozenset(hidden)
        if is_kept_in_memory(field):  # it takes instances alone
            hidden = list(field.related_model._base_manager.filter(pk__in=hidden))  # noqa: SLF001 - documented API
        form.cleaned_data[name] = [*form.cleaned_data[name], *hidden]


def without_hidden(form: Any, name: str) -> Any:
    """Return the cleaned value of a field, without the rows that ``keep_hidden`` adds."""
    value, hidden = form.cleaned_data[name], getattr(form.fields.get(name), "mcp_hidden", ())
    return [row for row in value if getattr(row, "pk", row) not in hidden] if hidden else value


def is_kept_in_memory(field: Any) -> bool:
    """Return True for a set of django-modelcluster, whose rows are stored when the row that has them is saved."""
    return bool(getattr(field, "_need_commit_after_assignment", False))


def assign_sets(form: Any) -> None:
    """Put such sets on a form's row, which is saved next, as modelcluster's ``ClusterForm`` does."""
    for field in form.instance._meta.get_fields():  # noqa: SLF001 - Django's documented API
        if is_kept_in_memory(field) and field.name in form.cleaned_data:
            field.save_form_data(form.instance, form.cleaned_data[field.name])


def commit_sets(obj: Any) -> None:
    """Store such sets of a saved row, which ``save_m2m`` of a plain ``ModelForm`` leaves in memory."""
    for field in obj._meta.get_fields():  # noqa: SLF001 - Django's documented API
        if is_kept_in_memory(field) and obj.pk is not None:
            getattr(obj, field.name).commit()


NOTHING_TO_UPDATE = "There is nothing to update for this user."

_NOT_NULL = {
    "string": "string_type",
    "array": "list_type",
    "object": "dict_type",
    "integer": "int_type",
    "number": "float_type",
    "boolean": "bool_type",
}
"""pydantic's error types for null."""


class FormArguments(Arguments):
    """The arguments of a form, which validates them later, when it may query the database.

    Args:
        is_strict: require JSON numbers and booleans, not their text.
    """

    def __init__(self, schema: dict[str, Any], *, is_strict: bool = False) -> None:
        self.schema, self._is_strict = schema, is_strict
        self.names = tuple(schema["properties"])

    def validate(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return all values under one key.

        Raises:
            ArgumentError: a value is of the wrong type.
        """
        if self._is_strict:
            nulls = [name for name, value in values.items() if value is None]
            found = [misfit for name in nulls for misfit in self._misfit(name)]
            if details := [*found, *type_errors(dict(values), self.schema, self.schema)]:
                raise ArgumentError(sentences(details, values, self.schema))
        return {"given": dict(values)}

    def _misfit(self, name: str) -> Iterator[dict[str, Any]]:
        schema = self.schema["properties"].get(name, {})
        if not takes_null(schema, self.schema):
            kind = alternatives(schema, self.schema)[0]["type"]
            yield {"type": _NOT_NULL[kind], "loc": (name,), "input": None, "msg": ""}


def with_lookup(schema: dict[str, Any], name: str, described: dict[str, Any]) -> dict[str, Any]:
    """Add a required first argument that identifies the row."""
    return {
        **schema,
        "properties": {name: described, **schema["properties"]},
        "required": [name, *schema.get("required", ())],
    }


Filled = list[tuple[forms.BaseForm, Mapping[str, Any]]]


class FormSource:
    """A form class as the arguments of a tool.

    Args:
        form_kwargs: a function that takes the context and returns keyword arguments for the class.
        most_bytes: maximum size of a file.
        label: names the tool in configuration errors.
        changes: existing rows are changed and keep values that are not given.
        renamed: argument names of fields, if they differ.
        is_bare: read the class without calling it, so that it cannot query the database.

    Attributes:
        model: the model of a ``ModelForm``, or None.
        most_bytes, changes: as given.
    """

    def __init__(
        self,
        form_class: Any,
        form_kwargs: Callable[[Context], Mapping[str, Any]] | None,
        most_bytes: int,
        label: str,
        *,
        changes: bool,
        renamed: Mapping[str, str] = NOTHING,
        is_bare: bool = False,
    ) -> None:
        self._class, self._kwargs, self.most_bytes = form_class, form_kwargs, most_bytes
        self._label, self.changes, self._renamed, self._is_bare = label, changes, renamed, is_bare
        self._choices: dict[Any, Mapping[str, Choice]] = {}
        self._of_view = of_view(form_class)
        self.model = getattr(getattr(form_class, "_meta", None), "model", None)

    def schema(self, server: Any) -> dict[str, Any]:
        """Return the JSON Schema of the arguments at an endpoint. This may query the database.

        Raises:
            ImproperlyConfigured: the form cannot be instantiated.
            DatabaseError, InterfaceError: the database is not available.
        """
        if self._is_bare:
            form = bare(self._class)
        else:
            has_arguments = self._kwargs is not None
            form = unbound(self._class, self._label, self._of_view, has_arguments=has_arguments, has_row=self.changes)
        choices = self._choices[server] = choices_of(form, server)
        schema = form_schema(form, asked(form), self.most_bytes, declared(choices))
        if self.changes and self.model is not None:
            kept = set(written_by(form))
            schema["required"] = [name for name in schema.get("required", ()) if name not in kept]
            for name in kept & schema["properties"].keys():
                schema["properties"][name].pop("default", None)
        called = self.arguments(form)
        schema["properties"] = {called[name]: part for name, part in schema["properties"].items()}
        return schema

    def arguments(self, form: Any) -> dict[str, str]:
        return {name: self._renamed.get(name, name) for name in asked(form)}

    def by_field(self, given: Mapping[str, Any]) -> dict[str, Any]:
        fields = {argument: name for name, argument in self._renamed.items()}
        return {fields.get(argument, argument): value for argument, value in given.items()}

    def bind_form(self, ctx: Context, given: Mapping[str, Any], obj: Any) -> forms.BaseForm:
        """Return the bound and valid form. *obj* is its row, new or existing, or None.

        Raises:
            InvalidForm: the arguments or the form are invalid.
            ToolError: the call was approved for other rows than those chosen now.
        """
        form = self.made(ctx, self.by_field(given), obj)
        wrong, more = unknown(given, self.arguments(form).values())
        found = dict.fromkeys([*wrong, *self.check(ctx, form, self.by_field(given))])
        if found:
            raise InvalidForm(abridged([*found], more), form, abridged(wrong, more))
        return form

    def prefilled(self, ctx: Context, given: Mapping[str, Any], obj: Any) -> dict[str, Any]:
        """Return the values of some fields by field name, to fill in a page. The form as a whole is not validated.

        Raises:
            ArgumentError: an argument is unknown, or its value is not one of the field.
        """
        own = self.by_field(given)
        form = self.made(ctx, own, obj)
        mine = self.arguments(form)
        names = [mine[name] for name, field in asked(form).items() if may_prefill(field)]
        found, more = unknown(given, names)
        taken, _ = narrow(form, own, RowAccess(ctx))
        fill(form, taken, self.most_bytes)
        values, errors = cleaned(form, own)
        found += [_of_field(form.fields[name], error, mine[name], is_given=True) for name, error in errors.items()]
        if found:
            raise ArgumentError(abridged(found, more))
        return values

    def made(self, ctx: Context, given: Mapping[str, Any], obj: Any) -> forms.BaseForm:
        """Return the form of a call, which is bound but not validated."""
        options: dict[str, Any] = {**deepcopy(self._of_view)}

        def read() -> Any:
            options.update({} if self._kwargs is None else self._kwargs(ctx))
            return options.get("instance")

        instance = locked_again(read) if obj is None else read()
        if instance is None and options.get("instance") is not None:
            raise ToolError(NOTHING_TO_UPDATE)
        data: Data = Data()
        prefix = self._class.prefix if options.get("prefix") is None else options["prefix"]
        sent = as_sent(self._choices_at(ctx.server), given, RowAccess(ctx))
        for name, value in sent.items():  # some forms read the submitted data to create their fields
            put(data, f"{prefix}-{name}" if prefix else name, value)
        if obj is not None:
            options["instance"] = obj
        with _asking_managers():
            form: forms.BaseForm = _made(partial(self._class, data=data, files=Data()), options, self._of_view)
        return form

    def check(
        self, ctx: Context, form: Any, given: Mapping[str, Any], *, about: About = about_argument, of_call: bool = True
    ) -> list[str]:
        """Fill in and validate a form that was made with the same values; return its errors.

        Args:
            given: values by field name.
            about: returns the sentence about an argument.
            of_call: the values are arguments of the call, so that an approval holds for the rows that they choose.

        Raises:
            ToolError: the call was approved for other rows than those chosen now.
        """
        access = RowAccess(ctx)
        is_change = self.model is not None and not form.instance._state.adding  # noqa: SLF001 - Django's documented API
        mine = self.arguments(form)
        taken, rows = narrow(form, given, access)
        for name, row in rows.items() if of_call else ():
            require_same(ctx, mine[name], row)
        if is_change:
            keep(form, form.instance, given)
        fill(form, taken, self.most_bytes)
        found = list(problems(form, given, mine, about=about))
        if is_change and not found:
            keep_hidden(form, form.instance, given, access)
        return found

    def _choices_at(self, server: Any) -> Mapping[str, Choice]:
        if server not in self._choices:
            self.schema(server)
        return self._choices[server]

    def chosen(self, ctx: Context, given: Mapping[str, Any], obj: Any) -> dict[str, Any]:
        """Return the chosen rows that may later be different ones for the same arguments."""
        own = self.by_field(given)
        form = self.made(ctx, own, obj)
        called = self.arguments(form)
        return {called[name]: rows for name, rows in chosen(form, own, RowAccess(ctx)).items()}

    def forms(self, form: Any) -> list[forms.BaseForm]:
        return [form]

    def names(self, form: Any) -> list[str]:
        return [*asked(form)]

    def filled(self, form: Any, given: Mapping[str, Any]) -> Filled:
        return [(form, given)]


_ASKS_MANAGERS: ContextVar[bool] = ContextVar("asks_managers", default=False)


@contextmanager
def _asking_managers() -> Iterator[None]:
    token = _ASKS_MANAGERS.set(True)
    try:
        yield
    finally:
        _ASKS_MANAGERS.reset(token)


class CallersRows(QuerySet[Any]):
    """Rows that a form class offers: those that the model's default manager returns when a call makes a form.

    A form class is made once, possibly in the call of one tenant, and must not keep that tenant's rows for the others.
    Where no call makes it, the manager may have no rows at all and raise an error, as that of django-scopes does.
    """

    def all(self) -> Any:
        """Return the rows; fields call this whenever they are copied into a form."""
        return self.model._default_manager.all() if _ASKS_MANAGERS.get() else super().all()  # noqa: SLF001


def of_view(form_class: Any) -> Mapping[str, Any]:
    """Return the arguments that Django's ``FormMixin`` passes to every form, as far as the class takes them."""
    taken = inspect.signature(form_class).parameters.values()
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken)
    names = {parameter.name for parameter in taken}
    return {name: value for name, value in (("initial", {}), ("prefix", None)) if takes_all or name in names}


def _made(form_class: Callable[..., Any], options: Mapping[str, Any], usual: Collection[str]) -> Any:
    """Return a form, without those of the *usual* arguments that its class sets itself.

    Such as ``super().__init__(*args, initial={…}, **kwargs)``, which works in a site's own view.
    """
    failed: TypeError
    try:
        return form_class(**options)
    except TypeError as error:
        failed = error
    own = [
        name for name in usual if name in options and f"multiple values for keyword argument {name!r}" in str(failed)
    ]
    if not own:
        raise failed
    # Outside of the handler, in which Python words a second such error differently.
    return _made(form_class, {name: option for name, option in options.items() if name not in own}, usual)


def unbound(
    form_class: Any, label: str, given: Mapping[str, Any], *, has_arguments: bool, has_row: bool = False
) -> Any:
    """Return an unbound form to read fields from. A class that needs further arguments, or its row, is not called.

    Args:
        given: the keyword arguments that every form gets.
        has_arguments: calls give further ones.
        has_row: calls give the row to change.

    Raises:
        ImproperlyConfigured: it cannot be instantiated.
        DatabaseError, InterfaceError: the database is not available.
    """
    with queries() as asked:
        try:
            form = _made(form_class, deepcopy(given), given)
        except Error:
            raise
        except Exception as error:
            if not has_arguments and not (has_row and _takes_row(form_class, given)):
                msg = f"{label}: the form cannot be created without arguments ({error!r}); pass them with form_kwargs."
                raise ImproperlyConfigured(msg) from error
        else:
            if asked:
                _leave_rows_open(form, form_class.base_fields)
            return form
    return bare(form_class)


def _takes_row(form_class: Any, given: Mapping[str, Any]) -> bool:
    """Return True if the class can be called with data and a row and needs nothing else."""
    try:
        inspect.signature(form_class).bind(**given, data=None, files=None, instance=None)
    except TypeError:
        return False
    return True


def bare(form_class: Any) -> Any:
    """Return an unbound form without calling the ``__init__`` of its class, or making a row of its model.

    The latter calls the defaults of all columns, which may query the database or change rows.
    """
    return type(form_class)("Bare", (form_class,), {"__init__": forms.BaseForm.__init__})()


def _leave_rows_open(form: Any, declared: Mapping[str, forms.Field]) -> None:
    """Leave choices and initial values that came from the database out of the schema.

    They are those of one moment, and possibly of one caller.
    """
    for name, field in form.fields.items():
        before: Any = declared.get(name)
        choices, initial = getattr(field, "choices", None), form.initial.pop(name, field.initial)
        if isinstance(choices, list) and choices != getattr(before, "choices", None):
            field.choices = partial(list, choices)
        is_empty = not callable(initial) and initial in field.empty_values
        if not is_empty and (before is None or initial != before.initial):
            field.initial = partial(_same, initial)


def _same(value: Any) -> Any:
    return value


def words_of(form_class: type) -> str:
    """Return ``send invoice`` for ``SendInvoiceForm``."""
    return re.sub(r"(\s*\bform(\s?set)?)+$", "", camel_case_to_spaces(form_class.__name__)) or "form"


_COUNTS = ("TOTAL_FORMS", "INITIAL_FORMS", "MIN_NUM_FORMS", "MAX_NUM_FORMS")


class FormSetSource:
    """A formset class as the arguments of a tool. It creates rows and leaves existing ones unchanged.

    Args:
        form_kwargs: a function that takes the context and returns keyword arguments for each form.
        most_bytes: maximum size of a file.
        argument: name of the array; by default derived from the model or form.
        label: names the tool in configuration errors.

    Attributes:
        model: the parent model of an inline formset, or None.
    """

    def __init__(
        self,
        formset_class: Any,
        form_kwargs: Callable[[Context], Mapping[str, Any]] | None,
        most_bytes: int,
        argument: str | None,
        label: str,
    ) -> None:
        self._class, self._kwargs, self._most_bytes = formset_class, form_kwargs, most_bytes
        self._is_inline = issubclass(formset_class, forms.BaseInlineFormSet)
        self.model = formset_class.fk.remote_field.model if self._is_inline else None
        self.argument = argument or _plural(formset_class)
        self._label = label
        self._choices: dict[Any, Mapping[str, Choice]] = {}
        self._least = formset_class.min_num if formset_class.validate_min else 0
        most = formset_class.max_num if formset_class.validate_max else formset_class.absolute_max
        self._most = min(most, MAX_VALUES)

    def schema(self, server: Any) -> dict[str, Any]:
        """See ``FormSource.schema``."""
        prefix = {"prefix": f"{self._class.get_default_prefix()}-0"}
        form = unbound(self._class.form, self._label, prefix, has_arguments=self._kwargs is not None)
        self._class().add_fields(form, None)
        choices = self._choices[server] = choices_of(form, server)
        item = form_schema(form, self.names(form), self._most_bytes, declared(choices))
        array = {"type": "array", "items": item, "minItems": self._least, "maxItems": self._most}
        schema: dict[str, Any] = {"type": "object", "properties": {self.argument: array}}
        return {**schema, "required": [self.argument], "additionalProperties": False}

    def names(self, form: Any) -> list[str]:
        """Return the names of the fields of a bound form that callers set, without those that the set adds."""
        added = {DELETION_FIELD_NAME, ORDERING_FIELD_NAME}
        if issubclass(self._class, forms.BaseModelFormSet):
            added.add(self._class.model._meta.pk.name)  # noqa: SLF001 - Django's documented API
        if self._is_inline:
            added.add(self._class.fk.name)
        return [name for name in asked(form) if name not in added or name in form.base_fields]

    def bind_form(self, ctx: Context, given: Mapping[str, Any], obj: Any) -> Any:
        """See ``FormSource.bind_form``."""
        items: Any = given.get(self.argument)
        found, more = unknown(given, [self.argument])
        found += self._misfits(items, self.argument in given)
        if self._fits(items):
            formset = self._filled(ctx, items, obj)
            more += self._add_problems(found, formset, items)
        if found:
            raise ArgumentError(abridged(found, more))
        return formset

    def _misfits(self, items: Any, is_given: bool) -> Iterator[str]:
        if not is_given:
            yield missing_argument([self.argument])
        elif not isinstance(items, list):
            yield f"Argument {self.argument!r} must be an array of objects, not {kind_name(items)}."
        elif len(items) > self._most:
            yield f"Argument {self.argument!r} must have at most {self._most} items, not {len(items)}."
        else:
            for place, item in enumerate(items):
                if not isinstance(item, dict):
                    yield f"Argument {self._place(place)!r} must be an object, not {kind_name(item)}."

    def _fits(self, items: Any) -> bool:
        return isinstance(items, list) and len(items) <= self._most and all(isinstance(item, dict) for item in items)

    def _own(self, form: Any, item: Mapping[str, Any]) -> dict[str, Any]:
        names = self.names(form)
        return {name: value for name, value in item.items() if name in names}

    def _place(self, place: int) -> str:
        return f"{self.argument}[{place}]"

    def _made(self, ctx: Context, items: Sequence[Mapping[str, Any]], obj: Any) -> Any:
        prefix = self._class.get_default_prefix()
        counts = (len(items), 0, self._class.min_num, self._class.max_num)
        access, choices = RowAccess(ctx), self._choices_at(ctx.server)
        data: Data = Data({f"{prefix}-{name}": [count] for name, count in zip(_COUNTS, counts, strict=True)})
        for place, item in enumerate(items):
            for name, value in as_sent(choices, item, access).items():
                put(data, f"{prefix}-{place}-{name}", value)
        options: dict[str, Any] = {} if obj is None else {"instance": obj}
        if self._kwargs is not None:
            options["form_kwargs"] = dict(self._kwargs(ctx))
        return self._class(data=data, files=Data(), prefix=prefix, **options)

    def _filled(self, ctx: Context, items: Sequence[Mapping[str, Any]], obj: Any) -> Any:
        formset, access = self._made(ctx, items, obj), RowAccess(ctx)
        chosen_rows: list[dict[str, Any]] = []
        for place, (form, item) in enumerate(zip(formset.forms, items, strict=True)):
            own = self._own(form, item)
            for name in item.keys() - own.keys():  # unknown keys must not reach fields of the formset
                formset.data.pop(f"{formset.prefix}-{place}-{name}", None)
            taken, rows = narrow(form, own, access)
            chosen_rows.append(rows)
            fill(form, taken, self._most_bytes)
            form.empty_permitted = False
            # Save a given form even if it equals its initial values.
            form.has_changed = lambda: True
            if ORDERING_FIELD_NAME in form.fields:
                form.data[form.add_prefix(ORDERING_FIELD_NAME)] = place + 1
        if any(chosen_rows):
            require_same(ctx, self.argument, chosen_rows)
        return formset

    def _add_problems(self, found: list[str], formset: Any, items: Sequence[Mapping[str, Any]]) -> int:
        """Add the errors of the forms to *found*; return how many more there are."""
        others = 0
        for place, (form, item) in enumerate(zip(formset.forms, items, strict=True)):
            names = {name: name for name in self.names(form)}
            wrong, more = unknown(item, names, self._place(place), room=MAX_REPORTED - len(found))
            found += [*wrong, *problems(form, item, names, self._place(place))]
            others += more
        found += (in_words(error, self.argument) for error in formset.non_form_errors().as_data())
        return others

    def _choices_at(self, server: Any) -> Mapping[str, Choice]:
        if server not in self._choices:
            self.schema(server)
        return self._choices[server]

    def chosen(self, ctx: Context, given: Mapping[str, Any], obj: Any) -> dict[str, Any]:
        """See ``FormSource.chosen``. *obj* is the parent row of an inline formset, or None."""
        items: Any = given.get(self.argument)
        if not self._fits(items):
            return {}
        forms_and_items = zip(self._made(ctx, items, obj).forms, items, strict=True)
        found = [chosen(form, self._own(form, item), RowAccess(ctx)) for form, item in forms_and_items]
        return {self.argument: found} if any(found) else {}

    def forms(self, formset: Any) -> list[forms.BaseForm]:
        found: list[forms.BaseForm] = formset.forms
        return found

    def filled(self, formset: Any, given: Mapping[str, Any]) -> Filled:
        return list(zip(self.forms(formset), given[self.argument], strict=False))


def _plural(formset_class: Any) -> str:
    model = getattr(formset_class, "model", None)
    words = model._meta.verbose_name_plural if model is not None else f"{words_of(formset_class.form)}s"  # noqa: SLF001
    return slugify(words).replace("-", "_") or "items"
