"""The method table, and the handlers of calls and reads, with the observer and the approval gate."""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from django.core.exceptions import PermissionDenied
from django.utils import translation

from django_mcp.conf import settings
from django_mcp.core import throttling, tool_search
from django_mcp.core.channel import Cancelled
from django_mcp.core.completion import complete
from django_mcp.core.concurrency import AROUND_JOBS, Runner
from django_mcp.core.context import Context
from django_mcp.core.database import in_transaction
from django_mcp.core.elicitation import InputRequired
from django_mcp.core.execution import ToolExecution, execute_tool, run_to_completion, too_large
from django_mcp.core.failures import (
    Escaped,
    UnknownPrimitive,
    apply_handler,
    as_call_error,
    is_for_handler,
    log_survived,
    raise_as_call_error,
    request_failure,
    tool_failure,
    unknown_primitive,
)
from django_mcp.core.lists import list_prompts, list_resource_templates, list_resources, list_tools
from django_mcp.core.permissions import find_rule, look_for, may_use
from django_mcp.core.policies import ApprovalGrant, Decision, Rule, policy_cache
from django_mcp.core.rate_limited_log import log_rate_limited
from django_mcp.core.request import tenant_of
from django_mcp.core.resources import MAX_SHORT, matches, read, run
from django_mcp.core.server import MCPServer
from django_mcp.primitives.base import Primitive, ToolError
from django_mcp.primitives.output import OutputTooLarge
from django_mcp.primitives.prompt import Prompt, strings_only
from django_mcp.primitives.resource import Resource
from django_mcp.primitives.schema import ArgumentError
from django_mcp.primitives.text_values import READABLE
from django_mcp.primitives.tool import Tool
from django_mcp.primitives.validation_errors import MAX_REPORTED, kind_name
from django_mcp.protocol.errors import InternalError, InvalidParams, MethodNotFound
from django_mcp.protocol.jsonrpc import Result, encode
from django_mcp.protocol.meta import (
    IDEMPOTENCY_KEY,
)

if TYPE_CHECKING:
    from django_mcp.core.principal import Principal

logger = logging.getLogger("django_mcp")


class ObservedCall(Protocol):
    """An observed call; ``dispatch`` sets its result, which the observer may complete with its encoding."""

    result: Result | None


class Observer(Protocol):
    """An observer of calls, which writes the request log."""

    def watch(self, context: Context) -> AbstractAsyncContextManager[ObservedCall] | None:
        """Return a context manager that records the call, or None.

        It may raise ``ProtocolError``, which replaces the result, if the call cannot be recorded.
        """

    async def refused(
        self,
        server: MCPServer,
        principal: "Principal | None",
        runner: Runner,
        get_django_request: Callable[[], Any],
        message: Any,
        reason: str,
        crash: BaseException | None = None,
    ) -> None:
        """Record a request that was rejected before dispatch.

        Args:
            server: the endpoint.
            principal: the caller, if known.
            runner: the transport's.
            get_django_request: returns a Django request.
            message: decoded, if it was read; of a batch the message that was refused.
            reason: the error text sent to the client.
            crash: the unexpected exception that was the reason, if it was one.
        """


observer: Observer | None = None
"""Set by ``audit`` at start-up. Read it as ``dispatch.observer``."""


async def call_tool(context: Context) -> Result:
    """Handle ``tools/call``. Errors in the tool are results, so that the model can read them."""
    name = context.params.get("name")
    if not isinstance(name, str):
        raise _not_a_string("name")
    tool = context.server.tools.get(name)
    if tool is None and (tool := tool_search.find(context.server, name)) is not None and tool_search.is_relay(tool):
        return await _call_by_relay(context, tool)
    if tool is None:
        await look_for(context, context.server.tools.values())
    # Most tools are for all callers and need no check.
    policies = context.server.policies
    guarded = tool is not None and (
        tool.is_guarded
        or context.principal.read_only  # as limits_tools, without a call
        or context.principal.client_id in policies.limits
        or tool.key in policies.blocking
        or tool.for_apps
    )
    if tool is None or (guarded and not await may_use(context, tool)):
        raise await _unknown_tool(context, name)
    if context.relay is not None and (relay := tool_search.relay_for(tool)) is not context.relay:
        return tool_failure(ToolError(f"{context.relay.name} does not call {name!r}. Use {relay.name}."), context)
    if (context.server.rate is not None or tool.rate is not None) and not context.channel.is_task:
        dialogue = context.channel.dialogue
        count = partial(throttling.count, context.server, tool, context.principal)
        count = partial(count, f"{dialogue.id} {dialogue.round}") if dialogue.round else count
        await context.site_runner.checks.sync(count)
    try:
        return await _run_call(context, tool)
    except BaseException as error:  # noqa: BLE001 - tool_failure decides
        return await _failure_of(context, tool, call_error(context, error))


async def _run_call(context: Context, tool: Tool) -> Result:  # noqa: C901 - each further call costs every call of a tool
    if tool.is_late:
        await context.site_runner.checks.sync(tool.find_failure)
    arguments = context.params.get("arguments")
    if type(arguments) is not dict:
        arguments = _arguments(context.params)
    if settings.IGNORED_ARGUMENTS:
        arguments = _without_ignored(arguments, tool)
    if tool.mirrors and context.relay is None:
        context.channel.check_mirrors(tool.mirrors, arguments)
    if not READABLE.isdisjoint(map(type, arguments.values())):
        arguments = await _read_text(context, tool, arguments)
    if settings.CALL_CONTEXT_MANAGERS or context.is_large:
        keywords = await _validate(context, tool, arguments)
    else:
        keywords = tool.arguments.validate(arguments)
    if (tool.key in context.server.policies.asking or context.channel.needs_approval) and (
        answer := await _check_approval(context, tool, keywords)
    ) is not None:
        return answer
    if tool.function.context is not None:
        keywords = tool.keywords(context, keywords)
    if tool.task_handler is not None and (answer := await _start_task(context, tool, keywords)) is not None:
        return answer
    meta = context.params.get("_meta")
    is_keyed = type(meta) is dict and IDEMPOTENCY_KEY in meta
    if not (is_keyed or tool.has_limits or settings.TOOL_TIMEOUT):
        return Result(await _run_tool(context, tool, keywords))
    return Result(await execute_tool(context, tool, arguments, partial(_run_tool, context, tool, keywords)))


async def _read_text(context: Context, tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
    # The context is changed too, because the log, approvals and tasks read the arguments there.
    read = partial(tool.arguments.read_text, arguments)
    meant = await context.site_runner.checks.sync(read) if context.is_large else read()
    if meant is not arguments:
        context.params = {**context.params, "arguments": {**_arguments(context.params), **meant}}
    return meant


async def _validate(context: Context, primitive: Tool | Prompt, arguments: Mapping[str, Any]) -> dict[str, Any]:
    # Validated inside the site's context managers, and off the event loop.
    return await context.site_runner.checks.sync(partial(primitive.arguments.validate, arguments))


ApprovalGate = Callable[[Context, Tool, dict[str, Any], Rule], Awaitable[Result | None]]
"""Takes a call that requires approval and its validated arguments. Returns the result to send, or None if the call may
run; the context then has its ``ApprovalGrant``."""

approval_gate: ApprovalGate | None = None
"""Set by ``approvals`` at start-up; None if calls cannot be approved on this site."""


async def _check_approval(context: Context, tool: Tool, keywords: dict[str, Any]) -> Result | None:
    rule = await find_rule(context, tool)
    # A caller that needs no approval may still have requested a task, which the gate handles.
    may_run = rule.decision is Decision.ALLOW and not context.channel.needs_approval and "task" not in context.params
    if tool.kind != "tool" or may_run:
        return None
    if approval_gate is None:
        raise ToolError("This call requires approval, but approvals are not available on this site.")
    return await approval_gate(context, tool, keywords, rule)


async def _start_task(context: Context, tool: Tool, keywords: dict[str, Any]) -> Result | None:
    if tool.task_handler is None or context.channel.is_task:
        return None
    if context.consume_state is not None:
        await _consume_state(context, context.consume_state)
    return await tool.task_handler(context, tool, keywords)


async def _failure_of(context: Context, tool: Tool, error: Exception) -> Result:
    match error:
        case OutputTooLarge():
            return tool_failure(ToolError(too_large(error, tool)), context)
        case PermissionDenied():
            raise await _unknown_tool(context, tool.name) from None
    return tool_failure(await _handled(error, context), context)


async def _handled(error: BaseException, context: Context) -> BaseException:
    # The handler runs as the code that failed did: in a thread, in the caller's language, inside the site's managers.
    if (path := settings.EXCEPTION_HANDLER) is None or not is_for_handler(error):
        return error
    apply = partial(apply_handler, path, error, context)
    # If the context managers fail, the handler is called without them.
    for runner in dict.fromkeys((context.site_runner.checks, context.runner.checks)):  # one, on a site without managers
        try:
            return await runner.sync(apply)
        except Exception as failure:  # noqa: BLE001 - the call has an answer without the handler
            if runner is context.runner.checks:
                log_survived(failure, "EXCEPTION_HANDLER")
    return error


async def _call_by_relay(context: Context, relay: Tool) -> Result:
    arguments = relay.arguments.read_text(_without_ignored(_arguments(context.params), relay))
    try:
        meant = relay.arguments.validate(arguments)
        named = context.server.tools.get(meant["name"])
        if tool_search.is_relay(tool_search.find(context.server, meant["name"])) or not (
            tool_search.is_for_model(context, named)
        ):
            raise unknown_primitive("tool", meant["name"])
        context.params = {**context.params, **meant}
        context.relay = relay
        return await call_tool(context)
    except UnknownPrimitive as error:
        # An unknown name is a tool error, because it is an argument to the model.
        return tool_failure(ToolError(f"{error.message} Use search_tools to find the available tools."), context)
    except ArgumentError as error:
        return tool_failure(ArgumentError([*error.problems, *tool_search.misplaced_arguments(arguments)]), context)


async def _consume_state(context: Context, consume: Callable[[], bool]) -> None:
    context.consume_state = None
    try:
        is_new = await context.runner.own.sync(consume)
    except Exception as error:
        # A tool result would end the call, but a request that failed may be repeated.
        raise request_failure(error, context) from error
    if not is_new:
        raise InvalidParams("This requestState was already used. Send the call again without it.")


async def _run_tool(
    context: Context, tool: Tool, keywords: dict[str, Any], execution: ToolExecution | None = None
) -> dict[str, Any]:
    if context.consume_state is not None:
        await _consume_state(context, context.consume_state)
    most = settings.MAX_OUTPUT_CHARS if tool.max_output_chars is None else tool.max_output_chars or None
    most_bytes = settings.MAX_BINARY_BYTES
    runner = context.site_runner if settings.CALL_CONTEXT_MANAGERS else context.runner
    function = tool.function
    if function.is_async:
        call = partial(function.call if execution is None else execution.in_time(function.call), **keywords)
        if context.grant is not None:
            fields = await _run_approved_coroutine(context, context.grant, call, tool, most, most_bytes)
        else:
            fields = await _convert(tool, await runner.coroutine(call), runner, most, most_bytes)
        if tool.app is not None:
            await run_to_completion(runner.checks, partial(_add_view, context, tool, fields))
        return fields
    work = partial(_run_function, context, tool, keywords, execution, most, most_bytes)
    if tool.atomic:
        work = partial(in_transaction, work, context if function.context else None)
    if context.grant is not None:
        work = partial(_run_approved, context, context.grant, work)
    return await runner.sync(work if execution is None else partial(execution.run_in_thread, work))


def _run_function(
    context: Context,
    tool: Tool,
    keywords: dict[str, Any],
    execution: ToolExecution | None,
    most: int | None,
    most_bytes: int | None,
) -> dict[str, Any]:
    if context.channel.cancelled:  # while it waited for a thread
        raise Cancelled
    if execution is not None:
        execution.limit_statements()
    try:
        # A returned queryset is evaluated here, inside the transaction.
        fields = tool.output.fields(tool.function.call(**keywords), most, most_bytes)
    except BaseExceptionGroup as group:  # what it means decides how the transaction and the approval end
        raise_as_call_error(group)
    if tool.app is not None:
        _add_view(context, tool, fields)
    if context.channel.cancelled and tool.atomic:  # no client will get the result, so roll back
        raise Cancelled
    if execution is not None:
        execution.store_result(fields)
    if context.channel.is_task:
        context.channel.store_result(fields)
    return fields


def _run_approved(context: Context, grant: ApprovalGrant, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    _require_client(context)
    return grant.around(work)


def _use_grant(context: Context, grant: ApprovalGrant) -> None:
    _require_client(context)
    grant.use()


def _require_client(context: Context) -> None:
    # The client may have left while its call waited for a thread. Its approval stays valid then.
    if context.channel.cancelled:
        raise Cancelled


JSON_VALUE = 64
"""Characters that each value counts as, towards ``MAX_SHORT``."""


async def _convert(tool: Tool, value: Any, runner: Runner, most: int | None, most_bytes: int | None) -> dict[str, Any]:
    # A large value would block the event loop.
    if _is_short(value):
        return tool.output.fields(value, most, most_bytes)
    return await run_to_completion(runner.checks, partial(tool.output.fields, value, most, most_bytes))


def _is_short(value: Any) -> bool:
    # Short JSON and small records are converted without waiting for a thread.
    room, parts = MAX_SHORT, [value]
    while parts:
        part = parts.pop()
        kind = type(part)  # not isinstance(), for which a lazy object would be evaluated
        room -= JSON_VALUE  # for each, or a record that contains itself would have no end
        if issubclass(kind, str):
            room -= len(part)
        elif part is None or issubclass(kind, (int, float)):
            pass
        elif kind in {list, tuple, dict}:
            room -= JSON_VALUE * len(part)
            if room > 0:
                parts += [*part.keys(), *part.values()] if kind is dict else part
        elif hasattr(kind, "__pydantic_fields__") or hasattr(kind, "__dataclass_fields__"):
            parts += vars(part).values() if hasattr(part, "__dict__") else [...]
        else:
            return False
        if room <= 0:
            return False
    return True


def _add_view(context: Context, tool: Tool, fields: dict[str, Any]) -> None:
    if not context.shows_apps:
        return
    structured = fields.get("structuredContent")
    result = structured["result"] if structured is not None and tool.output.is_wrapped else structured
    text = "\n\n".join(block["text"] for block in fields["content"] if block["type"] == "text")
    tool.app.add_view(context, fields, text if structured is None else result, text, tool.view_context)


async def _run_approved_coroutine(
    context: Context,
    grant: ApprovalGrant,
    call: Callable[[], Awaitable[Any]],
    tool: Tool,
    most: int | None,
    most_bytes: int | None,
) -> dict[str, Any]:
    # The same as ApprovalGrant.around(), for coroutine functions.
    await context.runner.checks.sync(partial(_use_grant, context, grant))
    outcome = "error"
    try:
        value = await context.site_runner.coroutine(call)
        fields = await _convert(tool, value, context.site_runner, most, most_bytes)
        outcome = "error" if fields.get("isError") else "ok"
    except InputRequired:
        # The call asks a question, so it has no outcome yet.
        outcome = ""
        raise
    finally:
        if outcome:
            # The grant is used up, so its outcome must be recorded even if the client leaves.
            await run_to_completion(context.runner.checks, partial(grant.ended, outcome))
    return fields


async def read_resource(context: Context) -> Result:
    uri = context.params.get("uri")
    if not isinstance(uri, str):
        raise _not_a_string("uri")

    def show(resource: Resource, value: Any) -> Result:
        contents = resource.contents(uri, value, settings.MAX_BINARY_BYTES)
        return Result({"contents": contents}, ttl_ms=0, parts={"contents": encode(contents)})

    try:
        return await read(context, uri, show, context.site_runner)
    except OutputTooLarge as error:
        raise _size_error("resource", uri, error) from None


def _size_error(kind: str, name: str, error: OutputTooLarge) -> InternalError:
    # Logged, because the site can fix this and the caller cannot.
    log_rate_limited(logging.WARNING, "a %s is larger than MAX_BINARY_BYTES: %s has %s", kind, name[:200], error)
    return InternalError(
        f"This {kind} has {error.size:,} {error.unit}; the limit of this server is {error.limit:,}, so it was not sent."
    )


async def get_prompt(context: Context) -> Result:
    name = context.params.get("name")
    if not isinstance(name, str):
        raise _not_a_string("name")
    prompt = context.server.prompts.get(name)
    if prompt is None:
        await look_for(context, context.server.prompts.values())
    if prompt is None or not await may_use(context, prompt):
        raise unknown_primitive("prompt", name)
    arguments = _arguments(context.params)
    if wrong := strings_only(arguments):
        some = ", ".join(repr(name[:100]) for name in wrong[:MAX_REPORTED])
        more = f" and {len(wrong) - MAX_REPORTED} more" if len(wrong) > MAX_REPORTED else ""
        raise InvalidParams(f"Arguments of a prompt must be strings. Not a string: {some}{more}.")
    given = {name: value for name, value in arguments.items() if value}  # forms send empty fields
    if settings.CALL_CONTEXT_MANAGERS or context.is_large:
        checked = await _validate(context, prompt, given)
    else:
        checked = prompt.arguments.validate(given)

    def show(value: Any) -> Result:
        fields = prompt.fields(value, settings.MAX_BINARY_BYTES)
        return Result(fields, parts={"messages": encode(fields["messages"])})

    try:
        return await run(context, prompt, checked, show, context.site_runner)
    except OutputTooLarge as error:
        raise _size_error("prompt", name, error) from None


class Method(NamedTuple):
    """A handler, and the capability that its method requires."""

    handler: Callable[[Context], Awaitable[Result]]
    capability: str


METHODS: Mapping[str, Method] = {
    "tools/list": Method(list_tools, "tools"),
    "tools/call": Method(call_tool, "tools"),
    "resources/list": Method(list_resources, "resources"),
    "resources/templates/list": Method(list_resource_templates, "resources"),
    "resources/read": Method(read_resource, "resources"),
    "prompts/list": Method(list_prompts, "prompts"),
    "prompts/get": Method(get_prompt, "prompts"),
    "completion/complete": Method(complete, "completions"),
}


async def dispatch(
    context: Context, *, extended: bool = False, check_request: Callable[[], Awaitable[None]] | None = None
) -> Result:
    """Handle a call.

    Args:
        context: the call.
        extended: True if the protocol version has extensions.
        check_request: further checks of the protocol version, whose errors the observer sees.

    Raises:
        ProtocolError: the call failed.
        InputRequired: the call needs answers first.
        Cancelled: the client no longer waits.
    """
    watch = None if observer is None else observer.watch(context)
    if watch is None:
        return await _handle(context, extended, check_request)
    async with watch as observed:
        observed.result = await _handle(context, extended, check_request)
    assert observed.result is not None  # noqa: S101
    return observed.result


async def _handle(context: Context, extended: bool, check_request: Callable[[], Awaitable[None]] | None) -> Result:
    if (path := settings.TENANT) is not None:
        await _find_tenant(context, path)  # before check_request, which reads what is kept for it
    if check_request is not None:
        await check_request()
    if context.server.refresh is not None:
        await context.runner.checks.sync(context.server.refresh)
    if policy_cache.due <= monotonic():  # inlined: every call checks this
        await policy_cache.refresh(context.runner)
    method = METHODS.get(context.method)
    if method is not None and method.capability in context.server.capabilities:
        handler = method.handler
    else:
        handler = _extension_method(context, known=extended)
    # The one place that sets the language. The site's managers, which are entered inside, may set another.
    language = context.language
    token = AROUND_JOBS.set(partial(_in_language, language, AROUND_JOBS.get(None)))
    if context.runner.is_inline:  # the thread goes on with other work, in the language that it had
        handler = partial(_restoring_language, handler, language)
    else:
        # Not override(), which costs five times as much: on the loop each call has a context of its own.
        translation.activate(language)
    try:
        return await handler(context)
    except BaseException as error:  # noqa: BLE001 - request_failure decides
        with translation.override(language):
            raise request_failure(await _handled(call_error(context, error), context), context) from None
    finally:
        AROUND_JOBS.reset(token)


async def _find_tenant(context: Context, path: str) -> None:
    try:
        context.tenant = await context.site_runner.checks.sync(lambda: tenant_of(context.request, path))
    except BaseException as error:  # noqa: BLE001 - request_failure decides
        raise request_failure(call_error(context, error), context) from None


async def _restoring_language(
    handler: Callable[[Context], Awaitable[Result]], language: str, context: Context
) -> Result:
    with translation.override(language):
        return await handler(context)


def _in_language(language: str, around: Callable[[Callable[[], Any]], Any] | None, job: Callable[[], Any]) -> Any:
    # A worker thread does not inherit the language. Each job has a context of its own, so nothing is restored.
    translation.activate(language)
    return job() if around is None else around(job)


def call_error(context: Context, error: BaseException) -> Exception:
    """Return the error that ended a call. Call it where *error* was caught.

    Raises:
        InputRequired, Cancelled, asyncio.CancelledError, KeyboardInterrupt: it was no error.
    """
    ended = as_call_error(error)
    if isinstance(ended, Cancelled) and not context.cancelled:
        ended = Escaped(f"The site's code raised {type(ended).__name__} in a call that was not cancelled.")
        ended.__cause__ = error
    if isinstance(ended, Exception):
        return ended
    if ended is error:
        raise  # noqa: PLE0704 - called in an except block
    raise ended from error


def _extension_method(context: Context, *, known: bool) -> Callable[[Context], Awaitable[Result]]:
    for extension in context.server.extensions.values() if known else ():
        if (handler := extension.methods.get(context.method)) is not None:
            return handler
    raise _unknown_method(context)


def _unknown_method(context: Context) -> MethodNotFound:
    return MethodNotFound(f"Unknown method {context.method[:100]!r}.")


def can_interact(server: MCPServer, method: str, params: Mapping[str, Any]) -> bool:
    """Return True if a call may send messages while it runs, or be cancelled. Most calls skip the machinery for it."""
    primitive: Primitive | None = None
    match method:
        case "tools/call":
            primitive = server.tools.get(str(params.get("name"))) or tool_search.called_tool(server, params)
        case "prompts/get":
            primitive = server.prompts.get(str(params.get("name")))
        case "resources/read":
            primitive = server.resources.get(str(params.get("uri")))
            if primitive is None:
                return any(template.is_interactive for template in server.templates.values())
    if primitive is None or primitive.is_interactive:
        return primitive is not None
    # A call may wait for its approver. Expired policies are reloaded only when the call is served.
    if not isinstance(primitive, Tool):
        return False
    return primitive.key in server.policies.asking or (policy_cache.due <= monotonic() and not primitive.read_only)


def named_primitives(server: MCPServer, method: Any, params: Mapping[str, Any]) -> Iterable[Primitive]:
    """Yield the primitives that a call names, in order of precedence. Lists and unknown names yield none."""
    match method, params:
        case "tools/call", _ if (tool := tool_search.called_tool(server, params)) is not None:
            yield tool
        case "prompts/get", {"name": str(name)} if name in server.prompts:
            yield server.prompts[name]
        case "resources/read" | "resources/subscribe", {"uri": str(uri)}:
            yield from (resource for resource, _ in matches(server, uri))
        case "completion/complete", {"ref": {"type": "ref/prompt", "name": str(name)}} if name in server.prompts:
            yield server.prompts[name]
        case "completion/complete", {"ref": {"type": "ref/resource", "uri": str(uri)}}:
            yield from (found for found in (server.templates.get(uri), server.resources.get(uri)) if found)
        case _, {"uri": str(uri)}:
            for extension in server.extensions.values():
                if method in extension.methods:
                    yield from extension.about(server, uri)


def _not_a_string(key: str) -> InvalidParams:
    return InvalidParams(f'"params.{key}" must be a string.')


def _arguments(params: Mapping[str, Any]) -> dict[str, Any]:
    arguments = params.get("arguments")
    if arguments is None or arguments == []:  # an empty object of some languages
        return {}
    if not isinstance(arguments, dict):
        hint = " Send the object itself, not a string that holds it." if isinstance(arguments, str) else ""
        raise InvalidParams(
            f'"params.arguments" must be an object, like {{"name": "value"}}, not {kind_name(arguments)}.{hint}'
        )
    return arguments


def _without_ignored(arguments: dict[str, Any], tool: Tool) -> dict[str, Any]:
    ignored = settings.IGNORED_ARGUMENTS
    own = tool.definition["inputSchema"].get("properties", {})
    return {name: value for name, value in arguments.items() if name in own or name not in ignored}


async def _unknown_tool(context: Context, name: str) -> UnknownPrimitive:
    error = unknown_primitive("tool", name)
    nearest = partial(tool_search.nearest, context, name)
    # Whatever the name: response times must not reveal hidden tools.
    is_query = any(
        tool.asks_user or tool.key in context.server.policies.blocking for tool in context.server.tools.values()
    )
    meant = await context.site_runner.checks.sync(nearest) if is_query else nearest()
    return error if meant is None else UnknownPrimitive(f"{error.message} Did you mean {meant!r}?")
