"""Tools (2026-07-28, Tools)."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from django_mcp.primitives.base import Primitive, parse_rate
from django_mcp.primitives.compatibility import for_arguments, for_results
from django_mcp.primitives.function import Function, bound, mentions_models, read_function
from django_mcp.primitives.generators import collected
from django_mcp.primitives.markers import Mirror, mirrored, without_null_defaults
from django_mcp.primitives.output import Output
from django_mcp.primitives.schema import Arguments
from django_mcp.protocol.jsonrpc import Result

TASK_SUPPORT = ("optional", "required", "never")
POLICIES = ("allow", "ask", "block")
VISIBILITY = ("model", "app")


class Tool(Primitive):
    """A function that models call. ``@tool`` documents the options.

    Args:
        arguments: validates the arguments in place of the signature, for functions with ``**kwargs``.

    Attributes:
        mirrors: parameters repeated in headers.
        read, read_preview: the functions as read; ``function`` and ``preview`` may wrap them.
        annotations: the hints, available before ``definition`` is complete.
        waives_permission: the site allows writing rows without the model's permission.
        has_limits: calls have limits while they run (``core.execution``).
        app: the ``core.apps.App`` that shows its results, or None.
        visibility: who calls it in a client that shows apps: the model, an app, or both.
        opens: key of the tool whose form it shows, or "".
        search_above: number of a caller's tools above which an endpoint that has this one searches them, unless the
            site says otherwise; 0 for tools that come one by one.
        task_handler: takes the ``Context``, the tool and the validated arguments; returns the ``Result``, or None to
            run the function now.
    """

    kind = "tool"
    waives_permission = False
    opens = ""
    search_above = 0

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
        task: str | None = "never",
        before_task: Callable[..., Any] | None = None,
        log_arguments: bool = True,
        policy: str | None = None,
        preview: Callable[..., Any] | None = None,
        self_approval: bool | None = None,
        app: Any = None,
        visibility: Sequence[str] = VISIBILITY,
        **options: Any,
    ) -> None:
        super().__init__(call, **options)
        self.require_plain_name()
        self.origin: Any = self
        """The tool of which this one is a copy, for another endpoint, or itself."""
        self.app = app
        self.view_context: Callable[[Any, Any], Mapping[str, Any]] | None = None
        """Takes the context and the result as the app's template gets it; returns further variables of the template."""
        self.visibility = self._read_visibility(visibility)
        self.for_apps = "model" not in self.visibility
        if app is not None:
            self._add_meta({"resourceUri": app.uri})
        # A read-only tool has nothing to roll back, and a transaction may wait for the write lock.
        self.atomic = not read_only if atomic is None else atomic
        self.rate = parse_rate(rate_limit, self.label)
        self.timeout, self.concurrency_limit, self.max_output_chars = timeout, concurrency_limit, max_output_chars
        self.idempotency_key = idempotency_key
        self.read_only = bool(read_only)
        self.has_limits = bool(timeout or concurrency_limit or idempotency_key)
        self._check_limits()
        self.task = self._support(task, before_task)
        self.before_task = None if before_task is None else read_function(before_task, options["context_type"])
        self.policy = self._policy(policy)
        self.self_approval = self_approval
        if self_approval not in {None, True, False}:
            msg = f"{self.label}: self_approval must be True, False or None, not {self_approval!r}."
            raise ImproperlyConfigured(msg)
        self.read_preview = None if preview is None else read_function(preview, options["context_type"])
        self.preview = self.read_preview
        self.rows_of: Callable[[Any, Mapping[str, Any]], Mapping[str, Any]] | None = None
        """Takes the context and the validated arguments; returns the rows they address by argument name, and under ""
        a row that no argument names. May write."""
        self.check_call: Callable[[Any, Mapping[str, Any]], Any] | None = None
        """Takes the context and the validated arguments; raises the error with which the call would fail before it does
        anything. It is asked before an approval is requested, beside ``preview``, which may find such errors too."""
        self.task_handler: Callable[[Any, Tool, dict[str, Any]], Awaitable[Result | None]] | None = None
        self.always_listed = always_listed
        self.log_arguments = log_arguments
        self._arguments = arguments
        self._schema = None if input_schema is None else self._written(input_schema)
        self._context_type: type = options["context_type"]
        self._take(self.function)
        hints = {
            "readOnlyHint": read_only,
            # Directories ask for both hints: a tool that only reads is never destructive.
            "destructiveHint": False if read_only and destructive is None else destructive,
            "idempotentHint": idempotent,
            "openWorldHint": open_world,
        }
        self.annotations: Mapping[str, bool] = {key: value for key, value in hints.items() if value is not None}
        if self.annotations:
            self.definition["annotations"] = dict(self.annotations)

    def _take(self, function: Function) -> None:
        self.read = self.function = collected(function)
        self.is_interactive = (
            self.is_interactive or function.is_async or self.read.context is not None or self.task is not None
        )
        if not self.is_deferred:
            self.settle(self.read)

    @property
    def is_deferred(self) -> bool:
        # Functions with models, and methods, are completed at startup.
        return self.read.is_unbound or mentions_models(self.read)

    def bind(self) -> None:
        """Bind a method that was decorated in its class body.

        Raises:
            ImproperlyConfigured: the class cannot be found, or requires arguments.
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
        bound(function.call)  # raises a clear error
        return read_function(function.call, self._context_type)

    def settle(self, function: Function) -> None:
        """Set the function to run, possibly a wrapper, and complete the definition.

        Raises:
            ImproperlyConfigured: the type of an argument or of the result has no JSON Schema.
        """
        self.function = function
        self.arguments = self._arguments or Arguments(function.parameters, self.label, is_json=True)
        self.output = Output(function.returns, self.label)
        schema = without_null_defaults(self.arguments.schema) if self._schema is None else self._schema
        self.mirrors: tuple[Mirror, ...] = mirrored(schema, self.label)
        self._check_idempotency_key(schema)
        self._names = frozenset({*schema.get("properties", ()), *(parameter.name for parameter in function.parameters)})
        self._check_preview()
        self.definition = {
            **self.definition,
            "inputSchema": for_arguments(schema) if self._schema is None else schema,
        }
        if self.output.schema is not None:
            self.definition["outputSchema"] = for_results(self.output.schema)

    def schema_for(self, context: Any) -> dict[str, Any] | None:  # noqa: ARG002
        """Return the schema of the arguments for the caller of a context, or None for that of all. May query."""
        return None

    @property
    def form_schema(self) -> Mapping[str, Any]:
        """The schema of the arguments for people's forms: with all choices, which ``inputSchema`` may only describe."""
        return without_null_defaults(self.arguments.schema) if self._schema is None else self._schema

    def _check_preview(self) -> None:
        taken = () if self.preview is None else self.preview.parameters
        if strange := [
            parameter.name for parameter in taken if parameter.required and parameter.name not in self._names
        ]:
            msg = (
                f"{self.label}: preview takes {', '.join(strange)}, which the tool does not. Use the tool's parameter "
                "names, or set a default."
            )
            raise ImproperlyConfigured(msg)

    def _check_idempotency_key(self, schema: Mapping[str, Any]) -> None:
        if self.idempotency_key is not None and self.idempotency_key not in schema.get("properties", {}):
            msg = f"{self.label}: idempotency_key={self.idempotency_key!r} must be the name of one of its arguments."
            raise ImproperlyConfigured(msg)

    def _check_limits(self) -> None:
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

    def _read_visibility(self, visibility: Sequence[str]) -> frozenset[str]:
        found = frozenset(self._listed("visibility", visibility))
        if not found or not found <= set(VISIBILITY):
            msg = f"{self.label}: visibility must be a list of 'model' and 'app', not {visibility!r}."
            raise ImproperlyConfigured(msg)
        return found

    def _add_meta(self, ui: Mapping[str, Any]) -> None:
        meta = self.definition.get("_meta", {})
        if "ui" in meta:
            msg = f"{self.label}: give either app= or meta={{'ui': …}}, not both."
            raise ImproperlyConfigured(msg)
        self.definition["_meta"] = {**meta, "ui": dict(ui)}

    @property
    def app_definition(self) -> dict[str, Any]:
        """The definition for clients that show apps: with the visibility, if that is not the default."""
        if len(self.visibility) == len(VISIBILITY):
            return self.definition
        meta = self.definition.get("_meta", {})
        ui = {**meta.get("ui", {}), "visibility": sorted(self.visibility)}
        return {**self.definition, "_meta": {**meta, "ui": ui}}

    @property
    def text_definition(self) -> dict[str, Any]:
        """The definition for other clients: without a page that is empty without the HTML that they do not get."""
        given = self.definition.get("_meta", {})
        if self.app is None or "ui" not in given or not self.app.needs_html:
            return self.definition
        meta = {key: value for key, value in given.items() if key != "ui"}
        rest = {key: value for key, value in self.definition.items() if key != "_meta"}
        return {**rest, "_meta": meta} if meta else rest

    def is_for_model(self, *, shows_apps: bool) -> bool:
        """Return True if models may call it, through a client that does or does not show apps."""
        return "model" in self.visibility or not (shows_apps or self.for_apps)

    def _policy(self, policy: str | None) -> str | None:
        if policy not in {None, *POLICIES}:
            msg = f"{self.label}: policy must be one of {', '.join(map(repr, POLICIES))}, not {policy!r}."
            raise ImproperlyConfigured(msg)
        return policy

    def _written(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        if schema.get("type") != "object":
            msg = f'{self.label}: input_schema must have "type": "object" at the top level.'
            raise ImproperlyConfigured(msg)
        try:
            return json.loads(json.dumps(schema, allow_nan=False))  # type: ignore[no-any-return]
        except (TypeError, ValueError) as error:
            msg = f"{self.label}: input_schema must be JSON serializable: {error}."
            raise ImproperlyConfigured(msg) from error

    @property
    def is_repeatable(self) -> bool:
        return bool(self.annotations.get("readOnlyHint") or self.annotations.get("idempotentHint"))
