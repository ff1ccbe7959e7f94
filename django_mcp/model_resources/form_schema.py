"""Form fields as JSON Schema, conversion of JSON to what they clean, and uploaded files.

Forms expect text from a browser and would convert an object to text or "maybe" to True. Values of a wrong JSON type are
therefore rejected here; everything else is validated by the form.

Labels and help texts stay lazy, to be translated for each caller.
"""

import datetime
import mimetypes
import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal, DecimalException
from types import MappingProxyType
from typing import Any

from django import forms
from django.core.exceptions import SuspiciousFileOperation, ValidationError
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db.models import CharField, QuerySet, TextField
from django.forms.utils import pretty_name
from django.utils import timezone
from django.utils.choices import BaseChoiceIterator, BlankChoiceIterator
from django.utils.dateparse import parse_date, parse_datetime, parse_time
from django.utils.functional import Promise, keep_lazy_text
from django.utils.text import capfirst
from pydantic_core import PydanticCustomError

from django_mcp.model_resources.schema import (
    MAX_DIGITS,
    MAX_TEXT,
    MAX_VALUES,
    foreign_words,
    form_choices,
    has_default,
    is_foreign,
    json_type,
    moment,
    require_storable,
    to_json_value,
    without_nul,
    written_value,
)
from django_mcp.primitives.compatibility import portable
from django_mcp.primitives.field_schema import (
    choice_schema,
    choice_words,
    custom_type,
    digit_words,
    limits,
    nullable,
    plain_text,
    schema_of,
)
from django_mcp.primitives.markers import MAX_BYTES, Upload
from django_mcp.primitives.schema import ArgumentError
from django_mcp.primitives.validation_errors import about_argument, kind_name, size

FILE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "filename": {"type": "string", "minLength": 1},
        "content": {"type": "string", "contentEncoding": "base64"},
        "content_type": {"type": "string", "description": "Media type. By default guessed from filename."},
    },
    "required": ["filename", "content"],
    "additionalProperties": False,
}


def file_note(most_bytes: int = MAX_BYTES) -> str:
    return f"The file's content, not a path or URL. At most {size(most_bytes)}."


def file_argument(name: str, value: Any) -> SimpleUploadedFile:
    """Return the file that the argument *name* holds.

    Raises:
        ArgumentError: *value* is not a file.
    """
    try:
        return read_file(value)
    except ValidationError as error:
        raise ArgumentError([about_argument([name], message) for message in error.messages]) from None


_MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+(?: *; *[\w.+-]+=[\w.+-]+)*", re.ASCII)


def read_file(value: Any, most_bytes: int = MAX_BYTES) -> SimpleUploadedFile:
    """Return a JSON value as the file that a form expects, of at most *most_bytes*.

    Raises:
        ValidationError: it is not a file; the code is ``"kind"``.
    """
    if not isinstance(value, dict):
        raise _wrong(f"must be an object with 'filename' and 'content', not {kind_name(value)}.")
    known = FILE_SCHEMA["properties"]
    if wrong := sorted(value.keys() - known.keys()):
        raise _wrong(f"unknown key {wrong[0][:100]!r}; the keys are {', '.join(known)}.")
    name, content = (_required(value, key) for key in FILE_SCHEMA["required"])
    try:
        file = SimpleUploadedFile(_last_part(without_nul(name)), Upload(most_bytes).read(content))
    except PydanticCustomError as error:
        raise _wrong(f"its 'content': {error.message()}.") from None
    except (SuspiciousFileOperation, ValueError):
        raise _wrong("its 'filename' is not a valid file name.") from None
    media_type = value.get("content_type")
    is_type = isinstance(media_type, str) and _MEDIA_TYPE.fullmatch(media_type)
    file.content_type = media_type if is_type else mimetypes.guess_type(str(file.name))[0] or "application/octet-stream"
    return file


def _last_part(name: str) -> str:
    # As Django's multipart parser does.
    last = re.split(r"[/\\]", name)[-1].strip()
    return "".join(character for character in last if character.isprintable())


def _required(value: Mapping[str, Any], key: str) -> str:
    if not isinstance(value.get(key), str):
        raise _wrong(f"its {key!r} is required and must be a string.")
    text: str = value[key]
    return text


def _wrong(words: str) -> ValidationError:
    return ValidationError(words, code="kind")


def read_value(field: forms.Field, value: Any, most_bytes: int = MAX_BYTES) -> Any:
    """Return the value for *field* to clean in place of a JSON value. None stands for an empty input.

    Raises:
        ValidationError: the JSON type is wrong for the field, or a file exceeds *most_bytes*.
    """
    if value is None:
        return None
    if isinstance(field, forms.FileField):
        return read_file(value, most_bytes)
    return (reader_of(field) or _choice)(field, value)  # an unknown class takes what can be typed


def is_array_field(field: Any) -> bool:
    # In the field of a range, base_field is a class.
    return isinstance(getattr(field, "base_field", None), forms.Field)


Reader = Callable[[Any, Any], Any]
"""Takes a field and a value other than None."""


def reader_of(field: forms.Field) -> Reader | None:
    if (custom := custom_type(field)) is not None and custom.from_json is not None:
        return _custom
    if is_array_field(field):
        return _items
    return next((_READERS[kind] for kind in type(field).__mro__ if kind in _READERS), None)


def _custom(field: Any, value: Any) -> Any:
    custom = custom_type(field)
    try:
        return custom.from_json(value)  # type: ignore[union-attr, misc]
    except ValueError as error:
        raise ValidationError(f"{error}.", code="kind") from None


def _require(value: Any, types: tuple[type, ...], wanted: str) -> None:
    if type(value) not in types:
        raise ValidationError(f"must be {wanted}, not {kind_name(value)}.", code="kind")


def _text(_: Any, value: Any) -> str:
    _require(value, (str,), "a string")
    _require_storable(value)
    text: str = value
    return text


def _require_storable(text: str) -> None:
    if len(text) > MAX_TEXT:
        raise ValidationError(f"must have at most {MAX_TEXT} characters, not {len(text)}.", code="kind")
    try:
        without_nul(text)
    except ValueError as error:
        raise ValidationError(f"{error}.", code="kind") from None


def _read_number(field: Any, value: Any) -> Any:
    _require(value, (int, float, str), "a number")
    try:
        number = Decimal(str(value).strip()) if len(str(value)) <= MAX_TEXT else None
    except DecimalException:
        return _text(field, value)  # may be localized, which the form can parse
    if number is None or (number.is_finite() and abs(number.adjusted()) > MAX_DIGITS):
        raise ValidationError(f"must have a decimal exponent from -{MAX_DIGITS} to {MAX_DIGITS}.", code="kind")
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
    _require(value, (str, int), "a key (a string or an integer)")
    return _choice(field, value)


def _several(one: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def read_each(field: Any, value: Any) -> list[Any]:
        _require(value, (list,), "an array")
        if len(value) > MAX_VALUES:
            raise ValidationError(f"must have at most {MAX_VALUES} items, not {len(value)}.", code="kind")
        return [one(field, entry) for entry in value]

    return read_each


def _items(field: Any, value: Any) -> list[Any]:
    return [read_value(field.base_field, entry) for entry in _several(lambda _, entry: entry)(field, value)]


def _value_parts(field: Any, value: Any) -> list[Any]:
    _require(value, (list,), "an array")
    if len(value) > len(field.fields):
        raise ValidationError(f"must have at most {len(field.fields)} items, not {len(value)}.", code="kind")
    return [read_value(part, entry) for part, entry in zip(field.fields, value, strict=False)]


def _parsed(parse: Callable[[str], Any]) -> Callable[[Any, Any], Any]:
    # Other text is left to the form.
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
    return found if timezone.is_naive(found) else known  # without an offset, the form applies its time zone


def _clock(text: str) -> datetime.time | None:
    found = parse_time(text)
    if found is not None and datetime.time.fromisoformat(text).tzinfo is not None:
        raise ValidationError("must not have a UTC offset.", code="kind")
    return found


def _split_moment(field: Any, value: Any) -> Any:
    found = _parsed(_moment)(field, value)
    if isinstance(found, str):
        raise ValidationError("Enter a valid date and time.", code="invalid")
    return forms.SplitDateTimeWidget().decompress(found)


def _json(field: Any, value: Any) -> Any:
    try:
        require_storable(value)
    except ValueError as error:
        raise ValidationError(f"{error}.", code="kind") from None
    return field.prepare_value(value)  # JSONField expects text


_READERS: Mapping[type[forms.Field], Reader] = {
    forms.FileField: lambda _, value: read_file(value),
    forms.SplitDateTimeField: _split_moment,
    forms.MultiValueField: _value_parts,
    forms.JSONField: _json,
    forms.ModelMultipleChoiceField: _several(_key),
    forms.ModelChoiceField: _key,
    forms.MultipleChoiceField: _several(_choice),
    forms.BooleanField: _yes_or_no,
    forms.ChoiceField: _choice,
    forms.IntegerField: _read_number,
    forms.DateTimeField: _parsed(_moment),
    forms.DateField: _parsed(parse_date),
    forms.TimeField: _parsed(_clock),
    forms.DurationField: _text,
    forms.CharField: _text,
    forms.ComboField: _text,
}

NOTHING: Mapping[str, Any] = MappingProxyType({})


def editable_fields(form: forms.BaseForm) -> dict[str, forms.Field]:
    return {name: field for name, field in form.fields.items() if not field.disabled}


def form_schema(
    form: forms.BaseForm, names: Iterable[str], most_bytes: int, by: Mapping[str, Any] = NOTHING
) -> dict[str, Any]:
    """Return the JSON Schema of an object with the fields *names* of an unbound form.

    Args:
        most_bytes: maximum size of a file.
        by: the columns by which fields choose rows, if not by their own. The initial value of such a field is left out:
            it is the primary key of a row that the caller may not see.
    """
    properties, required = {}, []
    for name in names:
        field: Any = form.fields[name]
        if name in by:
            field.to_field_name = by[name].name
        column = _columns(form).get(name)
        properties[name] = describe_field(name, field, column, most_bytes)
        if column is not None and column.null and not field.required:
            properties[name] = nullable(properties[name])
        initial = form.initial.get(name, field.initial)
        if (
            name not in by
            and foreign_column(form, name) is None
            and not callable(initial)
            and (default := _default(field, initial, properties[name])) is not None
        ):
            properties[name]["default"] = default
        has_value = callable(initial) or initial not in field.empty_values
        if field.required and not has_value and not (column is not None and has_default(column)):
            required.append(name)
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": required} if required else schema


def _columns(form: Any) -> Mapping[str, Any]:
    options: Any = getattr(form, "_meta", None)
    if getattr(options, "model", None) is None:
        return {}
    return {column.name: column for column in options.model._meta.fields if column.name not in form.declared_fields}  # noqa: SLF001


def model_column(form: Any, name: str) -> Any:
    return _columns(form).get(name)


def initial_value(form: Any, name: str) -> Any:
    """Return the initial value of a field, that of a text as it is written."""
    field = form.fields[name]
    initial = form.get_initial_for_field(field, name)
    if not isinstance(form, forms.ModelForm) or not isinstance(field, forms.CharField):
        return initial
    options = form._meta.model._meta  # noqa: SLF001 - Django's documented API
    column = next((candidate for candidate in options.concrete_fields if candidate.name == name), None)
    return initial if column is None or isinstance(field, forms.JSONField) else written_value(column, initial)


def foreign_column(form: Any, name: str) -> Any:
    """Return the column of a package's own class that parses the values of a form field, or None."""
    column = model_column(form, name)
    return column if _is_read_by(column, form.fields[name]) else None


def _is_read_by(column: Any, field: Any) -> bool:
    if column is None or custom_type(field) is not None:
        return False
    return is_foreign(column) or custom_type(column) is not None or _is_text_in_parts(column, field)


def _is_text_in_parts(column: Any, field: Any) -> bool:
    # Callers know neither the number of the inputs nor their order.
    is_own = not type(column).to_python.__module__.startswith("django.")
    return is_own and isinstance(column, TextField | CharField) and isinstance(field, forms.MultiValueField)


def describe_field(name: str, field: forms.Field, column: Any, most_bytes: int) -> dict[str, Any]:
    schema = field_schema(field, column)
    # A title that repeats the name only costs tokens.
    if field.label and (isinstance(field.label, Promise) or field.label != pretty_name(name)):
        schema["title"] = plain_text(field.label)
    notes = [field.help_text, *_notes(field, schema)]
    if _is_read_by(column, field) and custom_type(column) is None:
        notes.insert(0, foreign_words(column))
    if isinstance(field, forms.FileField):
        notes.append(file_note(most_bytes))
    if any(notes):
        schema["description"] = plain_text(*(note for note in notes if note))
    return schema


def field_schema(field: Any, column: Any = None, *, call: bool = False) -> dict[str, Any]:
    """Return the JSON Schema of a field's values, without descriptions. The limits of *column* apply as well.

    *call* evaluates callable limits, which are otherwise left out.
    """
    if _is_read_by(column, field):
        return schema_of(column) or json_type(column)
    if custom_type(field) is not None:
        return schema_of(field) or {}
    known = schema_of(field)
    schema = _UNKNOWN if known is None else known
    if getattr(field.widget, "input_type", None) == "password":
        schema = {**schema, "format": "password"}
    if is_array_field(field):
        return _array(field, field_schema(field.base_field))
    for classes, shape in _SHAPES:
        if isinstance(field, classes):
            return shape(field)
    checks = [*field.validators, *(column.validators if column is not None else ())]
    return {**schema, **limits(schema, checks, is_required=field.required, call=call)}


_UNKNOWN = {"type": ["string", "number", "boolean"]}
"""What can be typed into a field of an unknown class."""


def _array(field: Any, items: dict[str, Any]) -> dict[str, Any]:
    least = {"minItems": 1} if field.required else {}
    return {"type": "array", "items": items, **least, "maxItems": MAX_VALUES}


def _key_type(field: Any) -> dict[str, Any]:
    # Some forms only set the queryset when they are created for a caller.
    return {"type": ["integer", "string"]} if field.queryset is None else json_type(key_column(field))


def key_column(field: Any) -> Any:
    options = field.queryset.model._meta  # noqa: SLF001 - Django's documented API
    return options.pk if field.to_field_name in {None, "", "pk"} else options.get_field(field.to_field_name)


def _parts(field: Any) -> dict[str, Any]:
    if isinstance(field, forms.SplitDateTimeField):
        return schema_of(field) or {}
    least = len(field.fields) if field.required and field.require_all_fields else 0
    parts = [field_schema(part) for part in field.fields]
    return portable({"type": "array", "prefixItems": parts, "minItems": least, "maxItems": len(parts)})  # type: ignore[no-any-return]


def _each_of(field: Any) -> dict[str, Any]:
    return {key: value for part in field.fields for key, value in field_schema(part).items()}


def _one_of(field: Any, *, blank: bool) -> dict[str, Any]:
    values = [value for value, _ in form_choices(field) if value != ""]
    if not values:
        return {"type": "string"}
    return choice_schema(dict.fromkeys([*values, *([""] if blank else [])]))


_SHAPES: tuple[tuple[Any, Callable[[Any], dict[str, Any]]], ...] = (
    (forms.FileField, lambda _: FILE_SCHEMA),
    (forms.MultiValueField, _parts),
    (forms.ComboField, _each_of),
    (forms.ModelMultipleChoiceField, lambda field: _array(field, _key_type(field))),
    (forms.ModelChoiceField, _key_type),
    (forms.MultipleChoiceField, lambda field: _array(field, _one_of(field, blank=False))),
    (forms.ChoiceField, lambda field: _one_of(field, blank=not field.required)),
)
"""The first match applies."""

# Descriptions


def _notes(field: Any, schema: Mapping[str, Any]) -> Iterable[Any]:
    if isinstance(field, forms.ModelChoiceField) and field.queryset is not None:
        options = field.queryset.model._meta  # noqa: SLF001 - Django's documented API
        many = isinstance(field, forms.ModelMultipleChoiceField)
        column = key_column(field)
        key = "primary key" if column.primary_key else column.name
        yield _key_words(key, "each" if many else "the", options.verbose_name)
    elif isinstance(field, forms.ChoiceField) and _is_known_later(field):
        yield "The choices are known only at call time. An invalid value returns an error that lists them."
    elif isinstance(field, forms.ChoiceField):
        yield choice_words(form_choices(field))
    yield from limit_notes(field, schema)


def limit_notes(field: Any, schema: Mapping[str, Any]) -> Iterable[Any]:
    """Yield descriptions of the limits of a value that JSON Schema cannot express."""
    yield from digit_words(field)
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


@keep_lazy_text
def _key_words(key: str, article: str, called: str) -> str:
    return f"{capfirst(key)} of {article} {called}."


def _default(field: Any, initial: Any, schema: Mapping[str, Any]) -> Any:
    if initial in field.empty_values or isinstance(initial, QuerySet) or schema.get("format") == "password":
        return None
    value = to_json_value(initial if isinstance(field, forms.JSONField) else field.prepare_value(initial))
    if isinstance(field, forms.FileField | forms.MultiValueField):
        return None if schema.get("format") != "date-time" else value
    if "enum" in schema:
        return next((option for option in schema["enum"] if str(option) == str(value)), None)
    return value
