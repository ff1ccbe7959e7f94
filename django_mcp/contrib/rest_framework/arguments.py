"""The arguments of a tool: variables of a URL, parameters of a query and the members of a body, side by side."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rest_framework.serializers import ListSerializer, Serializer

from django_mcp.adapters.files import file_argument
from django_mcp.contrib.rest_framework import incoming
from django_mcp.contrib.rest_framework.dialect import Schema
from django_mcp.contrib.rest_framework.notes import schema_of_note
from django_mcp.contrib.rest_framework.parameters import Parameter
from django_mcp.primitives.function import EMPTY
from django_mcp.primitives.function import Parameter as Named
from django_mcp.primitives.schema import ArgumentError, Arguments, property_name
from django_mcp.primitives.validation_errors import missing_argument, written

LEFT_OUT = object()
MOST_SHOWN = 80
"""Characters of a value that is told to have been wrong."""


@dataclass
class Sent:
    """The values of one call, each where it goes.

    Attributes:
        body: None for no body.
        files: by the name of the body's field.
    """

    path: dict[str, Any] = field(default_factory=dict)
    query: dict[str, Any] = field(default_factory=dict)
    body: Any = None
    files: dict[str, Any] = field(default_factory=dict)


class APIArguments(Arguments):
    """Arguments of which only the names are looked at. Whether values fit is for the view to say.

    Args:
        path: the URL's variables; those that are required must be given.
        query: what the view reads from the query.
        body: a serializer, a field or another type, a JSON Schema; None for no body.
        label: names the tool in errors.

    Attributes:
        of_body: from members of the body to their arguments.
        whole: the argument that is the body as a whole, or None.
        is_list: that is an array.
        uploads: the members of the body that are files.
        is_sent: there is a body, an empty one perhaps.
        paging: the parameters of the query that choose a page.
    """

    paging: frozenset[str] = frozenset()

    def __init__(self, path: Sequence[Parameter], query: Sequence[Parameter], body: Any, label: str) -> None:
        self._path = {each.name: each for each in path}
        self._query: dict[str, Parameter] = {}
        for each in query:
            self._query[_free(each.name, {**self._path, **self._query})] = each
        self.of_body: dict[str, str] = {}
        self.whole: str | None = None
        self.is_list = False
        self.uploads: frozenset[str] = frozenset()
        self.is_sent = body is not None
        shown = {name: each.schema for name, each in self._path.items()}
        shown |= {name: _sent_as(each.schema, each.name, name) for name, each in self._query.items()}
        required = [name for name, each in {**self._path, **self._query}.items() if each.required]
        shown, required = self._with_body(body, shown, required)
        needed = {name for name, each in self._path.items() if each.required}
        named = [Named(name, Any, EMPTY if name in needed else LEFT_OUT, None) for name in shown]
        super().__init__(named, label)
        self.schema = {"type": "object", "properties": shown, "additionalProperties": False}
        if required:
            self.schema["required"] = required

    def _with_body(
        self, body: Any, shown: dict[str, Schema], required: list[str]
    ) -> tuple[dict[str, Schema], list[str]]:
        if body is None:
            return shown, required
        schema = schema_of_note(body, incoming.schema_of)
        if isinstance(body, ListSerializer) or "properties" not in schema:
            self.is_list = schema.get("type") == "array"
            self.whole = _free("items" if self.is_list else "body", shown)
            is_needed = self.is_list or not isinstance(body, dict)
            return {**shown, self.whole: schema}, [*required, self.whole] if is_needed else required
        if isinstance(body, Serializer):
            self.uploads = frozenset(name for name, each in body.fields.items() if incoming.is_upload(each))
        for name in schema["properties"]:
            self.of_body[name] = _free(name, {*shown, *self.of_body.values()})
        members = {
            self.of_body[name]: _told(each, name, self.of_body[name]) for name, each in schema["properties"].items()
        }
        return {**shown, **members}, [*required, *(self.of_body[name] for name in schema.get("required", ()))]

    def validate(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments under one name, ``given``: any name may be one of theirs.

        Raises:
            ArgumentError: one is unknown, or what the URL needs is missing, or a body that is an array.
        """
        given = {name: value for name, value in super().validate(values).items() if value is not LEFT_OUT}
        needed = [name for name, each in self._path.items() if each.required]
        if self.is_list:
            needed.append(str(self.whole))
        if missing := [name for name in needed if given.get(name) in (None, "")]:
            raise ArgumentError([missing_argument([name]) for name in missing])
        return {"given": given}

    @property
    def variables(self) -> Mapping[str, bool]:
        """The URL's variables, and whether they must be given."""
        return {name: each.required for name, each in self._path.items()}

    def sent(self, given: Mapping[str, Any]) -> Sent:
        """Each value where it goes.

        Raises:
            ArgumentError: a file is none.
        """
        sent = Sent(path={name: given[name] for name in self._path if given.get(name) is not None})
        sent.query = {each.name: _joined(each, given[name]) for name, each in self._query.items() if name in given}
        if self.whole is not None:
            sent.body = given.get(self.whole, {})
        elif self.is_sent:
            sent.body = {name: given[argument] for name, argument in self.of_body.items() if argument in given}
            for name in self.uploads & sent.body.keys():
                if sent.body[name] is not None:
                    sent.files[name] = file_argument(self.of_body[name], sent.body.pop(name))
        return sent

    def argument(self, place: Sequence[Any]) -> str | None:
        """What an error's place in the body or the query is called in the call, like ``items[1].quantity``."""
        first = str(place[0])
        if self.whole is not None and first not in self._query and (isinstance(place[0], int) or not self.is_list):
            return written([self.whole, *place])
        name = self.of_body.get(first) or next((arg for arg, each in self._query.items() if each.name == first), None)
        return written([name, *place[1:]]) if name else None

    def value(self, place: Sequence[Any], given: Mapping[str, Any]) -> str | None:
        """The value at an error's place, as JSON; None where there is none, or where it is long."""
        names = {each.name: arg for arg, each in self._query.items()} | self.of_body
        steps = [self.whole, *place] if self.whole else [names.get(str(place[0])), *place[1:]]
        found: Any = given
        for step in steps:
            try:
                found = found[step]
            except (KeyError, IndexError, TypeError):
                return None
        return text if len(text := json.dumps(found, ensure_ascii=False)) <= MOST_SHOWN else None

    def from_query(self, name: str, text: str) -> Any:
        """A parameter of a URL's query as the argument it is."""
        kind = self._query[name].schema.get("type")
        return int(text) if kind == "integer" and text.isdecimal() else text

    def in_query(self, name: str) -> str:
        """The argument that a parameter of the query is."""
        return next(argument for argument, each in self._query.items() if each.name == name)


def _free(name: str, taken: Iterable[str]) -> str:
    """*name* as that of a property, or one like it: a row's key stands in the URL, and its new one in the body."""
    name = property_name(name)
    while name in taken:
        name = f"new_{name}"
    return name


def _told(schema: Schema, name: str, argument: str) -> Schema:
    if not argument.startswith("new_") or name == argument:
        return _sent_as(schema, name, argument)
    return {**schema, "description": f"The new {name}. {schema.get('description', '')}".strip()}


def _sent_as(schema: Schema, name: str, argument: str) -> Schema:
    """*schema*, with the name that the API has for it where no argument can have that name."""
    if argument == name or property_name(name) == name:
        return schema
    return {**schema, "description": f"{schema.get('description', '')} Sent as {name!r}.".strip()}


def _joined(parameter: Parameter, value: Any) -> Any:
    return ",".join(map(str, value)) if parameter.joined and isinstance(value, list) else value
