"""The JSON Schema of an operation's input: body, serializers and query parameters.

The schema is for whoever writes the call. Values are checked by the serializer, and by nothing else.
"""

import ast
import inspect
import logging
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache, singledispatch
from types import FunctionType
from typing import Any

from django import forms
from django.core.exceptions import FieldDoesNotExist, ImproperlyConfigured
from django.core.validators import MaxLengthValidator, MinLengthValidator, RegexValidator
from django.db import Error as DatabaseError
from django.db.models import Model
from django.db.models.constants import LOOKUP_SEP
from django.utils.choices import flatten_choices
from django.utils.encoding import force_str
from django.utils.functional import Promise, keep_lazy_text
from pydantic_core import PydanticSerializationError, to_jsonable_python
from rest_framework import ISO_8601, serializers
from rest_framework.fields import Field, _UnvalidatedField, empty
from rest_framework.filters import OrderingFilter, SearchFilter
from rest_framework.generics import GenericAPIView
from rest_framework.relations import ManyRelatedField, PrimaryKeyRelatedField, RelatedField
from rest_framework.serializers import BaseSerializer, ListSerializer, Serializer
from rest_framework.settings import api_settings
from rest_framework.utils.humanize_datetime import date_formats, datetime_formats, time_formats
from rest_framework.viewsets import GenericViewSet

from django_mcp.contrib.drf.json_schema import (
    NOTHING,
    OperationNote,
    Schema,
    called,
    column_of,
    column_schema,
    inlined,
    key_schema,
    note_of_field,
    nullable,
    one_of,
    schema_of_note,
    without,
)
from django_mcp.contrib.drf.operations import Operation
from django_mcp.model_resources.form_schema import FILE_SCHEMA, described, file_note
from django_mcp.primitives.validation_errors import with_article


def schema_of(field: Field) -> Schema:
    """What a field takes, with its words: label, help text, default."""
    noted = note_of_field(field, schema_of)
    schema = noted
    if schema is None:
        schema = _untyped(field, _typed(field)) if is_read_by_the_site(field) else _typed(field)
    if field.allow_null:
        schema = nullable(schema)
    if field.label and _tells_more(field):
        schema = {"title": field.label, **schema}
    if words := [each for each in (field.help_text, schema.get("description")) if each]:
        schema = {**schema, "description": words[0] if len(words) == 1 else _joined(*words)}
    if (default := _default(field)) is not empty:
        schema = {**schema, "default": default}
    return schema


def is_read_by_the_site(field: Field) -> bool:
    """Return True for a relation that is read by code of the site: perhaps it takes a key, or an object, or either.

    The serializer of a whole body takes an object even so: its members are arguments.
    """
    own = getattr(type(field).to_internal_value, "__module__", None) or ""
    if not isinstance(field, serializers.BaseSerializer | serializers.RelatedField) or own.startswith(
        "rest_framework."
    ):
        return False
    outer = field.parent
    return outer is not None and not (isinstance(outer, serializers.ListSerializer) and outer.parent is None)


def _untyped(field: Any, schema: Schema) -> Schema:
    """Return *schema* without ``type``, ``required`` and its other restrictions."""
    kept = {key: schema[key] for key in ("description", "properties", "items") if schema.get(key)}
    model = getattr(getattr(getattr(field, "child", field), "Meta", None), "model", None)
    if model is None or "properties" not in kept:
        return kept
    return {**kept, "description": f"An object, or what else names {with_article(called(model))}, such as its key."}


def _tells_more(field: Field) -> bool:
    """Whether its label is not its name again. A translation may be another word in each language."""
    return isinstance(field.label, Promise) or field.label != str(field.field_name).replace("_", " ").capitalize()


@keep_lazy_text
def _joined(*words: str) -> str:
    return " ".join(map(str, words))


def is_taken(field: Field) -> bool:
    """Whether a caller can give it a value."""
    return not field.read_only and not isinstance(field, serializers.HiddenField)


def is_upload(field: Field) -> bool:
    """Whether it takes a file as a form sends it. Some descendants of ``FileField`` take text."""
    own = type(field).to_internal_value in (
        serializers.FileField.to_internal_value,
        serializers.ImageField.to_internal_value,
    )
    return isinstance(field, serializers.FileField) and own


def _default(field: Field) -> Any:
    if field.default is empty or callable(field.default) or field.default is None:
        return empty
    try:
        return to_jsonable_python(field.default)
    except PydanticSerializationError:
        return empty


@singledispatch
def _typed(field: Field) -> Schema:
    """Of a field of a site's own, which takes anything, unless it has choices as ``ChoiceField`` has them."""
    choices = getattr(field, "choices", None)
    is_plain = isinstance(choices, Mapping) and all(isinstance(key, str | int | float | None) for key in choices)
    return _chosen(field) if is_plain else {}


@_typed.register
def _(field: serializers.RelatedField) -> Schema:  # noqa: ARG001 - its choices are rows, which are not listed
    return {}


@_typed.register
def _(field: serializers.BaseSerializer) -> Schema:  # noqa: ARG001
    return {}


@_typed.register
def _(field: serializers.Serializer) -> Schema:
    hidden = without(field)
    taken = {name: each for name, each in field.fields.items() if is_taken(each) and name not in hidden}
    schema: Schema = {"type": "object", "properties": {name: schema_of(each) for name, each in taken.items()}}
    required = [name for name, each in taken.items() if each.required and not field.root.partial]
    return {**schema, "required": required} if required else schema


@_typed.register
def _(field: serializers.ListSerializer) -> Schema:
    return _limited({"type": "array", "items": schema_of(field.child)}, field)


@_typed.register
def _(field: serializers.BooleanField) -> Schema:  # noqa: ARG001
    return {"type": "boolean"}


@_typed.register
def _(field: serializers.CharField) -> Schema:
    schema: Schema = {"type": "string"}
    for validator in field.validators:
        match validator:
            case MaxLengthValidator(limit_value=int(limit)):
                schema["maxLength"] = limit
            case MinLengthValidator(limit_value=int(limit)):
                schema["minLength"] = limit
            case RegexValidator() if (pattern := _portable(validator)) and not isinstance(field, serializers.URLField):
                schema["pattern"] = pattern
    if not field.allow_blank:
        schema["minLength"] = max(schema.get("minLength", 0), 1)
    return schema


def _portable(validator: RegexValidator) -> str | None:
    """A pattern as ECMA 262 has it; None where it may mean something else there."""
    pattern: str = validator.regex.pattern  # type: ignore[union-attr]  # compiled when it is first asked for
    if validator.inverse_match or validator.flags or "(?" in pattern or "\\A" in pattern or "\\w" in pattern:
        return None
    return pattern.replace("\\Z", "$")


@_typed.register
def _(field: serializers.EmailField) -> Schema:
    return {**_typed.dispatch(serializers.CharField)(field), "format": "email"}


@_typed.register
def _(field: serializers.URLField) -> Schema:
    return {**_typed.dispatch(serializers.CharField)(field), "format": "uri"}


@_typed.register
def _(field: serializers.IPAddressField) -> Schema:
    return {"type": "string"} if field.protocol == "both" else {"type": "string", "format": field.protocol}


@_typed.register
def _(field: serializers.UUIDField) -> Schema:  # noqa: ARG001
    return {"type": "string", "format": "uuid"}


@_typed.register
def _(field: serializers.IntegerField) -> Schema:
    return _between({"type": "integer"}, field)


@_typed.register
def _(field: serializers.FloatField) -> Schema:
    return _between({"type": "number"}, field)


@_typed.register
def _(field: serializers.DecimalField) -> Schema:
    schema = _between({"type": ["number", "string"]}, field)
    if field.decimal_places is not None:
        # Not as multipleOf: 19.99 is no multiple of 0.01 to many a validator.
        schema["description"] = f"At most {field.decimal_places} decimal places."
    return schema


_LARGEST = 2**53
"""Integers beyond it are other ones in JavaScript."""


def _between(schema: Schema, field: Any) -> Schema:
    limits = {"minimum": field.min_value, "maximum": field.max_value}
    given = {key: _number(value) for key, value in limits.items() if value is not None and not callable(value)}
    # Those of the database's own integers say nothing, and JavaScript reads them as other numbers.
    return {**schema, **{key: value for key, value in given.items() if abs(value) <= _LARGEST}}


def _number(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value


@_typed.register
def _(field: serializers.DateTimeField) -> Schema:
    formats = getattr(field, "input_formats", api_settings.DATETIME_INPUT_FORMATS)
    return _moment(formats, "date-time", datetime_formats)


@_typed.register
def _(field: serializers.DateField) -> Schema:
    return _moment(getattr(field, "input_formats", api_settings.DATE_INPUT_FORMATS), "date", date_formats)


@_typed.register
def _(field: serializers.TimeField) -> Schema:
    # Not "format": "time", which wants an offset from UTC that Django does not take.
    formats = getattr(field, "input_formats", api_settings.TIME_INPUT_FORMATS)
    return {"type": "string", "description": f"{time_formats(list(formats))}."}


def _moment(formats: Iterable[str], name: str, told: Any) -> Schema:
    listed = list(formats)
    if ISO_8601 in listed:
        return {"type": "string", "format": name}
    return {"type": "string", "description": f"{told(listed)}."}


@_typed.register
def _(field: serializers.DurationField) -> Schema:  # noqa: ARG001
    return {"type": "string", "description": "[DD] [HH:[MM:]]ss, or ISO 8601 such as P1DT2H."}


@_typed.register(serializers.ChoiceField)
def _chosen(field: Any) -> Schema:
    blank = [""] if getattr(field, "allow_blank", False) and "" not in field.choices else []
    schema = one_of([*blank, *map(_value, field.choices)])
    labels = {_value(key): force_str(label) for key, label in field.choices.items()}
    telling = [f"{key}: {label}" for key, label in labels.items() if _plain(key) != _plain(label)]
    return {**schema, "description": f"{'; '.join(telling)}."} if telling else schema


def _value(key: Any) -> Any:
    return to_jsonable_python(key)


def _plain(word: Any) -> str:
    return str(word).casefold().replace("_", " ").replace("-", " ")


@_typed.register
def _(field: serializers.MultipleChoiceField) -> Schema:
    schema: Schema = {"type": "array", "items": _typed.dispatch(serializers.ChoiceField)(field), "uniqueItems": True}
    return schema if field.allow_empty else {**schema, "minItems": 1}


@_typed.register
def _(field: serializers.FilePathField) -> Schema:  # noqa: ARG001 - which files there are is not told to everybody
    return {"type": "string"}


@_typed.register
def _(field: serializers.FileField) -> Schema:
    return {**FILE_SCHEMA, "description": file_note()} if is_upload(field) else {"type": "string"}


@_typed.register
def _(field: serializers.ListField) -> Schema:
    return _limited({"type": "array", "items": _child(field)}, field)


@_typed.register
def _(field: serializers.DictField) -> Schema:
    return {"type": "object", "additionalProperties": _child(field) or True}


def _child(field: Any) -> Schema:
    return {} if isinstance(field.child, _UnvalidatedField) else schema_of(field.child)


def _limited(schema: Schema, field: Any) -> Schema:
    least = field.min_length or (0 if field.allow_empty else 1)
    limits = {"minItems": least or None, "maxItems": field.max_length}
    return {**schema, **{key: value for key, value in limits.items() if value is not None}}


@_typed.register
def _(field: serializers.JSONField) -> Schema:  # noqa: ARG001
    return {"description": "Any JSON."}


@_typed.register
def _(field: serializers.ModelField) -> Schema:
    return column_schema(field.model_field)


@_typed.register
def _(field: serializers.ManyRelatedField) -> Schema:
    schema: Schema = {"type": "array", "items": schema_of(field.child_relation)}
    return schema if field.allow_empty else {**schema, "minItems": 1}


@_typed.register
def _(field: serializers.PrimaryKeyRelatedField) -> Schema:
    model = getattr(field.get_queryset(), "model", None)
    schema = key_schema(model) if field.pk_field is None else schema_of(field.pk_field)
    return {**schema, "description": f"Key of {with_article(called(model))}."} if model else schema


@_typed.register
def _(field: serializers.SlugRelatedField) -> Schema:
    model = getattr(field.get_queryset(), "model", None)
    column = column_of(model, field.slug_field)
    schema = {"type": "string"} if column is None else column_schema(column)
    words = field.slug_field.replace("_", " ")
    return {**schema, "description": f"The {words} of {with_article(called(model))}."} if model else schema


@_typed.register
def _(field: serializers.HyperlinkedRelatedField) -> Schema:
    model = getattr(field.get_queryset(), "model", None)
    return {"type": "string", "description": f"URL of {with_article(called(model))}." if model else "A URL."}


READING = ("FILES", "POST", "get_serializer_class", "serializer_class")
"""What code that reads a body mentions, besides ``request.data``."""
FREE: Schema = {"type": "object", "description": "The JSON to send."}


def request_of(operation: Operation, view: Any, note: OperationNote, given: Any) -> Any:
    """What the body is: a serializer, a field or another type, a schema; None for no body.

    Args:
        given: what the site's ``request=`` says of it; ``NOTHING`` where it does not.
    """
    told = note.request if given is NOTHING else given
    if told is not NOTHING:
        return _made(_of_media_types(told), view, _keywords(operation))
    if operation.is_safe:
        return None
    reading = _reading(operation)
    if (operation.is_extra or operation.method == "DELETE") and not _has_body(operation, reading):
        return None
    whole = [each for each in reading.given if each.is_whole]
    if whole and all(each.many for each in whole):
        return _items(operation, view, [each for each in reading.given if each.is_whole or each.serializer is None])
    if operation.method == "DELETE" and not whole:
        return FREE
    # Of several, code may give the body to one or to another: then it is what the view takes elsewhere.
    others = [] if None in [each.serializer for each in whole] else whole
    return _serializer(others[0] if others else Given(None), operation, view) or FREE


def _has_body(operation: Operation, reading: "Reading") -> bool:
    if reading.is_read or operation.method == "DELETE":
        return reading.is_read
    return "serializer_class" in getattr(operation.decorated, "kwargs", {}) or operation.mentions(*READING)


def _serializer(given: "Given", operation: Operation, view: Any) -> BaseSerializer | None:
    if given.serializer is None:
        return default_serializer(operation, view)
    try:
        made = _made(given.serializer, view, _keywords(operation) if given.may_be_partial else {})
        schema_of(made)
    except DatabaseError:  # no database, or no migrate yet
        raise
    except Exception:  # noqa: BLE001 - it may want more than code that is only read can show
        return default_serializer(operation, view)
    return made


# Bodies that are lists


def _items(operation: Operation, view: Any, given: Iterable["Given"]) -> Schema:
    """An array, of which each item has the members of all serializers that read it, and what names its row."""
    classes = {each.serializer: each for each in given}
    item: Schema = {"type": "object", "properties": {}}
    required: list[str] = []
    for each in classes.values():
        serializer = _serializer(each, operation, view)
        serializer = getattr(serializer, "child", serializer)
        if serializer is None:
            continue
        schema = schema_of(serializer)
        keys = {} if operation.method == "POST" or operation.detail else _keys(serializer, view)
        item["properties"] |= {**{name: key for name, key in keys.items() if key}, **schema.get("properties", {})}
        required += [*(keys if len(keys) == 1 else ()), *schema.get("required", ())]
    if not item["properties"]:
        del item["properties"]
    return {"type": "array", "items": {**item, "required": [*dict.fromkeys(required)]} if required else item}


def _keys(serializer: Any, view: Any) -> dict[str, Schema]:
    """The fields that name a row, with their schemas where a serializer only shows them; else with an empty one."""
    model = getattr(getattr(serializer, "Meta", None), "model", None)
    found: dict[str, Schema] = {}
    for name, each in getattr(serializer, "fields", {}).items():
        column = column_of(model, each.source)
        if getattr(column, "primary_key", False) or (column is not None and each.source == view.lookup_field):
            words = f"The {str(name).replace('_', ' ')} of the {called(model)} that is meant."
            found[name] = {**column_schema(column), "description": words} if each.read_only else {}
    return found


# What code shows


@dataclass(frozen=True)
class Given:
    """A serializer that code gives data.

    Attributes:
        serializer: its class; None for that of the view.
        is_whole: the data are those of the request.
        many: it says ``many=True``.
        may_be_partial: it says ``partial=…``.
    """

    serializer: Any
    is_whole: bool = False
    many: bool = False
    may_be_partial: bool = False


@dataclass
class Reading:
    """How a handler reads the body of a request, together with the methods of the view that it calls.

    Attributes:
        is_read: it has ``request.data``, or gives a serializer data.
        given: the serializers.
    """

    is_read: bool = False
    given: list[Given] = field(default_factory=list)


def _reading(operation: Operation) -> Reading:
    found, seen = Reading(), set[Any]()
    first = operation.function
    if _tree(first) is None:
        found.is_read = operation.mentions("data", "get_serializer")
        return found
    waiting = [(first, [*inspect.signature(first).parameters][:2])]  # behind self, if there is one
    while waiting:
        function, requests = waiting.pop()
        if function not in seen and (tree := _tree(function)) is not None:
            seen.add(function)
            waiting += _Code(function, operation.view, tree, requests).read(found)
    return found


@lru_cache(maxsize=512)
def _tree(function: Any) -> ast.AST | None:
    """The code of a function; None where there is no source, or one that cannot be read by itself."""
    if not isinstance(function, FunctionType):
        return None
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return None


class _Code:
    """One function of a view.

    Args:
        requests: the names of its parameters that are the request.
    """

    def __init__(self, function: Any, view: type, tree: ast.AST, requests: Collection[str]) -> None:
        names = [*inspect.signature(function).parameters]
        self._function, self._view, self._nodes = function, view, [*ast.walk(tree)]
        self._self = names[0] if names else ""
        self._requests = {"request", *requests}
        names_of = inspect.getclosurevars(function)
        self._scope = {**names_of.globals, **names_of.nonlocals}
        self._data = {
            target.id
            for node in self._nodes
            if isinstance(node, ast.Assign) and self._is_data(node.value)
            for target in node.targets
            if isinstance(target, ast.Name)
        }

    def read(self, found: Reading) -> list[tuple[Any, list[str]]]:
        """Add what is shown to *found*, and give the functions to read besides, with their names for the request."""
        further: list[tuple[Any, list[str]]] = []
        for node in self._nodes:
            found.is_read = found.is_read or _is_data_of(self._requests, node)
            if isinstance(node, ast.Call):
                if given := self._given(node):
                    found.given.append(given)
                    found.is_read = True
                if called := self._method(node):
                    further.append(called)
        return further

    def _is_data(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Call) and _called(node.func) == "copy" and isinstance(node.func, ast.Attribute):
            return self._is_data(node.func.value)
        return _is_data_of(self._requests, node)

    def _given(self, call: ast.Call) -> Given | None:
        named = {each.arg: each.value for each in call.keywords}
        data = named.get("data", call.args[1] if len(call.args) > 1 else None)
        serializer = NOTHING if data is None else self._serializer(call.func, is_named="data" in named)
        if data is None or serializer is NOTHING:
            return None
        is_whole = self._is_data(data) or (isinstance(data, ast.Name) and data.id in self._data)
        many = isinstance(value := named.get("many"), ast.Constant) and value.value is True
        return Given(serializer, is_whole, many, "partial" in named)

    def _serializer(self, called: ast.AST, *, is_named: bool) -> Any:
        """The class of a serializer that is called; None for that of the view, ``NOTHING`` for something else.

        What is only known while the code runs is that of the view, if it is given *data* by this name.
        """
        match called:
            case (
                ast.Attribute(attr="get_serializer" | "serializer_class")
                | ast.Call(func=ast.Attribute(attr="get_serializer_class"))
            ):
                return None
            case ast.Name(id=name) if name in self._function.__code__.co_varnames:
                return None if is_named and not name.endswith("Response") else NOTHING
        found = self._value(called)
        return found if inspect.isclass(found) and issubclass(found, BaseSerializer) else NOTHING

    def _value(self, node: ast.AST) -> Any:
        match node:
            case ast.Name(id=self._self):
                return self._view
            case ast.Name(id=name):
                return self._scope.get(name, NOTHING)
            case ast.Attribute(value=value, attr=name):
                return getattr(self._value(value), name, NOTHING)
        return NOTHING

    def _method(self, call: ast.Call) -> tuple[Any, list[str]] | None:
        """The view's method that is called, where it may read the request; None for others."""
        match call.func:
            case ast.Attribute(value=ast.Name(id=self._self), attr=name):
                method = getattr(self._view, name, None)
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr=name):
                method = self._inherited(name)
            case _:
                return None
        written = inspect.unwrap(method) if callable(method) else None
        if not isinstance(written, FunctionType):
            return None
        names = [*inspect.signature(written).parameters][1:]
        given = [*zip(names, call.args, strict=False), *((each.arg, each.value) for each in call.keywords)]
        requests = [str(each) for each, value in given if _called(value) in self._requests - {self._self}]
        return (written, requests) if requests or not hasattr(GenericViewSet, name) else None

    def _inherited(self, name: str) -> Any:
        """The method that ``super()`` finds from the function's class."""
        classes = iter(self._view.__mro__)
        for each in classes:
            own = vars(each).get(self._function.__name__)
            if callable(own) and inspect.unwrap(own) is self._function:
                break
        return next((vars(each)[name] for each in classes if name in vars(each)), None)


def _is_data_of(requests: Collection[str], node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "data" and _called(node.value) in requests


def _called(node: ast.AST) -> str:
    """The last part of a name with dots; nothing for other expressions."""
    return str(getattr(node, "attr", getattr(node, "id", "")))


def response_of(operation: Operation, view: Any, note: OperationNote, given: Any) -> Any:
    """What a successful answer is, likewise; ``NOTHING`` where nobody says."""
    told = note.responses if given is NOTHING else given
    if told is not NOTHING:
        return _made(_of_statuses(told), view, _keywords(operation))
    if operation.is_extra or operation.action == "destroy":
        return NOTHING
    return default_serializer(operation, view) or NOTHING


def default_serializer(operation: Operation, view: Any) -> BaseSerializer | None:
    """The one the view itself would use."""
    if isinstance(view, GenericAPIView) and _is_default(view) and view.serializer_class is None:
        return None
    if hasattr(view, "get_serializer"):
        return view.get_serializer(**_keywords(operation))
    made = getattr(view, "serializer_class", None)
    return made(**_keywords(operation)) if made else None


def _is_default(view: GenericAPIView[Any]) -> bool:
    own = (type(view).get_serializer, type(view).get_serializer_class)
    return own == (GenericAPIView.get_serializer, GenericAPIView.get_serializer_class)


def _keywords(operation: Operation) -> dict[str, Any]:
    return {"partial": True} if operation.method == "PATCH" else {}


def _made(told: Any, view: Any, keywords: Mapping[str, Any]) -> Any:
    if inspect.isclass(told) and issubclass(told, BaseSerializer):
        made: Any = told
        of_view = getattr(view, "get_serializer_context", dict)
        return made(context={"request": view.request, **of_view()}, **keywords)
    if inspect.isclass(told) and issubclass(told, Field):
        return told()
    return told


def _of_media_types(told: Any) -> Any:
    """``OpenApiRequest``, or a dict by media type: the one for JSON, else the first."""
    told = getattr(told, "request", told) if not isinstance(told, Field | type) else told
    if isinstance(told, Mapping) and any("/" in str(key) for key in told):
        return _of_media_types(told.get("application/json", next(iter(told.values()))))
    return told


def _of_statuses(told: Any) -> Any:
    """``OpenApiResponse``, or a dict by status: the first that is a success."""
    told = getattr(told, "response", told) if not isinstance(told, Field | type) else told
    if isinstance(told, Mapping) and told and all(_status(key) is not None for key in told):
        successes = [key for key in told if str(_status(key)).startswith("2")]
        return _of_statuses(told[min(successes, key=lambda key: str(_status(key)))]) if successes else NOTHING
    return told


def _status(key: Any) -> str | None:
    status = key[0] if isinstance(key, tuple) else key
    return str(status) if str(status)[:1].isdigit() else None


# Rows


def addresses_rows(field: Any) -> bool:  # noqa: PLR0911 - one line for each kind
    """Return True if a field takes what may come to mean another row, such as a slug: anything but a primary key."""
    if not isinstance(field, Field) or not is_taken(field):
        return False
    match field:
        case ManyRelatedField():
            return addresses_rows(field.child_relation)
        case RelatedField() | BaseSerializer() if is_read_by_the_site(field):
            return True
        case RelatedField():
            return not isinstance(field, PrimaryKeyRelatedField)
        case ListSerializer():
            return addresses_rows(field.child)
        case Serializer():
            return any(map(addresses_rows, field.fields.values()))
    return False


def rows_in(field: Any, value: Any) -> Any:
    """The rows that *value* means, in the places where it does, as the field finds them; None for none."""
    if not addresses_rows(field):
        return None
    match field:
        case ListSerializer() | ManyRelatedField() if isinstance(value, list):
            child = field.child if isinstance(field, ListSerializer) else field.child_relation
            return [rows_in(child, each) for each in value]
        case Serializer() if isinstance(value, dict) and not is_read_by_the_site(field):
            return {name: rows_in(each, value[name]) for name, each in field.fields.items() if name in value}
        case RelatedField() | Serializer():
            try:
                found = field.to_internal_value(value)
            except Exception:  # noqa: BLE001 - what it cannot read the call refuses
                return None
            within = found if isinstance(found, Mapping) else {"": found}
            return {name: row for name, row in within.items() if isinstance(row, Model) and row.pk is not None}
    return None


logger = logging.getLogger("django_mcp")

MANY_FILTERS = 60
"""Above so many filters of a class, those made from lookups are offered only where they are named."""


@dataclass(frozen=True)
class Parameter:
    """One variable of a URL, or one parameter of its query.

    Attributes:
        joined: of a list, the values stand in one text with commas between them.
    """

    name: str
    schema: Schema
    required: bool = False
    joined: bool = False


def query_parameters(
    operation: Operation, view: Any, note: OperationNote, model: Any, filters: Collection[str] | None = None
) -> list[Parameter]:
    """All that an operation reads from the query, as far as the view or its annotations tell.

    Args:
        operation, view, note: what is asked.
        model: of the view's rows.
        filters: the only ones of filter sets to give; None for all, or where they are very many for those that are not
            made from lookups.

    Raises:
        ImproperlyConfigured: there is no such filter.
    """
    found: dict[str, Parameter] = {}
    filtered = operation.action == "list" or operation.mentions("filter_queryset")
    paged = operation.action == "list" or operation.mentions("paginate_queryset")
    if filtered if note.filters is None else note.filters:
        for backend in getattr(view, "filter_backends", ()):
            parameters = {each.name: each for each in _of_backend(backend(), view, model, whole=filters is not None)}
            if filters is not None and hasattr(backend, "get_filterset_class"):
                parameters = _chosen_parameter(parameters, filters, view)
            found |= parameters
    if paged and getattr(view, "paginator", None) is not None:
        paginator = view.paginator
        if getattr(paginator, "page_size", True) is not None or getattr(paginator, "default_limit", None) is not None:
            found |= {each.name: each for each in map(_of_openapi, paginator.get_schema_operation_parameters(view))}
    return list(_annotated(found, note).values())


def _chosen_parameter(parameters: Mapping[str, Parameter], names: Collection[str], view: Any) -> dict[str, Parameter]:
    if wrong := [name for name in names if name not in parameters]:
        msg = (
            f"drf_tools: {type(view).__qualname__} has no filter {wrong[0]!r}; it has {', '.join(sorted(parameters))}."
        )
        raise ImproperlyConfigured(msg)
    return {name: each for name, each in parameters.items() if name in names}


def serializer_parameters(serializer: BaseSerializer) -> Iterator[Parameter]:
    """A serializer's fields, where a view checks its query with one."""
    for name, each in getattr(serializer, "fields", {}).items():
        if is_taken(each):
            yield Parameter(name, schema_of(each), each.required)


def _of_backend(backend: Any, view: Any, model: Any, *, whole: bool) -> Iterator[Parameter]:
    """What a filter backend takes, told better than it does itself for those that everybody uses.

    Args:
        backend, view, model: what is asked.
        whole: give every filter of a filter set, however many there are.
    """
    if isinstance(backend, SearchFilter):
        if fields := backend.get_search_fields(view, view.request):
            words = ", ".join(str(each).lstrip("^=@$").replace("__", " ").replace("_", " ") for each in fields)
            yield Parameter(backend.search_param, {"type": "string", "description": f"Words to look for in: {words}."})
    elif isinstance(backend, OrderingFilter):
        if names := list(_orderings(backend, view, model)):
            told = f"One or more of {', '.join(names)}, with commas between them; - before one turns it round."
            yield Parameter(backend.ordering_param, {"type": "string", "description": told})
    elif hasattr(backend, "get_filterset_class"):
        rows = None if model is None else model._default_manager.none()  # noqa: SLF001 - Django's documented API
        if filters := backend.get_filterset_class(view, rows):
            for name, each in _offered(filters, whole=whole).items():
                try:
                    yield from _of_filter(name, each)
                except FieldDoesNotExist as error:  # it could never be used, and the others can
                    logger.warning("The filter %r of %s is left out: %s", name, type(view).__qualname__, error)
    else:
        yield from map(_of_openapi, backend.get_schema_operation_parameters(view))


def _offered(filters: Any, *, whole: bool) -> dict[str, Any]:
    """Return the filters of a class; of very many those that it declares, and those called like a field alone."""
    every = dict(filters.base_filters)
    if whole or len(every) <= MANY_FILTERS:
        return every
    return {name: each for name, each in every.items() if name in filters.declared_filters or LOOKUP_SEP not in name}


def _orderings(backend: OrderingFilter, view: Any, model: Any) -> Iterator[str]:
    fields = getattr(view, "ordering_fields", backend.ordering_fields)
    if model is not None or not (fields is None or fields == "__all__"):
        rows = None if model is None else model._default_manager.none()  # noqa: SLF001 - Django's documented API
        yield from (name for name, _ in backend.get_valid_fields(rows, view, {"request": view.request}))


def _of_filter(name: str, each: Any) -> Iterator[Parameter]:
    """A filter of django-filter: its form field says what it takes. One for a range has several names."""
    field, label = each.field, each.extra.get("help_text")
    suffixes = getattr(field.widget, "suffixes", None)
    if suffixes:
        parts = zip(suffixes, field.fields, strict=False)
        fields = {f"{name}_{suffix}" if suffix else name: part for suffix, part in parts}
    else:
        fields = {name: field}
    # Numbers or words in one text, with commas between them.
    joined = any(kind.__name__ == "BaseCSVField" for kind in type(field).__mro__)
    for parameter, part in fields.items():
        schema = {**described(parameter, part, None, 0), **_choices(each)}
        schema.pop("title", None)
        if joined:
            schema = {"type": "array", "items": {key: schema[key] for key in ("type", "format") if key in schema}}
        if not field.required:
            schema = {key: value for key, value in schema.items() if key != "minLength"}
        if label and "description" not in schema:
            schema["description"] = label
        yield Parameter(parameter, schema, field.required, joined)


def _choices(each: Any) -> Schema:
    """The choices of a filter, where they are known without a query."""
    choices = each.extra.get("choices")
    if not isinstance(choices, list | tuple):
        return {}
    values = one_of(value for value, _ in flatten_choices(choices) if value not in ("", None))
    return {"items": values} if isinstance(each.field, forms.MultipleChoiceField) else values


def _of_openapi(parameter: Mapping[str, Any]) -> Parameter:
    """One that is told as OpenAPI has it."""
    schema = inlined(parameter.get("schema", {"type": "string"}))
    if words := force_str(parameter.get("description") or ""):
        schema = {**schema, "description": words}
    joined = schema.get("type") == "array" and parameter.get("explode") is False
    return Parameter(parameter["name"], schema, bool(parameter.get("required")), joined)


def _annotated(found: Mapping[str, Parameter], note: OperationNote) -> dict[str, Parameter]:
    """With what ``@extend_schema(parameters=…)`` adds, replaces and leaves out."""
    merged = dict(found)
    for each in note.parameters:
        if isinstance(each, Field) or (inspect.isclass(each) and issubclass(each, Field)):
            serializer = each() if inspect.isclass(each) else each
            merged |= {parameter.name: parameter for parameter in serializer_parameters(serializer)}
        elif each.exclude:
            merged.pop(each.name, None)
        elif each.location == "query" and not each.response:
            merged[each.name] = _of_note(each)
    return merged


def _of_note(note: Any) -> Parameter:
    schema = schema_of_note(note.type, schema_of)
    told = {"enum": list(note.enum) if note.enum else None, "pattern": note.pattern, "default": note.default}
    schema = {**schema, **{key: value for key, value in told.items() if value is not None}}
    if note.many:
        schema = {"type": "array", "items": schema}
    if note.description:
        schema["description"] = note.description
    return Parameter(note.name, schema, note.required, bool(note.many) and note.explode is False)
