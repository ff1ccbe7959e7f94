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
    """A function that gives the contents of one URI.

    It may return text (str), bytes, a ``ResourceContents`` or a list of them, or anything pydantic can turn
    into JSON.

    Args:
        uri: the URI.
        mime_type: media type; by default text/plain, application/json or application/octet-stream, by what is
            returned.
        size: bytes, where known beforehand.
        annotations: hints for clients.
        completions: functions that complete the variables of a template.
        exists: takes the context and the arguments of several URIs that fit the template; tells of each whether it is
            a resource for the caller. May be a query. None: every one is.
        other arguments: see ``Primitive``.

    Attributes:
        completers: for each variable that can be completed.
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
                f"{self.label}: the variables of {uri!r} ({', '.join(template.variables) or 'none'}) and the "
                f"parameters of the function ({', '.join(parameters) or 'none'}) must be the same."
            )
            raise ImproperlyConfigured(msg)
        for name in template.optional:
            if parameters[name].required:
                msg = f"{self.label}: {{?{name}}} may be absent from the URI, so parameter {name!r} needs a default."
                raise ImproperlyConfigured(msg)
        return template

    @property
    def is_template(self) -> bool:
        """Whether the URI has variables."""
        return bool(self.template.variables)

    def match(self, uri: str) -> dict[str, Any] | None:
        """The function's arguments for *uri*; None where the URI is not this one's."""
        variables = self.template.match(uri)
        if variables is None:
            return None
        try:
            return self.arguments.validate(variables)
        except ArgumentError:  # calendar://events/soon is no resource of calendar://events/{year}, year an int
            return None

    def contents(self, uri: str, value: Any) -> list[dict[str, Any]]:
        """``contents`` of the result for what the function returned, when *uri* was asked for."""
        uri = iri_to_uri(uri)  # some clients do not encode what they ask for; our answer is to be right all the same
        return cast("list[dict[str, Any]]", sendable([each.to_wire(uri) for each in self.read(value)]))

    def read(self, value: Any) -> list[ResourceContents]:
        """What the function returned as contents, each with its media type."""
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
