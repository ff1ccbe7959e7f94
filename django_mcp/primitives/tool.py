"""Tools (2026-07-28, Tools)."""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from django_mcp.primitives.base import Primitive, parse_rate
from django_mcp.primitives.function import Function, bound, mentions_models, read_function
from django_mcp.primitives.generators import collected
from django_mcp.primitives.markers import Mirror, mirrored, without_null_defaults
from django_mcp.primitives.output import Output
from django_mcp.primitives.schema import Arguments
from django_mcp.protocol.jsonrpc import Result

TASK_SUPPORT = ("optional", "required", "never")
POLICIES = ("allow", "ask", "block")


class Tool(Primitive):
    """A function a model may call.

    Args:
        input_schema: what is published as ``inputSchema``, as it stands, in place of the one made from the signature;
            arguments are checked by the signature all the same.
        arguments: checks the arguments, in place of what the signature says: for functions that take whatever it gives.
        rate_limit: how often a caller may call it, like ``"10/m"``.
        timeout: seconds a call may take; 0 for no limit, None for that of the site.
        concurrency_limit: how many calls run at once in a process; None for no limit.
        max_output_chars: the most characters of a result; 0 for no limit, None for that of the site.
        idempotency_key: the argument that says which calls are the same call again.
        atomic: run a synchronous function in a transaction of the default database, rolled back on any error; by
            default all that is not ``read_only``.
        read_only, destructive, idempotent, open_world: hints for clients (``ToolAnnotations``).
        always_listed: list it even where tools are so many that they are searched.
        task: whether its calls may go on in the background: ``"optional"``, ``"required"`` or ``"never"``.
        before_task: takes what the function takes; runs before the client is told that there is a task.
        log_arguments: keep the arguments in the log of calls, where the site does.
        policy: what its calls meet where people decided nothing: ``"allow"``, ``"ask"`` or ``"block"``; None for what
            its hints say.
        preview: takes what the function takes; tells the person who is asked what would change.
        other arguments: see ``Primitive``.

    Attributes:
        mirrors: the parameters that headers repeat.
        read: the function as it was read; ``function`` may have more around it.
        read_preview: that of ``preview`` likewise.
        read_only: it says that it changes nothing.
        annotations: its hints, as ``ToolAnnotations`` has them; known before the rest of ``definition`` may be.
        waives_permission: it writes rows of a model without that model's permission, because the site said so.
        is_conducted: its calls are seen to while they run (``core.execution``).
        task_handler: from the ``Context`` of a call, the tool and the checked arguments to the ``Result``, in place of
            running the function there and then; or to None, to run it.
    """

    kind = "tool"
    waives_permission = False

    def __init__(
        self,
        call: Callable[..., Any],
        *,
        input_schema: Mapping[str, Any] | None = None,
        arguments: Arguments | None = None,
        read_only: bool | None = None,
        destructive: bool | None = None,
        idempotent: bool | None = None,
        open_world: bool | None = None,
        atomic: bool | None = None,
        rate_limit: str | None = None,
        timeout: float | None = None,
        concurrency_limit: int | None = None,
        max_output_chars: int | None = None,
        idempotency_key: str | None = None,
        always_listed: bool = False,
        task: str | None = None,
        before_task: Callable[..., Any] | None = None,
        log_arguments: bool = True,
        policy: str | None = None,
        preview: Callable[..., Any] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(call, **options)
        self.require_plain_name()
        # What changes nothing has nothing to roll back; and a transaction may mean waiting for the write lock.
        self.atomic = not read_only if atomic is None else atomic
        self.rate = parse_rate(rate_limit, self.label)
        self.timeout, self.concurrency_limit, self.max_output_chars = timeout, concurrency_limit, max_output_chars
        self.idempotency_key = idempotency_key
        self.read_only = bool(read_only)
        self.is_conducted = bool(timeout or concurrency_limit or idempotency_key)
        self._check_limits()
        self.task = self._support(task, before_task)
        self.before_task = None if before_task is None else read_function(before_task, options["context_type"])
        self.policy = self._policy(policy)
        self.read_preview = None if preview is None else read_function(preview, options["context_type"])
        self.preview = self.read_preview
        self.rows_of: Callable[[Any, Mapping[str, Any]], Mapping[str, Any]] | None = None
        """Takes context and checked arguments, gives the rows that these address, by argument; under "" the one that
        no argument says. It may write."""
        self.task_handler: Callable[[Any, Tool, dict[str, Any]], Awaitable[Result | None]] | None = None
        self.always_listed = always_listed
        self.log_arguments = log_arguments
        self._arguments = arguments
        self._schema = None if input_schema is None else self._written(input_schema)
        self._context_type: type = options["context_type"]
        self._take(self.function)
        hints = {
            "readOnlyHint": read_only,
            "destructiveHint": destructive,
            "idempotentHint": idempotent,
            "openWorldHint": open_world,
        }
        self.annotations: Mapping[str, bool] = {key: value for key, value in hints.items() if value is not None}
        if self.annotations:
            self.definition["annotations"] = dict(self.annotations)

    def _take(self, function: Function) -> None:
        """Use *function* as it was read; what is open is settled later."""
        self.read = self.function = collected(function)
        self.is_interactive = (
            self.is_interactive or function.is_async or self.read.context is not None or self.task is not None
        )
        if not self.is_deferred:
            self.settle(self.read)

    @property
    def is_deferred(self) -> bool:
        """Whether what it takes and gives shows only at the start: with models, or as a method of a class."""
        return self.read.is_unbound or mentions_models(self.read)

    def bind(self) -> None:
        """Find the class of a method that was decorated in the body of its class.

        Raises:
            ImproperlyConfigured: it cannot be found, or not be made without arguments.
        """
        if self.read_preview is not None and self.read_preview.is_unbound:
            self.read_preview = self.preview = self._bound(self.read_preview)
        if self.before_task is not None and self.before_task.is_unbound:
            self.before_task = self._bound(self.before_task)
        if self.read.is_unbound:
            self._take(self._bound(self.read))
        elif not self.is_deferred:
            self._check_preview()

    def _bound(self, function: Function) -> Function:
        bound(function.call)  # which says what is wrong, if something is
        return read_function(function.call, self._context_type)

    def settle(self, function: Function) -> None:
        """Run *function*, and tell of what it takes and gives.

        Args:
            function: what was read, or what was put around it.

        Raises:
            ImproperlyConfigured: the type of an argument or of the result has no JSON Schema.
        """
        self.function = function
        self.arguments = self._arguments or Arguments(function.parameters, self.label, is_json=True)
        self.output = Output(function.returns, self.label)
        schema = without_null_defaults(self.arguments.schema) if self._schema is None else self._schema
        self.mirrors: tuple[Mirror, ...] = mirrored(schema, self.label)
        self._check_idempotency_key(schema)
        self._names = frozenset({*schema.get("properties", ()), *(each.name for each in function.parameters)})
        self._check_preview()
        self.definition = {**self.definition, "inputSchema": schema}
        if self.output.schema is not None:
            self.definition["outputSchema"] = self.output.schema

    def _check_preview(self) -> None:
        """Refuse a preview that could never be called."""
        taken = () if self.preview is None else self.preview.parameters
        if strange := [each.name for each in taken if each.required and each.name not in self._names]:
            msg = (
                f"{self.label}: preview takes {', '.join(strange)}, which the tool does not. Name its parameters as "
                "the tool does, or give them a default."
            )
            raise ImproperlyConfigured(msg)

    def _check_idempotency_key(self, schema: Mapping[str, Any]) -> None:
        """Refuse a key that is none of the arguments."""
        if self.idempotency_key is not None and self.idempotency_key not in schema.get("properties", {}):
            msg = f"{self.label}: idempotency_key={self.idempotency_key!r} must be the name of one of its arguments."
            raise ImproperlyConfigured(msg)

    def _check_limits(self) -> None:
        """Refuse limits that are none."""
        for name, least in (("timeout", 0), ("max_output_chars", 0), ("concurrency_limit", 1)):
            value = getattr(self, name)
            kinds = {int, float} if name == "timeout" else {int}
            if value is not None and (type(value) not in kinds or not value >= least):
                msg = f"{self.label}: {name} must be a number of at least {least}, not {value!r}."
                raise ImproperlyConfigured(msg)

    def _support(self, task: str | None, before_task: Any) -> str | None:
        if task not in {None, *TASK_SUPPORT}:
            msg = f"{self.label}: task must be one of {', '.join(map(repr, TASK_SUPPORT))}, not {task!r}."
            raise ImproperlyConfigured(msg)
        support = None if task == "never" else task
        if before_task is not None and support is None:
            msg = f'{self.label}: before_task is for tools with task="optional" or task="required".'
            raise ImproperlyConfigured(msg)
        return support

    def _policy(self, policy: str | None) -> str | None:
        if policy not in {None, *POLICIES}:
            msg = f"{self.label}: policy must be one of {', '.join(map(repr, POLICIES))}, not {policy!r}."
            raise ImproperlyConfigured(msg)
        return policy

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
        return bool(self.annotations.get("readOnlyHint") or self.annotations.get("idempotentHint"))
