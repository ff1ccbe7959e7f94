"""Tools (2026-07-28, Tools)."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from django_mcp.primitives.base import Primitive
from django_mcp.primitives.mirrors import Mirror, mirrored, without_null_defaults
from django_mcp.primitives.output import Output
from django_mcp.primitives.rates import parse_rate
from django_mcp.primitives.schema import Arguments


class ToolError(Exception):
    """Raised by a tool to tell the model what went wrong and what to do instead.

    The text goes to the client as it is; never put into it what the caller may not see.
    """


class Tool(Primitive):
    """A function a model may call.

    Args:
        input_schema: what is published as ``inputSchema``, as it stands, in place of the one made from the signature;
            arguments are checked by the signature all the same.
        rate_limit: how often a caller may call it, like ``"10/m"``.
        atomic: run a synchronous function in a transaction of the default database, rolled back on any error; by
            default all that is not ``read_only``.
        read_only, destructive, idempotent, open_world: hints for clients (``ToolAnnotations``).
        other arguments: see ``Primitive``.

    Attributes:
        mirrors: the parameters that headers repeat.
    """

    kind = "tool"

    def __init__(
        self,
        call: Callable[..., Any],
        *,
        input_schema: Mapping[str, Any] | None = None,
        read_only: bool | None = None,
        destructive: bool | None = None,
        idempotent: bool | None = None,
        open_world: bool | None = None,
        atomic: bool | None = None,
        rate_limit: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(call, **options)
        self.require_plain_name()
        # What changes nothing has nothing to roll back; and a transaction may mean waiting for the write lock.
        self.atomic = not read_only if atomic is None else atomic
        self.rate = parse_rate(rate_limit)
        self.arguments = Arguments(self.function.parameters, self.label)
        self.output = Output(self.function.returns, self.label)
        schema = without_null_defaults(self.arguments.schema) if input_schema is None else self._written(input_schema)
        self.mirrors: tuple[Mirror, ...] = mirrored(schema, self.label)
        self.definition["inputSchema"] = schema
        if self.output.schema is not None:
            self.definition["outputSchema"] = self.output.schema
        hints = {
            "readOnlyHint": read_only,
            "destructiveHint": destructive,
            "idempotentHint": idempotent,
            "openWorldHint": open_world,
        }
        if given := {key: value for key, value in hints.items() if value is not None}:
            self.definition["annotations"] = given

    def _written(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """A copy of a schema somebody wrote, after a look at what would lose the tool to every client."""
        if schema.get("type") != "object":
            msg = f'{self.label}: input_schema must have "type": "object" at its top.'
            raise ImproperlyConfigured(msg)
        try:
            return json.loads(json.dumps(schema, allow_nan=False))  # type: ignore[no-any-return]
        except (TypeError, ValueError) as error:
            msg = f"{self.label}: input_schema must be JSON: {error}."
            raise ImproperlyConfigured(msg) from error

    @property
    def is_repeatable(self) -> bool:
        """Whether calling it again with the same arguments changes nothing more, as far as it says itself."""
        hints = self.definition.get("annotations", {})
        return bool(hints.get("readOnlyHint") or hints.get("idempotentHint"))
