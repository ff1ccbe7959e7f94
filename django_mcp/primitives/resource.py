"""Resources and resource templates (2026-07-28, Resources)."""

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from django.core.exceptions import ImproperlyConfigured
from django.utils.encoding import iri_to_uri
from django.utils.functional import Promise
from pydantic_core import to_json

from django_mcp.primitives.base import Primitive, sendable
from django_mcp.primitives.completions import Completions, read_completers
from django_mcp.primitives.schema import ArgumentError, Arguments
from django_mcp.protocol.content import Annotations, ResourceContents, check_uri
from django_mcp.protocol.uri_template import URITemplate


class Resource(Primitive):
    """A function that returns the contents of one URI or of a template's URIs. ``@resource`` documents the options.

    It returns text (str), bytes, a ``ResourceContents`` or a list of them, or a value that pydantic can serialize.

    Args:
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
        exists: Callable[[Any, Sequence[Mapping[str, Any]]], Sequence[bool]] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(call, context_type=context_type, **options)
        self.uri = self.key = uri
        self.mime_type = mime_type
        self.exists = exists
        self.template = self._parse(uri)
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

    @property
    def is_template(self) -> bool:
        """True if the URI has variables."""
        return bool(self.template.variables)

    def match(self, uri: str) -> dict[str, Any] | None:
        """Return the function's arguments for *uri*, or None if it does not match."""
        variables = self.template.match(uri)
        if variables is None:
            return None
        try:
            return self.arguments.validate(variables)
        except ArgumentError:  # such as calendar://events/soon for calendar://events/{year} with an int
            return None

    def contents(self, uri: str, value: Any) -> list[dict[str, Any]]:
        """Return the ``contents`` of a result for the function's return value."""
        uri = iri_to_uri(uri)  # some clients send URIs unencoded
        return cast("list[dict[str, Any]]", sendable([each.to_wire(uri) for each in self.read(value)]))

    def read(self, value: Any) -> list[ResourceContents]:
        """Return the function's return value as a list of contents."""
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
        text = to_json(value, by_alias=True, inf_nan_mode="null").decode()
        return ResourceContents(text, mime_type=self.mime_type or "application/json")
