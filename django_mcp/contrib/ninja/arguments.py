"""The arguments of a tool: what an operation takes from path, query, form, files and body, side by side."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ninja.operation import Operation

from django_mcp.adapters.files import file_argument
from django_mcp.contrib.ninja.places import Places, Schema
from django_mcp.primitives.function import EMPTY, Parameter
from django_mcp.primitives.schema import Arguments

LEFT_OUT = object()


@dataclass
class Sent:
    """The values of one call, each where it goes.

    Attributes:
        form: fields of a form, as text.
        files: by field, a list each.
        body: JSON; ``LEFT_OUT`` for none.
    """

    path: dict[str, Any] = field(default_factory=dict)
    query: dict[str, Any] = field(default_factory=dict)
    form: dict[str, Any] = field(default_factory=dict)
    files: dict[str, Any] = field(default_factory=dict)
    body: Any = LEFT_OUT


class OperationArguments(Arguments):
    """Arguments of which only the names are looked at. Whether values fit is for the operation to say.

    Args:
        operation: whose they are.
        headers: what every request has, by lower-case name with hyphens.
        label: names the operation in errors.

    Raises:
        ImproperlyConfigured: the operation needs what no argument can be.
    """

    def __init__(self, operation: Operation, headers: Mapping[str, str], label: str) -> None:
        places = Places(operation, headers, label)
        self._places = places.found
        required = [name for name, place in self._places.items() if place.required]
        named = [Parameter(name, Any, EMPTY if name in required else LEFT_OUT, None) for name in self._places]
        super().__init__(named, label)
        self.schema = {
            "type": "object",
            "properties": {name: place.schema for name, place in self._places.items()},
            "additionalProperties": False,
        }
        if required:
            self.schema["required"] = required
        if used := _definitions(self.schema, places.shared):
            self.schema["$defs"] = used

    def validate(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments under one name, ``given``: any name may be one of theirs.

        Raises:
            ArgumentError: one is unknown or missing.
        """
        return {"given": {name: value for name, value in super().validate(values).items() if value is not LEFT_OUT}}

    def sent(self, given: Mapping[str, Any]) -> Sent:
        """Each value where it goes.

        Raises:
            ArgumentError: a file is none.
        """
        sent = Sent()
        if any(place.source == "body" and len(place.location) > 1 for place in self._places.values()):
            sent.body = {}  # an object there must be, if only one of defaults
        for argument, value in given.items():
            place = self._places[argument]
            match place.source:
                case "path":
                    sent.path[place.name] = value
                case "query":
                    sent.query[place.name] = value
                case "form":
                    sent.form[place.name] = _as_text(value)
                case "part":
                    sent.form[place.name] = json.dumps(value)
                case "file" if value is not None:
                    given_files = value if isinstance(value, list) else [value]
                    sent.files[place.name] = [file_argument(argument, each) for each in given_files]
                case "body":
                    sent.body = {**({} if sent.body is LEFT_OUT else sent.body), place.name: value}
                case "whole":
                    sent.body = value
        return sent

    def argument(self, location: Sequence[Any]) -> tuple[Any, ...]:
        """Where in the arguments what ninja says is wrong is."""
        for name, place in self._places.items():
            for known in (place.location, (place.name,)):
                if tuple(location[: len(known)]) == known:
                    return (name, *location[len(known) :])
        return tuple(location)


def _definitions(schema: Schema, shared: Schema) -> Schema:
    """Those of the *shared* schemas that one refers to, directly or not."""
    used: Schema = {}
    wanted = list(_references(schema))
    while wanted:
        name = wanted.pop()
        if name not in used:
            used[name] = shared[name]
            wanted += _references(shared[name])
    return used


def _references(schema: Any) -> Iterator[str]:
    match schema:
        case {"$ref": str(reference)}:
            yield reference.rpartition("/")[2]
        case dict():
            for each in schema.values():
                yield from _references(each)
        case list():
            for each in schema:
                yield from _references(each)


def _as_text(value: Any) -> Any:
    """A value as a form has it. A box that is not ticked is no field to a browser, but it is one here."""
    if isinstance(value, list):
        return [_as_text(each) for each in value]
    return value if isinstance(value, str) or value is None else json.dumps(value)
