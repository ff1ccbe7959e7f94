"""Resources and resource templates (2026-07-28, Resources)."""

import dataclasses
import os
import re
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import PurePath
from typing import Any, cast

from django.core.exceptions import ImproperlyConfigured
from django.utils.encoding import iri_to_uri
from django.utils.functional import Promise
from pydantic import BaseModel, SecretBytes, SecretStr
from pydantic_core import PydanticSerializationError, to_json

from django_mcp.primitives.base import Primitive, lazy_text, sendable, translated
from django_mcp.primitives.completions import Completions, read_completers
from django_mcp.primitives.output import OutputTooLarge
from django_mcp.primitives.schema import ArgumentError, Arguments
from django_mcp.protocol.content import Annotations, ResourceContents, check_uri
from django_mcp.protocol.uri_template import URITemplate, has_slash, leads_out


class Resource(Primitive):
    """A function that returns the contents of one URI or of a template's URIs. ``@resource`` documents the options.

    It returns text (str), bytes, a ``ResourceContents`` or a list of them, or a value that pydantic can serialize.

    Args:
        unchecked: variables whose values may be any text; see ``refuses``.
        exists: takes the context and the arguments of several matching URIs; returns for each whether the resource
            exists for the caller. May query the database.
    """

    kind = "resource"

    def __init__(
        self,
        call: Callable[..., Any],
        uri: str,
        *,
        context_type: type,
        mime_type: str | None = None,
        size: int | None = None,
        annotations: Annotations | None = None,
        completions: Completions | None = None,
        unchecked: Collection[str] = (),
        exists: Callable[[Any, Sequence[Mapping[str, Any]]], Sequence[bool]] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(call, context_type=context_type, **options)
        self.uri = self.key = uri
        self.mime_type = mime_type
        self.exists = exists
        self.template = self._parse(uri)
        self.unchecked = frozenset(self._listed("unchecked", unchecked))
        if unknown := sorted(self.unchecked.difference(self.template.variables)):
            msg = f"{self.label}: unchecked names {', '.join(map(repr, unknown))}, no variable of {uri!r}."
            raise ImproperlyConfigured(msg)
        self.arguments = Arguments(self.function.parameters, self.label)
        self.completers = read_completers(self.arguments, completions, context_type, self.label)
        self.definition["uriTemplate" if self.template.variables else "uri"] = uri
        if mime_type is not None:
            self.definition["mimeType"] = mime_type
        if size is not None:
            self.definition["size"] = size
        if annotations is not None:
            self.definition["annotations"] = annotations.to_wire()

    def _parse(self, uri: str) -> URITemplate:
        try:
            template = URITemplate(uri)
            check_uri(re.sub(r"\{[^{}]*\}", "x", uri))
        except ValueError as error:
            msg = f"{self.label}: {error}"
            raise ImproperlyConfigured(msg) from None
        parameters = {parameter.name: parameter for parameter in self.function.parameters}
        if set(template.variables) != set(parameters):
            msg = (
                f"{self.label}: the variables of {uri!r} ({', '.join(template.variables) or 'none'}) must match the "
                f"parameters of the function ({', '.join(parameters) or 'none'})."
            )
            raise ImproperlyConfigured(msg)
        for name in template.optional:
            if parameters[name].required:
                msg = f"{self.label}: {{?{name}}} is optional in the URI. Give parameter {name!r} a default."
                raise ImproperlyConfigured(msg)
        return template

    def entry(self, context: Any) -> dict[str, Any]:  # noqa: ARG002 - that of an app depends on it
        return self.definition

    @property
    def is_template(self) -> bool:
        return bool(self.template.variables)

    def match(self, uri: str) -> dict[str, Any] | None:
        variables = self.template.match(uri)
        if variables is None:
            return None
        try:
            arguments = self.arguments.validate(variables)
        except ArgumentError:  # such as calendar://events/soon for calendar://events/{year} with an int
            return None
        # Both before and after validation, which may strip or decode a value.
        is_refused = any(
            self.refuses(name, text) or self.refuses(name, arguments[name]) for name, text in variables.items()
        )
        return None if is_refused else arguments

    def refuses(self, name: str, value: Any) -> bool:
        """Return True if a client may not choose this value of a variable: a function may join it to a path.

        Values of ``{name}`` have no slash, and no value leads out of a folder (``uri_template.leads_out``), except
        those of ``unchecked``.
        """
        if name in self.unchecked:
            return False
        is_segment = name in self.template.segments
        return any(leads_out(text) or (is_segment and has_slash(text)) for text in _texts(value))

    def contents(self, uri: str, value: Any, most: int | None = None) -> list[dict[str, Any]]:
        """Return the ``contents`` of a result for the function's return value.

        Raises:
            OutputTooLarge: they have more than *most* bytes, or characters of text.
        """
        uri = iri_to_uri(uri)  # some clients send URIs unencoded
        found = self.read(value)
        size = sum(len(contents.data) for contents in found)
        if most is not None and size > most:
            raise OutputTooLarge(size, most, "bytes")
        return cast("list[dict[str, Any]]", sendable([contents.to_wire(uri) for contents in found]))

    def read(self, value: Any) -> list[ResourceContents]:
        items = value if isinstance(value, list) and value and isinstance(value[0], ResourceContents) else [value]
        return [self._content(item) for item in items]

    def _content(self, value: Any) -> ResourceContents:
        if isinstance(value, Promise):
            value = str(value)
        if isinstance(value, ResourceContents):
            return dataclasses.replace(value, mime_type=value.mime_type or self.mime_type)
        if isinstance(value, str):
            return ResourceContents(value, mime_type=self.mime_type or "text/plain")
        if isinstance(value, bytes | bytearray | memoryview):
            return ResourceContents(bytes(value), mime_type=self.mime_type or "application/octet-stream")
        try:
            text = to_json(value, by_alias=True, inf_nan_mode="null").decode()
        except PydanticSerializationError:
            text = to_json(translated(value), by_alias=True, inf_nan_mode="null", fallback=lazy_text).decode()
        return ResourceContents(text, mime_type=self.mime_type or "application/json")


def _texts(value: Any) -> Iterator[str]:
    # Validation may have decoded texts, as with Base64Bytes and Json[Choice].
    match value:
        case str():
            yield value
        case bytes() | bytearray():
            yield os.fsdecode(bytes(value))
        case PurePath():
            yield str(value)
        case Mapping():
            yield from _texts([*chain.from_iterable(value.items())])
        case list() | tuple() | set() | frozenset() | deque():
            for part in value:
                yield from _texts(part)
        case SecretStr() | SecretBytes():
            yield from _texts(value.get_secret_value())
        case BaseModel():
            yield from _texts(dict(value))
        case _ if dataclasses.is_dataclass(value):
            yield from _texts([getattr(value, field.name) for field in dataclasses.fields(value)])
