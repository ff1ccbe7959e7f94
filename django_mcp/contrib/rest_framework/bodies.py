"""What an operation takes in its body, and what it answers: serializers, as the view or its annotations have them."""

import ast
import inspect
import textwrap
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import FunctionType
from typing import Any

from django.db import Error as DatabaseError
from django.db.models import Model
from rest_framework.fields import Field
from rest_framework.generics import GenericAPIView
from rest_framework.relations import ManyRelatedField, PrimaryKeyRelatedField, RelatedField
from rest_framework.serializers import BaseSerializer, ListSerializer, Serializer
from rest_framework.viewsets import GenericViewSet

from django_mcp.contrib.rest_framework import incoming
from django_mcp.contrib.rest_framework.columns import called, column_of, column_schema
from django_mcp.contrib.rest_framework.dialect import Schema
from django_mcp.contrib.rest_framework.notes import NOTHING, OperationNote
from django_mcp.contrib.rest_framework.views import Operation

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
        incoming.schema_of(made)
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
        schema = incoming.schema_of(serializer)
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
    if not isinstance(field, Field) or not incoming.is_taken(field):
        return False
    match field:
        case ManyRelatedField():
            return addresses_rows(field.child_relation)
        case RelatedField() | BaseSerializer() if incoming.is_read_by_the_site(field):
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
        case Serializer() if isinstance(value, dict) and not incoming.is_read_by_the_site(field):
            return {name: rows_in(each, value[name]) for name, each in field.fields.items() if name in value}
        case RelatedField() | Serializer():
            try:
                found = field.to_internal_value(value)
            except Exception:  # noqa: BLE001 - what it cannot read the call refuses
                return None
            within = found if isinstance(found, Mapping) else {"": found}
            return {name: row for name, row in within.items() if isinstance(row, Model) and row.pk is not None}
    return None
