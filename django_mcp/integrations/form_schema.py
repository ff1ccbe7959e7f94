"""Fields of forms as JSON Schema; their values from JSON and back; files.

A form checks what somebody typed, so it would make text of an object, or True of the word "maybe". What no page could
have sent is found here; all else is the form's to judge.

Labels and help texts stay lazy translations; they are told in the language of whoever lists the tools.
"""

import datetime
import html
import inspect
import mimetypes
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal, DecimalException
from types import MappingProxyType
from typing import Any

from django import forms
from django.contrib.auth import get_permission_codename
from django.core import validators
from django.core.exceptions import SuspiciousFileOperation, ValidationError
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db.models import Model, QuerySet
from django.forms.utils import pretty_name
from django.utils import timezone
from django.utils.choices import BaseChoiceIterator, BlankChoiceIterator
from django.utils.dateparse import parse_date, parse_datetime, parse_time
from django.utils.functional import Promise, keep_lazy_text
from django.utils.html import strip_tags
from pydantic_core import PydanticCustomError

from django_mcp.core.context import Context
from django_mcp.core.permissions import covers
from django_mcp.model_resources.bound_resource import rules_at
from django_mcp.model_resources.options import ACTIONS
from django_mcp.model_resources.schema import (
    MOST_DIGITS,
    MOST_TEXT,
    MOST_TOLD,
    MOST_VALUES,
    foreign_words,
    form_choices,
    is_foreign,
    is_json,
    json_type,
    moment,
    storable,
    to_json_value,
    without_nul,
)
from django_mcp.model_resources.writes import require_change
from django_mcp.primitives.markers import MOST_BYTES, Upload
from django_mcp.primitives.schema import LOCAL_TIME, ArgumentError, portable
from django_mcp.primitives.tool import ToolError
from django_mcp.primitives.validation_errors import about_argument, kind_name, size

FILE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "filename": {"type": "string", "minLength": 1},
        "content": {"type": "string", "contentEncoding": "base64"},
        "content_type": {"type": "string", "description": "Media type; by default told from the name."},
    },
    "required": ["filename", "content"],
    "additionalProperties": False,
}


def file_note(most_bytes: int = MOST_BYTES) -> str:
    """What the schema of a file cannot say."""
    return f"The file itself, not where it is; {size(most_bytes)} at most."


def file_argument(name: str, value: Any) -> SimpleUploadedFile:
    """The file that an argument is.

    Args:
        name: of the argument.
        value: of JSON.

    Raises:
        ArgumentError: it is none.
    """
    try:
        return read_file(value)
    except ValidationError as error:
        raise ArgumentError([about_argument([name], each) for each in error.messages]) from None


_MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+(?: *; *[\w.+-]+=[\w.+-]+)*", re.ASCII)


def read_file(value: Any, most_bytes: int = MOST_BYTES) -> SimpleUploadedFile:
    """A file, as a form takes it.

    Args:
        value: of JSON.
        most_bytes: how large it may be.

    Raises:
        ValidationError: it is none; the code is ``"kind"``.
    """
    if not isinstance(value, dict):
        raise _wrong(f"must be an object with 'filename' and 'content', not {kind_name(value)}.")
    known = FILE_SCHEMA["properties"]
    if wrong := sorted(value.keys() - known.keys()):
        raise _wrong(f"It has no {wrong[0][:100]!r}; it takes {', '.join(known)}.")
    name, content = (_required(value, key) for key in FILE_SCHEMA["required"])
    try:
        file = SimpleUploadedFile(_last_part(without_nul(name)), Upload(most_bytes).read(content))
    except PydanticCustomError as error:
        raise _wrong(f"Its 'content': {error.message()}.") from None
    except (SuspiciousFileOperation, ValueError):
        raise _wrong("Its 'filename' cannot be the name of a file.") from None
    told = value.get("content_type")
    is_type = isinstance(told, str) and _MEDIA_TYPE.fullmatch(told)
    file.content_type = told if is_type else mimetypes.guess_type(str(file.name))[0] or "application/octet-stream"
    return file


def _last_part(name: str) -> str:
    """The name without the folders that it had at the caller, as Django's parser of forms leaves it."""
    last = re.split(r"[/\\]", name)[-1].strip()
    return "".join(each for each in last if each.isprintable())


def _required(value: Mapping[str, Any], key: str) -> str:
    if not isinstance(value.get(key), str):
        raise _wrong(f"Its {key!r} must be there, and be a string.")
    text: str = value[key]
    return text


def _wrong(words: str) -> ValidationError:
    return ValidationError(words, code="kind")


class WritePermission:
    """A ``visible`` predicate that asks the models' declarations or, where there is none, for Django's permissions.

    Args:
        writes: models, each with what is done to its rows: ``"create"`` or ``"update"``.

    Attributes:
        also: a further predicate, or None.
    """

    def __init__(self, *writes: tuple[type[Model], str]) -> None:
        self._writes = writes
        self.also: Callable[[Context], Any] | None = None

    def __call__(self, ctx: Context) -> bool:
        """Return True if the caller may do all of it, as far as that does not depend on the row."""
        if not all(_allows(ctx, model, verb) for model, verb in self._writes):
            return False
        return self.also is None or bool(self.also(ctx))

    def require(self, ctx: Context, obj: Any) -> None:
        """See that the caller may write a row, changed or new, whichever it turned out to be.

        Raises:
            ToolError: they may not.
        """
        options, is_new = obj._meta, obj._state.adding  # noqa: SLF001 - Django's documented API
        if not _allows(ctx, type(obj), "create" if is_new else "update"):
            words = f"add {options.verbose_name_plural}" if is_new else f"change this {options.verbose_name}"
            raise ToolError(f"You may not {words}.")
        exposed = rules_at(ctx.server, type(obj))
        if exposed is not None and not is_new:
            require_change(exposed, ctx, obj)

    @property
    def words(self) -> str:
        """Say which permissions it asks for where the model has no declaration; ``mcp_inspect`` shows it."""
        return "wants the permission " + " and ".join(_permission(model, verb) for model, verb in self._writes)


def is_predicate(given: object) -> bool:
    """Return True if *given* can be asked whether a tool exists for a caller."""
    return callable(given) and not inspect.iscoroutinefunction(given)


def _allows(ctx: Context, model: type[Model], verb: str) -> bool:
    exposed = rules_at(ctx.server, model)
    if exposed is None:
        return ctx.user is not None and bool(ctx.user.has_perm(_permission(model, verb)))
    resource = exposed.resource
    scopes = frozenset((*resource.scopes, *resource.write_scopes))
    return covers(ctx.principal.scopes, scopes) and bool(resource.allows(verb, ctx.user))


def _permission(model: type[Model], verb: str) -> str:
    options = model._meta  # noqa: SLF001 - Django's documented API
    return f"{options.app_label}.{get_permission_codename(ACTIONS[verb], options)}"


def read(field: forms.Field, value: Any, most_bytes: int = MOST_BYTES) -> Any:
    """What *field* cleans in place of a value of JSON; None stands for an empty input.

    Args:
        field: of a form.
        value: of JSON.
        most_bytes: how large a file may be.

    Raises:
        ValidationError: it is of another kind than the field asks for.
    """
    if value is None:
        return None
    return read_file(value, most_bytes) if isinstance(field, forms.FileField) else kind_of(field).read(field, value)


@dataclass(frozen=True, slots=True)
class Kind:
    """What fields of one kind are in JSON.

    Attributes:
        type: the JSON type of its values, or several; None where it is not one of these.
        read: takes the field and a value that is not None.
        format: of text.
        example: of what is right, for a caller who gave something else.
    """

    type: str | list[str] | None
    read: Callable[[Any, Any], Any]
    format: str | None = None
    example: str | None = None


def kind_of(field: forms.Field) -> Kind:
    """The kind of a field; of one that nobody knows, what one can type."""
    if hasattr(field, "base_field"):  # an array of PostgreSQL's
        return _ARRAY
    return next((kind for classes, kind in _KINDS if isinstance(field, classes)), TYPED)


def _require(value: Any, types: tuple[type, ...], wanted: str) -> None:
    if type(value) not in types:
        raise ValidationError(f"must be {wanted}, not {kind_name(value)}.", code="kind")


def _text(_: Any, value: Any) -> str:
    _require(value, (str,), "a string")
    _require_storable(value)
    text: str = value
    return text


def _require_storable(text: str) -> None:
    if len(text) > MOST_TEXT:
        raise ValidationError(f"must have at most {MOST_TEXT} characters, not {len(text)}.", code="kind")
    try:
        without_nul(text)
    except ValueError as error:
        raise ValidationError(f"{error}.", code="kind") from None


def _read_number(field: Any, value: Any) -> Any:
    _require(value, (int, float, str), "a number")
    try:
        number = Decimal(str(value).strip()) if len(str(value)) <= MOST_TEXT else None
    except DecimalException:
        return _text(field, value)  # perhaps with the separators of a language; the form knows
    if number is None or (number.is_finite() and abs(number.adjusted()) > MOST_DIGITS):
        raise ValidationError("must not be that large or small.", code="kind")
    return number if field.localize else value


def _yes_or_no(_: Any, value: Any) -> bool:
    if isinstance(value, str) and value.strip().lower() in {"true", "false"}:
        return value.strip().lower() == "true"
    _require(value, (bool,), "true or false")
    return bool(value)


def _choice(_: Any, value: Any) -> Any:
    _require(value, (str, int, float, bool), "one of the choices")
    if isinstance(value, str):
        _require_storable(value)
    return value


def _key(field: Any, value: Any) -> Any:
    _require(value, (str, int), "the key of one")
    return _choice(field, value)


def _several(one: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def read_each(field: Any, value: Any) -> list[Any]:
        _require(value, (list,), "an array")
        if len(value) > MOST_VALUES:
            raise ValidationError(f"must have at most {MOST_VALUES} entries, not {len(value)}.", code="kind")
        return [one(field, each) for each in value]

    return read_each


def _items(field: Any, value: Any) -> list[Any]:
    return [read(field.base_field, each) for each in _several(lambda _, each: each)(field, value)]


def _value_parts(field: Any, value: Any) -> list[Any]:
    _require(value, (list,), "an array")
    if len(value) > len(field.fields):
        raise ValidationError(f"must have at most {len(field.fields)} entries, not {len(value)}.", code="kind")
    return [read(part, each) for part, each in zip(field.fields, value, strict=False)]


def _parsed(parse: Callable[[str], Any]) -> Callable[[Any, Any], Any]:
    """In ISO 8601, whatever ways of writing the form knows besides."""

    def read_text(field: Any, value: Any) -> Any:
        text = _text(field, value)
        try:
            return parse(text.strip()) or text
        except ValueError:
            return text

    return read_text


def _moment(text: str) -> datetime.datetime | None:
    found = parse_datetime(text)
    if found is None:
        return None
    try:
        known = moment(found)
    except ValueError as error:
        raise ValidationError(f"{error}.", code="kind") from None
    return found if timezone.is_naive(found) else known  # without an offset, the form knows in which time zone it is


def _split_moment(field: Any, value: Any) -> Any:
    found = _parsed(_moment)(field, value)
    if isinstance(found, str):
        raise ValidationError("Enter a valid date and time.", code="invalid")
    return forms.SplitDateTimeWidget().decompress(found)


def _json(field: Any, value: Any) -> Any:
    try:
        storable(value)
    except ValueError as error:
        raise ValidationError(f"{error}.", code="kind") from None
    return field.prepare_value(value)  # in forms JSON is text


TYPED = Kind(["string", "number", "boolean"], _choice)
"""The kind of a field whose class is not known: its value is typed as text."""
_ARRAY = Kind("array", _items)
_KEYS = Kind("array", _several(_key))
_DATE = Kind("string", _parsed(parse_date), "date", "2026-05-31")
_DATETIME = Kind("string", _parsed(_moment), "date-time", "2026-05-31T18:30:00+02:00")
_NUMBER = Kind("number", _read_number)

_KINDS: tuple[tuple[Any, Kind], ...] = (
    (forms.FileField, Kind("object", lambda _, value: read_file(value))),
    (forms.SplitDateTimeField, Kind("string", _split_moment, _DATETIME.format, _DATETIME.example)),
    (forms.MultiValueField, Kind("array", _value_parts)),
    (forms.JSONField, Kind(None, _json)),
    (forms.ModelMultipleChoiceField, _KEYS),
    (forms.ModelChoiceField, Kind(None, _key)),
    (forms.MultipleChoiceField, Kind("array", _several(_choice))),
    (forms.BooleanField, Kind("boolean", _yes_or_no)),
    (forms.ChoiceField, Kind(None, _choice)),
    (forms.DecimalField, Kind(["number", "string"], _read_number)),
    (forms.FloatField, _NUMBER),
    (forms.IntegerField, Kind("integer", _read_number)),
    (forms.DateTimeField, _DATETIME),
    (forms.DateField, _DATE),
    (forms.TimeField, Kind("string", _parsed(parse_time), None, "18:30:00")),
    (forms.DurationField, Kind("string", _text, "duration", "P3DT2H30M, or 2:30:00")),
    (forms.UUIDField, Kind("string", _text, "uuid", "b7c6e1a4-4f0e-4c5b-9a53-3c1d7f1f9e10")),
    (forms.EmailField, Kind("string", _text, "email")),
    (forms.URLField, Kind("string", _text, "uri")),
    ((forms.CharField, forms.ComboField), Kind("string", _text)),
)
"""The first that fits counts: most of these are text or choices too."""


MOST_LABELS = 50
"""Labels of choices beyond these are not told: the values have to speak for themselves."""
_MOST_PATTERN = 200
NOTHING: Mapping[str, Any] = MappingProxyType({})


def asked(form: forms.BaseForm) -> dict[str, forms.Field]:
    """The fields that somebody fills in."""
    return {name: field for name, field in form.fields.items() if not field.disabled}


def form_schema(
    form: forms.BaseForm, names: Iterable[str], most_bytes: int, by: Mapping[str, Any] = NOTHING
) -> dict[str, Any]:
    """JSON Schema of an object with a value for each of the fields *names*.

    Args:
        form: not bound.
        names: of fields of the form.
        most_bytes: how large a file may be.
        by: name of a field that chooses rows -> the column by which they are given, in place of its own. Its initial
            value is not told: it is a primary key, of a row that not everybody may see.
    """
    properties, required = {}, []
    for name in names:
        field: Any = form.fields[name]
        if name in by:
            field.to_field_name = by[name].name
        properties[name] = described(name, field, _columns(form).get(name), most_bytes)
        initial = form.initial.get(name, field.initial)
        if (
            name not in by
            and foreign_column(form, name) is None
            and not callable(initial)
            and (default := _default(field, initial, properties[name])) is not None
        ):
            properties[name]["default"] = default
        if field.required and not callable(initial) and initial in field.empty_values:
            required.append(name)
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": required} if required else schema


def _columns(form: Any) -> Mapping[str, Any]:
    """Of a form for a model, the columns that its own fields are written into."""
    options: Any = getattr(form, "_meta", None)
    if getattr(options, "model", None) is None:
        return {}
    return {each.name: each for each in options.model._meta.fields if each.name not in form.declared_fields}  # noqa: SLF001


def foreign_column(form: Any, name: str) -> Any:
    """Return the column of another package's class that says what a field of a form for a model takes; None where the
    field's own class does.
    """
    column = _columns(form).get(name)
    return column if _is_read_by(column, form.fields[name]) else None


def _is_read_by(column: Any, field: Any) -> bool:
    return column is not None and kind_of(field) is TYPED and is_foreign(column)


def described(name: str, field: forms.Field, column: Any, most_bytes: int) -> dict[str, Any]:
    """JSON Schema of one field, with its words."""
    schema = field_schema(field, column)
    # What repeats the name tells nothing and costs tokens in every list.
    if field.label and (isinstance(field.label, Promise) or field.label != pretty_name(name)):
        schema["title"] = _plain(field.label)
    notes = [field.help_text, *_notes(field, schema)]
    if _is_read_by(column, field):
        notes.insert(0, foreign_words(column))
    if isinstance(field, forms.FileField):
        notes.append(file_note(most_bytes))
    if any(notes):
        schema["description"] = _plain(*(note for note in notes if note))
    return schema


def field_schema(field: Any, column: Any = None) -> dict[str, Any]:
    """JSON Schema of the values of a field, without words.

    Args:
        field: of a form.
        column: of a model, whose limits the form has to keep as well.
    """
    if _is_read_by(column, field):
        return {} if is_json(column) else {"type": "string"}
    kind = kind_of(field)
    schema = {key: value for key, value in (("type", kind.type), ("format", kind.format)) if value is not None}
    if getattr(field.widget, "input_type", None) == "password":
        schema["format"] = "password"
    if hasattr(field, "base_field"):  # an array of PostgreSQL's
        return {**schema, "items": field_schema(field.base_field), **_sizes(field)}
    for classes, shape in _SHAPES:
        if isinstance(field, classes):
            return {**schema, **shape(field)}
    checks = [*field.validators, *(column.validators if column is not None else ())]
    return {**schema, **_limits(field, checks, schema)}


def _sizes(field: Any) -> dict[str, Any]:
    return {**({"minItems": 1} if field.required else {}), "maxItems": MOST_VALUES}


def _key_type(field: Any) -> dict[str, Any]:
    # Some forms only know for whom they are made which rows there are.
    return {"type": ["integer", "string"]} if field.queryset is None else json_type(key_column(field))


def key_column(field: Any) -> Any:
    """The column by which a field chooses among rows."""
    options = field.queryset.model._meta  # noqa: SLF001 - Django's documented API
    return options.pk if field.to_field_name in {None, "", "pk"} else options.get_field(field.to_field_name)


def _parts(field: Any) -> dict[str, Any]:
    if isinstance(field, forms.SplitDateTimeField):
        return {}
    least = len(field.fields) if field.required and field.require_all_fields else 0
    parts = [field_schema(each) for each in field.fields]
    return portable({"type": "array", "prefixItems": parts, "minItems": least, "maxItems": len(parts)})  # type: ignore[no-any-return]


def _each_of(field: Any) -> dict[str, Any]:
    return {key: value for part in field.fields for key, value in field_schema(part).items()}


def _one_of(field: Any, *, blank: bool) -> dict[str, Any]:
    values = [value for value, _ in form_choices(field) if value != ""]
    if not values:
        return {"type": "string"}
    values = list(dict.fromkeys([*values, *([""] if blank else [])]))
    types = {type(value) for value in values}
    return {"type": "string", "enum": values} if types == {str} else {"enum": values}


_SHAPES: tuple[tuple[Any, Callable[[Any], dict[str, Any]]], ...] = (
    (forms.FileField, lambda _: FILE_SCHEMA),
    (forms.MultiValueField, _parts),
    (forms.TimeField, lambda _: LOCAL_TIME),
    (forms.ComboField, _each_of),
    (forms.ModelMultipleChoiceField, lambda field: {"items": _key_type(field), **_sizes(field)}),
    (forms.ModelChoiceField, _key_type),
    (forms.MultipleChoiceField, lambda field: {"items": _one_of(field, blank=False), **_sizes(field)}),
    (forms.NullBooleanField, lambda _: {"type": ["boolean", "null"]}),
    (forms.BooleanField, lambda field: {"const": True} if field.required else {}),
    (forms.ChoiceField, lambda field: _one_of(field, blank=not field.required)),
)
"""The first that fits counts."""

_OF_TEXT = ((validators.MinLengthValidator, "minLength", max), (validators.MaxLengthValidator, "maxLength", min))
_OF_NUMBERS = ((validators.MinValueValidator, "minimum", max), (validators.MaxValueValidator, "maximum", min))


def _limits(field: Any, checks: Iterable[Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """What validators say that JSON Schema can say too; it compares no dates."""
    found: dict[str, Any] = {}
    is_text = schema.get("type") == "string"
    if is_text and schema.get("format") in {None, "password"} and field.required:
        found["minLength"] = 1
    for check in checks:
        limit = getattr(check, "limit_value", None)
        if type(check) is validators.RegexValidator and is_text and (pattern := _pattern(check)):
            found["pattern"] = pattern
        elif limit is None or callable(limit) or _is_no_limit(limit):
            continue
        elif isinstance(check, validators.StepValueValidator):
            found |= {"multipleOf": _number(limit)} if _is_multiple(check) else {}
        for kind, key, narrower in _OF_TEXT if is_text else _OF_NUMBERS:
            if isinstance(check, kind):
                found[key] = narrower(_number(limit), found.get(key, _number(limit)))
    return found


def _is_no_limit(limit: Any) -> bool:
    """Whether it is so far away that only databases mind."""
    return isinstance(limit, int | float | Decimal) and abs(float(limit)) >= MOST_TOLD


def _number(limit: Any) -> int | float:
    return limit if isinstance(limit, int) else int(limit) if limit == int(limit) else float(limit)


def _is_multiple(check: Any) -> bool:
    """Whether the steps are whole, and counted from zero; with parts of one, readers would round differently."""
    return check.limit_value == int(check.limit_value) and not (check.offset or 0) % check.limit_value


def _pattern(check: Any) -> str | None:
    """A regular expression that every reader of JSON Schema reads alike, or None."""
    found: str = check.regex.pattern
    found = found.replace(r"\Z", "$").replace(r"\A", "^")
    is_special = check.inverse_match or check.regex.flags & ~re.UNICODE or re.search(r"\(\?(?!:)|\\[aefG-KX-Z]", found)
    return None if is_special or len(found) > _MOST_PATTERN else found


# Words


def _notes(field: Any, schema: Mapping[str, Any]) -> Iterable[Any]:
    """What JSON Schema cannot say."""
    if isinstance(field, forms.ModelChoiceField) and field.queryset is not None:
        options = field.queryset.model._meta  # noqa: SLF001 - Django's documented API
        many = isinstance(field, forms.ModelMultipleChoiceField)
        called = options.verbose_name_plural if many else options.verbose_name
        column = key_column(field)
        yield _by_key(called, "primary key" if column.primary_key else column.name)
    elif isinstance(field, forms.ChoiceField) and _is_known_later(field):
        yield "What can be chosen is looked up in each call; an error names it."
    elif isinstance(field, forms.ChoiceField):
        told = [(value, label) for value, label in form_choices(field) if value != "" and _tells_more(value, label)]
        if 0 < len(told) <= MOST_LABELS:
            values, labels = zip(*told, strict=True)
            yield _labelled(values, *labels)
    if isinstance(field, forms.DecimalField):
        parts = {"max_digits": "digits", "decimal_places": "decimal places"}
        for attribute, words in parts.items():
            if (most := getattr(field, attribute)) is not None:
                yield f"At most {most} {words}."
    step = getattr(field, "step_size", None)
    if step is not None and "multipleOf" not in schema:
        start = f" from {field.min_value}" if field.min_value is not None else ""
        yield f"In steps of {step}{start}."
    if isinstance(field, forms.BooleanField) and schema.get("const"):
        yield "It must be true."


def _is_known_later(field: Any) -> bool:
    choices = field.choices
    if isinstance(choices, BlankChoiceIterator):
        choices = choices.choices
    return isinstance(choices, BaseChoiceIterator)


def _tells_more(value: Any, label: Any) -> bool:
    return isinstance(label, Promise) or str(label).casefold() != str(value).replace("_", " ").casefold()


@keep_lazy_text
def _by_key(called: str, key: str) -> str:
    return f"Which {called}, by {key}."


def _labelled(values: Iterable[Any], *labels: Any) -> Any:
    @keep_lazy_text
    def joined(*words: str) -> str:
        return f"{'; '.join(f'{value}: {word}' for value, word in zip(values, words, strict=True))}."

    return joined(*labels)


@keep_lazy_text
def _plain(*notes: Any) -> str:
    return " ".join(html.unescape(strip_tags(str(note))).strip() for note in notes)


def _default(field: Any, initial: Any, schema: Mapping[str, Any]) -> Any:
    """An initial value in JSON; None where there is none that JSON could give."""
    if initial in field.empty_values or isinstance(initial, QuerySet) or schema.get("format") == "password":
        return None
    value = to_json_value(initial if isinstance(field, forms.JSONField) else field.prepare_value(initial))
    if isinstance(field, forms.FileField | forms.MultiValueField):
        return None if schema.get("format") != "date-time" else value
    if "enum" in schema:
        return next((each for each in schema["enum"] if str(each) == str(value)), None)
    return value
