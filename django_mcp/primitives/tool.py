"""Tools (2026-07-28, Tools)."""

from collections.abc import Callable
from typing import Any

from django_mcp.primitives.base import Primitive
from django_mcp.primitives.output import Output
from django_mcp.primitives.schema import Arguments


class ToolError(Exception):
    """Raised by a tool to tell the model what went wrong and what to do instead.

    The text goes to the client as it is; never put into it what the caller may not see.
    """


class Tool(Primitive):
    """A function a model may call.

    Args:
        atomic: run a synchronous function in a transaction of the default database, rolled back on any error; by
            default all that is not ``read_only``.
        read_only, destructive, idempotent, open_world: hints for clients (``ToolAnnotations``).
        other arguments: see ``Primitive``.
    """

    kind = "tool"

    def __init__(
        self,
        call: Callable[..., Any],
        *,
        read_only: bool | None = None,
        destructive: bool | None = None,
        idempotent: bool | None = None,
        open_world: bool | None = None,
        atomic: bool | None = None,
        **options: Any,
    ) -> None:
        super().__init__(call, **options)
        self.require_plain_name()
        # What changes nothing has nothing to roll back; and a transaction may mean waiting for the write lock.
        self.atomic = not read_only if atomic is None else atomic
        self.arguments = Arguments(self.function.parameters, self.label)
        self.output = Output(self.function.returns, self.label)
        self.definition["inputSchema"] = self.arguments.schema
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
