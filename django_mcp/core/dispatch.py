"""The method table and its handlers: lists, calls, reads and completion, with the observer and the approval gate."""

import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from operator import attrgetter
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from weakref import WeakKeyDictionary

from django.core.exceptions import ImproperlyConfigured, PermissionDenied
from django.db import Error

from django_mcp.conf import settings
from django_mcp.core import throttling, tool_search
from django_mcp.core.channel import Cancelled
from django_mcp.core.concurrency import Runner
from django_mcp.core.context import Context
from django_mcp.core.database import in_transaction
from django_mcp.core.elicitation import InputRequired, merged
from django_mcp.core.execution import ToolExecution, execute_tool, run_to_completion, too_large
from django_mcp.core.failures import Unknown, request_failure, tool_failure, unknown
from django_mcp.core.permissions import find_rule, is_for_everybody, known_of, look_for, may_use
from django_mcp.core.policies import ApprovalGrant, Decision, Rule, policy_cache
from django_mcp.core.resources import matches, read, run
from django_mcp.core.server import MCPServer, ModelArgument
from django_mcp.primitives.base import Primitive, ToolError, spoken
from django_mcp.primitives.completions import Completer, completion
from django_mcp.primitives.output import OutputTooLarge
from django_mcp.primitives.prompt import Prompt, strings_only
from django_mcp.primitives.resource import Resource
from django_mcp.primitives.schema import ArgumentError
from django_mcp.primitives.tool import Tool
from django_mcp.primitives.validation_errors import kind_name
from django_mcp.protocol.errors import InvalidParams, MethodNotFound
from django_mcp.protocol.jsonrpc import Result
from django_mcp.protocol.meta import (
    ALWAYS_LOAD,
    IDEMPOTENCY_KEY,
    MAX_RESULT_SIZE_CHARS,
    MOST_RESULT_SIZE_CHARS,
    REQUIRES_USER_INTERACTION,
)
from django_mcp.protocol.pagination import decode_cursor, encode_cursor, is_cursor

if TYPE_CHECKING:
    from django_mcp.core.concurrency import Runner
    from django_mcp.core.context import Context
    from django_mcp.core.principal import Principal
    from django_mcp.core.server import MCPServer


async def complete(context: Context) -> Result:
    """Handle ``completion/complete``. An argument without completions has no values; that is no error.

    Raises:
        InvalidParams: malformed parameters, or a prompt, template or argument that does not exist for the caller.
    """
    kind, key, primitive = _referenced(context.server, context.params.get("ref"))
    name, value = _argument(context.params.get("argument"))
    chosen = _chosen(context.params.get("context"))
    if primitive is None or not await may_use(context, primitive):
        raise unknown(kind, key)
    _require(name, primitive)
    completer = primitive.completers.get(name)
    if completer is None:
        return Result({"completion": completion([])})
    try:
        return Result({"completion": await _run(context, completer, completer.keywords(context, value, chosen))})
    except PermissionDenied:
        raise unknown(kind, key) from None


async def _run(context: Context, completer: Completer, keywords: dict[str, Any]) -> dict[str, Any]:
    if completer.is_async:
        found = await context.site_runner.coroutine(completer.call, **keywords)
        return await context.site_runner.sync(partial(completion, found))  # it may be a lazy queryset
    return await context.site_runner.sync(lambda: completion(completer.call(**keywords)))


def _referenced(server: MCPServer, ref: Any) -> tuple[str, str, Prompt | Resource | None]:
    """Return the kind and key of a reference, for errors, and the primitive."""
    match ref:
        case {"type": "ref/prompt", "name": str(name)}:
            return "prompt", name, server.prompts.get(name)
        case {"type": "ref/resource", "uri": str(uri)}:
            return "resource template", uri, server.templates.get(uri) or server.resources.get(uri)
    raise InvalidParams(
        '"params.ref" must be {"type": "ref/prompt", "name": …} or {"type": "ref/resource", "uri": …}, with strings.'
    )


def _argument(argument: Any) -> tuple[str, str]:
    match argument:
        case {"name": str(name), "value": str(value)}:
            return name, value
    raise InvalidParams('"params.argument" must be {"name": …, "value": …}, with strings.')


def _chosen(context: Any) -> Mapping[str, str]:
    """Return the values of other arguments, which clients may send."""
    match context:
        case None | {"arguments": None}:
            return {}
        case {"arguments": dict(arguments)} if not strings_only(arguments):
            return arguments
        case dict() if "arguments" not in context:
            return {}
    raise InvalidParams('"params.context" must be {"arguments": {…}}, with strings.')


def _require(name: str, primitive: Prompt | Resource) -> None:
    """Raise for an unknown argument. A plain resource has no arguments, and its URI may be completed."""
    known = primitive.arguments.schema["properties"]
    if name in known or (isinstance(primitive, Resource) and not primitive.is_template):
        return
    offer = f"It takes {', '.join(map(repr, known))}." if known else "It takes no arguments."
    raise InvalidParams(f"{unknown('argument', name).message} {offer}")


class Watched(Protocol):
    """An observed call; ``dispatch`` sets its result."""

    result: Result | None


class Observer(Protocol):
    """An observer of calls, which writes the request log."""

    def watch(self, context: "Context") -> AbstractAsyncContextManager[Watched] | None:
        """Return a context manager that records the call, or None.

        It may raise ``ProtocolError``, which replaces the result, if the call cannot be recorded.
        """

    async def refused(
        self,
        server: "MCPServer",
        principal: "Principal | None",
        runner: "Runner",
        edge: Callable[[], Any],
        message: Any,
        reason: str,
    ) -> None:
        """Record a request that was rejected before dispatch.

        Args:
            server: the endpoint.
            principal: the caller, if known.
            runner: the transport's.
            edge: returns a Django request.
            message: decoded, if it was read.
            reason: the error text sent to the client.
        """


class Watch:
    """A holder of the observer, if there is one."""

    __slots__ = ("observer",)

    def __init__(self) -> None:
        self.observer: Observer | None = None


watching = Watch()


logger = logging.getLogger("django_mcp")


async def page_of(
    context: Context,
    member: str,
    primitives: Collection[Primitive],
    show: Callable[[Any], dict[str, Any]] = attrgetter("definition"),
) -> Result:
    """Return a page of a list: entries after the cursor that the caller may know of.

    A page that is the same for all callers is cached with its encodings, per language if its texts are translated.

    Args:
        context: the call.
        member: name of the list in the result.
        primitives: all entries, by position.
        show: returns the entry of a primitive.

    Raises:
        InvalidParams: invalid cursor.
    """
    server = context.server
    after = decode_cursor(context.params.get("cursor"))
    is_limited = member == "tools" and context.principal.client_id in server.policies.limits
    language = context.language if server.is_translated else ""
    apps = context.shows_apps
    pages = server.pages  # replaced on each change, even while a page is made
    kept = None if is_limited else pages.get((member, after, language, apps))
    if kept is not None:
        return kept
    if not apps:
        primitives = [each for each in primitives if not each.for_apps]
    public = not is_limited and is_for_everybody(server, primitives)
    is_searched = member == "tools" and server.search_above > 0  # which counts all that the caller may know of
    entries = [primitive for primitive in primitives if is_searched or primitive.position > after]
    build = partial(_built, context, member, entries, after, show, language, public=public, is_searched=is_searched)
    # One thread hop for all: permissions may query, and so may late definitions.
    is_query = not public or any(each.is_late for each in entries)
    page, is_whole = await context.site_runner.sync(build) if is_query else build()
    # Only positions of real cursors are cached, or clients could fill the memory.
    if public and is_whole and after in {-1, *(primitive.position for primitive in primitives)}:
        pages[member, after, language, apps] = page
    return page


def _built(
    context: Context,
    member: str,
    entries: Sequence[Primitive],
    after: int,
    show: Callable[[Any], dict[str, Any]],
    language: str,
    *,
    public: bool,
    is_searched: bool,
) -> tuple[Result, bool]:
    """Return a page, and whether it is complete."""
    server = context.server
    known = entries if public else known_of(context, entries)
    first, known = tool_search.offered(server, known, after) if is_searched else ((), known)
    shown = known[: max(server.page_size - len(first), 1)]
    lacking = [each for each in shown if each in _left_out]
    made = [entry_of(each, language, show) for each in shown]
    if any(each not in _left_out for each in lacking):
        _tell_of_more(server, member)
    definitions = [*(spoken(first, language) if language else first), *(each for each in made if each is not None)]
    fields: dict[str, Any] = {member: definitions}
    if len(known) > len(shown):
        fields["nextCursor"] = encode_cursor(shown[-1].position)
    if None in made:
        return Result(fields, ttl_ms=0), False
    encoded: dict[str, bytes] | None = {} if public else None
    return Result(fields, ttl_ms=server.ttl_ms, public=public and not language, encoded=encoded), True


def _tell_of_more(server: MCPServer, member: str) -> None:
    """Notify clients that cached an incomplete list."""
    try:
        server.notify_list_changed("resources" if member == "resourceTemplates" else member)
    except Error as error:
        logger.warning("could not notify clients that %s left out of a list are available again: %s", member, error)


_left_out: "WeakKeyDictionary[Primitive, str]" = WeakKeyDictionary()
"""Primitives left out of lists -> the logged reason."""


def entry_of(
    primitive: Primitive, language: str, show: Callable[[Any], dict[str, Any]] = attrgetter("definition")
) -> dict[str, Any] | None:
    """Return a primitive's list entry, or None if it cannot be made now. The reason is logged when it changes."""
    failure = primitive.find_failure()
    if failure is None:
        try:
            entry: dict[str, Any] = spoken(show(primitive), language) if language else show(primitive)
        except Exception as error:  # noqa: BLE001 - such as a failing lazy text of the site
            failure = error
        else:
            _left_out.pop(primitive, None)
            return entry
    if _left_out.get(primitive) != (reason := repr(failure)):
        _left_out[primitive] = reason
        is_plain = isinstance(failure, Error | ImproperlyConfigured)
        logger.error("%s is left out of lists: %s", primitive.label, failure, exc_info=None if is_plain else failure)
    return None


async def list_resources(context: Context) -> Result:
    """Handle ``resources/list``: registered resources, then rows of models."""
    cursor = context.params.get("cursor")
    rows = context.server.rows
    if rows is None:
        return await page_of(context, "resources", context.server.resources.values())
    if not is_cursor(cursor):
        return await context.site_runner.sync(partial(_rows, context, rows, cursor, context.server.page_size, ()))
    page = await page_of(context, "resources", context.server.resources.values())
    if "nextCursor" in page.fields:
        return page
    own = page.fields["resources"]
    return await context.site_runner.sync(partial(_rows, context, rows, None, context.server.page_size - len(own), own))


def _rows(context: Context, rows: ModelArgument, cursor: Any, room: int, before: Sequence[dict[str, Any]]) -> Result:
    entries, following = rows(context, cursor, room)
    fields: dict[str, Any] = {"resources": [*before, *entries]}
    if following is not None:
        fields["nextCursor"] = following
    return Result(fields, ttl_ms=context.server.ttl_ms)


def list_tools(context: Context) -> Coroutine[Any, Any, Result]:
    """Handle ``tools/list``."""
    return page_of(context, "tools", context.server.tools.values(), partial(_listed, context))


def _listed(context: Context, tool: Tool) -> dict[str, Any]:
    """Return a tool's list entry, with what the site knows of it as hints in ``_meta``. Its own ``meta`` wins."""
    definition: dict[str, Any] = tool.app_definition if context.shows_apps else tool.definition
    hints: dict[str, Any] = {}
    if context.server.policies.ask_everybody(tool):
        hints[REQUIRES_USER_INTERACTION] = True
    if tool.max_output_chars:
        hints[MAX_RESULT_SIZE_CHARS] = min(tool.max_output_chars, MOST_RESULT_SIZE_CHARS)
    if tool.always_listed:
        hints[ALWAYS_LOAD] = True
    return {**definition, "_meta": {**hints, **definition.get("_meta", {})}} if hints else definition


async def call_tool(context: Context) -> Result:
    """Handle ``tools/call``. Errors in the tool are results, so that the model can read them."""
    name = context.params.get("name")
    if not isinstance(name, str):
        raise _not_a_string("name")
    tool = context.server.tools.get(name)
    if tool is None and (tool := tool_search.find(context.server, name)) is not None and tool_search.is_relay(tool):
        return await _call_named(context, tool)
    if tool is None:
        await look_for(context, context.server.tools.values())
    # Most tools are for all callers and need no check.
    policies = context.server.policies
    guarded = tool is not None and (
        tool.is_guarded
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
        await context.runner.sync(partial(count, f"{dialogue.id} {dialogue.round}") if dialogue.round else count)
    try:
        return await _serve(context, tool)
    except Exception as error:  # noqa: BLE001 - tool_failure decides
        return await _failed(context, tool, error)


async def _serve(context: Context, tool: Tool) -> Result:
    """Validate the arguments, require approval if needed, and run the tool or start a task."""
    if tool.is_late:
        await context.site_runner.sync(tool.find_failure)
    arguments = context.params.get("arguments")
    if type(arguments) is not dict:
        arguments = _arguments(context.params)
    if settings.IGNORED_ARGUMENTS:
        arguments = _known(arguments, tool)
    if tool.mirrors and context.relay is None:
        context.channel.check_mirrors(tool.mirrors, arguments)
    if settings.CALL_CONTEXT_MANAGERS or context.is_large:
        keywords = await _validated(context, tool, arguments)
    else:
        keywords = tool.arguments.validate(arguments)
    if (tool.key in context.server.policies.asking or context.channel.needs_approval) and (
        answer := await _approved(context, tool, keywords)
    ) is not None:
        return answer
    if tool.function.context is not None:
        keywords = tool.keywords(context, keywords)
    if tool.task_handler is not None and (answer := await _answered(context, tool, keywords)) is not None:
        return answer
    run = _run_tool if context.spend is None else _run_resumed
    meta = context.params.get("_meta")
    is_keyed = type(meta) is dict and IDEMPOTENCY_KEY in meta
    if not (is_keyed or tool.is_conducted or settings.TOOL_TIMEOUT):
        return Result(await run(context, tool, keywords))
    return Result(await execute_tool(context, tool, arguments, partial(run, context, tool, keywords)))


async def _validated(context: Context, primitive: Tool | Prompt, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the validated arguments, read inside the site's context managers and off the event loop."""
    return await context.site_runner.sync(partial(primitive.arguments.validate, arguments))


ApprovalGate = Callable[[Context, Tool, dict[str, Any], Rule], Awaitable[Result | None]]
"""Takes a call that requires approval and its validated arguments. Returns the result to send, or None if the call may
run; the context then has its ``ApprovalGrant``."""

approval_gate: ApprovalGate | None = None
"""Set by ``approvals`` at start-up; None if calls cannot be approved on this site."""


async def _approved(context: Context, tool: Tool, keywords: dict[str, Any]) -> Result | None:
    """Return the result of a call that is not approved, or None if it may run."""
    rule = await find_rule(context, tool)
    # A caller that needs no approval may still have requested a task, which the gate handles.
    may_run = rule.decision is Decision.ALLOW and not context.channel.needs_approval and "task" not in context.params
    if tool.kind != "tool" or may_run:
        return None
    if approval_gate is None:
        raise ToolError("This call requires approval, but approvals are not available on this site.")
    return await approval_gate(context, tool, keywords, rule)


async def _answered(context: Context, tool: Tool, keywords: dict[str, Any]) -> Result | None:
    """Return the result that replaces that of a deferred tool, or None."""
    if tool.task_handler is None or context.channel.is_task:
        return None
    if context.spend is not None:
        await _spend(context)
    return await tool.task_handler(context, tool, keywords)


async def _failed(context: Context, tool: Tool, error: Exception) -> Result:
    match error:
        case OutputTooLarge():
            return tool_failure(ToolError(too_large(error, tool)), context)
        case PermissionDenied():
            raise await _unknown_tool(context, tool.name) from None
    return tool_failure(error, context)


async def _call_named(context: Context, relay: Tool) -> Result:
    """Call the tool that a call of *relay* names, as if it had been called directly.

    An unknown name is a tool error, because it is an argument to the model. No headers mirror these arguments.
    """
    arguments = _known(_arguments(context.params), relay)
    try:
        meant = relay.arguments.validate(arguments)
        named = context.server.tools.get(meant["name"])
        if tool_search.is_relay(tool_search.find(context.server, meant["name"])) or not (
            tool_search.is_for_model(context, named)
        ):
            raise unknown("tool", meant["name"])
        context.params = {**context.params, **meant}
        context.relay = relay
        return await call_tool(context)
    except Unknown as error:
        return tool_failure(ToolError(f"{error.message} Use search_tools to find the available tools."), context)
    except ArgumentError as error:
        return tool_failure(ArgumentError([*error.problems, *tool_search.misplaced(arguments)]), context)


async def _spend(context: Context) -> None:
    """Use up the client's ``requestState``, after all other checks.

    Raises:
        InvalidParams: it was already used.
        InternalError: the database failed. A tool result would end the call, but this request may be repeated.
    """
    spend, context.spend = context.spend, None
    if spend is None:
        return
    try:
        is_new = await context.runner.sync(spend)
    except Exception as error:
        raise request_failure(error, context) from error
    if not is_new:
        raise InvalidParams("This requestState was already used. Send the call again without it.")


async def _run_resumed(
    context: Context, tool: Tool, keywords: dict[str, Any], conduct: ToolExecution | None = None
) -> dict[str, Any]:
    await _spend(context)
    return await _run_tool(context, tool, keywords, conduct)


async def _run_tool(
    context: Context, tool: Tool, keywords: dict[str, Any], conduct: ToolExecution | None = None
) -> dict[str, Any]:
    function, grant = tool.function, context.grant
    most = settings.MAX_OUTPUT_CHARS if tool.max_output_chars is None else tool.max_output_chars or None
    most_bytes = settings.MAX_BINARY_BYTES
    runner = context.site_runner if settings.CALL_CONTEXT_MANAGERS else context.runner
    if function.is_async:
        call = partial(function.call if conduct is None else conduct.in_time(function.call), **keywords)
        return await _run_coroutine(context, tool, call, runner, most, most_bytes)

    def job() -> dict[str, Any]:
        if context.channel.cancelled:  # while it waited for a thread
            raise Cancelled
        if conduct is not None:
            conduct.begin()
        # In the same thread and transaction, because a returned queryset is read here.
        fields = tool.output.fields(function.call(**keywords), most, most_bytes)
        if tool.app is not None:
            _add_view(context, tool, fields)
        if context.channel.cancelled and tool.atomic:  # no client will get the result, so roll back
            raise Cancelled
        if conduct is not None:
            conduct.settle(fields)
        if context.channel.is_task:
            context.channel.settle(fields)
        return fields

    work = partial(in_transaction, job, context if function.context else None) if tool.atomic else job
    if grant is not None:
        work = partial(grant.around, work)
    return await runner.sync(work if conduct is None else partial(conduct.watch, work))


async def _run_coroutine(
    context: Context,
    tool: Tool,
    call: Callable[[], Awaitable[Any]],
    runner: Runner,
    most: int | None,
    most_bytes: int | None,
) -> dict[str, Any]:
    if context.grant is not None:
        fields = await _admitted(context, context.grant, call, tool, most, most_bytes)
    else:
        fields = tool.output.fields(await runner.coroutine(call), most, most_bytes)
    if tool.app is not None:
        await run_to_completion(runner, partial(_add_view, context, tool, fields))
    return fields


def _add_view(context: Context, tool: Tool, fields: dict[str, Any]) -> None:
    """Add the view of a result for the tool's app, if the client shows apps."""
    if not context.shows_apps:
        return
    structured = fields.get("structuredContent")
    result = structured["result"] if structured is not None and tool.output.is_wrapped else structured
    text = "\n\n".join(block["text"] for block in fields["content"] if block["type"] == "text")
    tool.app.add_view(context, fields, text if structured is None else result, text, tool.view_context)


async def _admitted(
    context: Context,
    grant: ApprovalGrant,
    call: Callable[[], Awaitable[Any]],
    tool: Tool,
    most: int | None,
    most_bytes: int | None,
) -> dict[str, Any]:
    """``ApprovalGrant.around`` for coroutine functions."""
    await context.runner.sync(grant.use)
    outcome = "error"
    try:
        fields = tool.output.fields(await context.site_runner.coroutine(call), most, most_bytes)
        outcome = "error" if fields.get("isError") else "ok"
    except (InputRequired, BaseExceptionGroup) as ended:
        outcome = "" if isinstance(ended, InputRequired) or merged(ended) is not None else "error"
        raise
    finally:
        if outcome:
            await run_to_completion(context.runner, partial(grant.ended, outcome))
    return fields


def list_resource_templates(context: Context) -> Coroutine[Any, Any, Result]:
    """Handle ``resources/templates/list``."""
    return page_of(context, "resourceTemplates", context.server.templates.values())


async def read_resource(context: Context) -> Result:
    """Handle ``resources/read``."""
    uri = context.params.get("uri")
    if not isinstance(uri, str):
        raise _not_a_string("uri")
    contents = await read(context, uri, lambda resource, value: resource.contents(uri, value), context.site_runner)
    return Result({"contents": contents}, ttl_ms=0)


def list_prompts(context: Context) -> Coroutine[Any, Any, Result]:
    """Handle ``prompts/list``."""
    return page_of(context, "prompts", context.server.prompts.values())


async def get_prompt(context: Context) -> Result:
    """Handle ``prompts/get``."""
    name = context.params.get("name")
    if not isinstance(name, str):
        raise _not_a_string("name")
    prompt = context.server.prompts.get(name)
    if prompt is None:
        await look_for(context, context.server.prompts.values())
    if prompt is None or not await may_use(context, prompt):
        raise unknown("prompt", name)
    arguments = _arguments(context.params)
    if wrong := strings_only(arguments):
        raise InvalidParams(f"Arguments of a prompt must be strings. Not a string: {', '.join(map(repr, wrong))}.")
    given = {name: value for name, value in arguments.items() if value}  # forms send empty fields
    if settings.CALL_CONTEXT_MANAGERS or context.is_large:
        checked = await _validated(context, prompt, given)
    else:
        checked = prompt.arguments.validate(given)
    return Result(await run(context, prompt, checked, prompt.fields, context.site_runner, context.language))


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
    context: Context, *, extended: bool = False, begin: Callable[[], Awaitable[None]] | None = None
) -> Result:
    """Handle a call.

    Args:
        context: the call.
        extended: True if the protocol version has extensions.
        begin: further checks of the protocol version, whose errors the observer sees.

    Raises:
        ProtocolError: the call failed.
        InputRequired: the call needs answers first.
        Cancelled: the client no longer waits.
    """
    watch = None if watching.observer is None else watching.observer.watch(context)
    if watch is None:
        return await _answer(context, extended, begin)
    async with watch as watched:
        watched.result = await _answer(context, extended, begin)
        return watched.result


async def _answer(context: Context, extended: bool, begin: Callable[[], Awaitable[None]] | None) -> Result:
    if begin is not None:
        await begin()
    if context.server.refresh is not None:
        await context.runner.sync(context.server.refresh)
    if policy_cache.due <= monotonic():  # inlined: every call checks this
        await policy_cache.refresh(context.runner)
    method = METHODS.get(context.method)
    if method is not None and method.capability in context.server.capabilities:
        handler = method.handler
    else:
        handler = _extension_method(context, known=extended)
    try:
        return await handler(context)
    except BaseExceptionGroup as group:  # questions of the tasks of a TaskGroup
        if (asked := merged(group)) is not None:
            raise asked from None
        if context.method == "tools/call":
            return tool_failure(group, context)
        raise request_failure(group, context) from None
    except Exception as error:  # noqa: BLE001 - request_failure decides
        raise request_failure(error, context) from None


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
                return any(each.is_interactive for each in server.templates.values())
    if primitive is None or primitive.is_interactive:
        return primitive is not None
    # A call may wait for its approver. Expired policies are reloaded only when the call is served.
    if not isinstance(primitive, Tool):
        return False
    return primitive.key in server.policies.asking or (policy_cache.due <= monotonic() and not primitive.read_only)


def named(server: MCPServer, method: Any, params: Mapping[str, Any]) -> Iterable[Primitive]:
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
    if arguments is None:
        return {}
    if not isinstance(arguments, dict):
        hint = " Send the object itself, not a string that holds it." if isinstance(arguments, str) else ""
        raise InvalidParams(
            f'"params.arguments" must be an object, like {{"name": "value"}}, not {kind_name(arguments)}.{hint}'
        )
    return arguments


def _known(arguments: dict[str, Any], tool: Tool) -> dict[str, Any]:
    """Return the arguments without ``IGNORED_ARGUMENTS`` that the tool does not define."""
    ignored = settings.IGNORED_ARGUMENTS
    own = tool.definition["inputSchema"].get("properties", {})
    return {name: value for name, value in arguments.items() if name in own or name not in ignored}


async def _unknown_tool(context: Context, name: str) -> Unknown:
    """Return the error for a tool that does not exist for the caller, with the nearest name that does."""
    error = unknown("tool", name)
    nearest = partial(tool_search.nearest, context, name)
    # Whatever the name: response times must not reveal hidden tools.
    is_query = any(
        each.asks_user or each.key in context.server.policies.blocking for each in context.server.tools.values()
    )
    meant = await context.site_runner.sync(nearest) if is_query else nearest()
    return error if meant is None else Unknown(f"{error.message} Did you mean {meant!r}?")
