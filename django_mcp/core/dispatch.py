"""The method table and its handlers: lists, calls, completion, the observer and the approval hook."""

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
from django_mcp.protocol.meta import IDEMPOTENCY_KEY
from django_mcp.protocol.pagination import decode_cursor, encode_cursor, is_cursor

if TYPE_CHECKING:
    from django_mcp.core.concurrency import Runner
    from django_mcp.core.context import Context
    from django_mcp.core.principal import Principal
    from django_mcp.core.server import MCPServer


async def complete(context: Context) -> Result:
    """``completion/complete``: an argument that nothing completes has no values, which is no error.

    Raises:
        InvalidParams: no such prompt, template or argument, for this caller; or parameters of the wrong shape.
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
        return await context.site_runner.sync(partial(completion, found))  # it may be a lazy queryset all the same
    return await context.site_runner.sync(lambda: completion(completer.call(**keywords)))


def _referenced(server: MCPServer, ref: Any) -> tuple[str, str, Prompt | Resource | None]:
    """What is being filled in: its kind and key, for errors, and itself."""
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
    """The values of other arguments, which a client may tell."""
    match context:
        case None | {"arguments": None}:
            return {}
        case {"arguments": dict(arguments)} if not strings_only(arguments):
            return arguments
        case dict() if "arguments" not in context:
            return {}
    raise InvalidParams('"params.context" must be {"arguments": {…}}, with strings.')


def _require(name: str, primitive: Prompt | Resource) -> None:
    """Refuse an argument that is none; a plain resource has none at all, and its URI may be asked about."""
    known = primitive.arguments.schema["properties"]
    if name in known or (isinstance(primitive, Resource) and not primitive.is_template):
        return
    offer = f"It takes {', '.join(map(repr, known))}." if known else "It takes no arguments."
    raise InvalidParams(f"{unknown('argument', name).message} {offer}")


class Watched(Protocol):
    """A call that is watched.

    Attributes:
        result: set by ``dispatch`` when there is one.
    """

    result: Result | None


class Observer(Protocol):
    """Watches calls."""

    def watch(self, context: "Context") -> AbstractAsyncContextManager[Watched] | None:
        """Return what a call is served within, which takes down what came of it; None where nobody wants to know.

        Raises:
            ProtocolError: on the way in or out, in place of the result: nothing could be taken down.
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
        """Take down a request that was turned down before anything was looked at.

        Args:
            server: the endpoint.
            principal: the caller; None where nobody knows who it is.
            runner: of the edge.
            edge: gives a Django request.
            message: decoded, where it was read.
            reason: in the words that the client reads.
        """


class Watch:
    """Holds the observer.

    Attributes:
        observer: who watches; None for nobody.
    """

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
    """One page of a list: entries after the cursor's position that the caller may know of.

    Where no entry depends on the caller the page is the same for everybody: it is kept, encodings and all; where words
    are translated, for each language of the site.

    Args:
        context: of the call.
        member: where in the result the entries are.
        primitives: all that there are, in the order of their positions.
        show: gives the entry of one.

    Raises:
        InvalidParams: the cursor is none of ours.
    """
    server = context.server
    after = decode_cursor(context.params.get("cursor"))
    listed = context.principal.tools if member == "tools" else None
    language = context.language if server.is_translated else ""
    pages = server.pages  # another dict as soon as something changes, while a page is made too
    kept = pages.get((member, after, language)) if listed is None else None
    if kept is not None:
        return kept
    public = listed is None and is_for_everybody(server, primitives)
    is_searched = member == "tools" and server.search_above > 0  # where all that the caller may know of are counted
    entries = [primitive for primitive in primitives if is_searched or primitive.position > after]
    build = partial(_built, context, member, entries, after, show, language, public=public, is_searched=is_searched)
    # One hop for all of them: each permission may be a query, and so may be what a tool is made of.
    is_query = not public or any(each.is_late for each in entries)
    page, is_whole = await context.site_runner.sync(build) if is_query else build()
    # A position that no cursor of ours has is not worth keeping, or clients could fill the memory.
    if public and is_whole and after in {-1, *(primitive.position for primitive in primitives)}:
        pages[member, after, language] = page
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
    """Return a page, and whether it has all that it should have: what is lacking may be there the next time."""
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
    """Tell clients that keep a list from which something was left out."""
    try:
        server.notify_list_changed("resources" if member == "resourceTemplates" else member)
    except Error as error:
        logger.warning("clients that listen were not told that %s left out of a list are back: %s", member, error)


_left_out: "WeakKeyDictionary[Primitive, str]" = WeakKeyDictionary()
"""Primitive that is left out of lists -> the reason that was logged."""


def entry_of(
    primitive: Primitive, language: str, show: Callable[[Any], dict[str, Any]] = attrgetter("definition")
) -> dict[str, Any] | None:
    """Return the entry of a primitive in a list; None if it cannot be made now, which keeps no other out of it.

    The reason is logged, once as long as it is the same.
    """
    failure = primitive.find_failure()
    if failure is None:
        try:
            entry: dict[str, Any] = spoken(show(primitive), language) if language else show(primitive)
        except Exception as error:  # noqa: BLE001 - such as a lazy text of the site that fails
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
    """``resources/list``: what was registered, and behind it the rows of models that are resources."""
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
    """``tools/list``."""
    return page_of(context, "tools", context.server.tools.values())


async def call_tool(context: Context) -> Result:
    """``tools/call``: what goes wrong in the tool is a result, so that the model can read it."""
    name = context.params.get("name")
    if not isinstance(name, str):
        raise _not_a_string("name")
    tool = context.server.tools.get(name)
    if tool is None and tool_search.is_call(tool := tool_search.find(context.server, name)):
        return await _call_named(context)
    if tool is None:
        await look_for(context, context.server.tools.values())
    # Most tools are for everybody who may call at all; those are not asked about.
    policies = context.server.policies
    guarded = tool is not None and (
        tool.is_guarded or context.principal.tools is not None or tool.key in policies.blocking
    )
    if tool is None or (guarded and not await may_use(context, tool)):
        raise await _unknown_tool(context, name)
    if (context.server.rate is not None or tool.rate is not None) and not context.channel.is_task:
        dialogue = context.channel.dialogue
        count = partial(throttling.count, context.server, tool, context.principal)
        await context.runner.sync(partial(count, f"{dialogue.id} {dialogue.round}") if dialogue.round else count)
    try:
        return await _serve(context, tool)
    except Exception as error:  # noqa: BLE001 - tool_failure is where it is decided
        return await _failed(context, tool, error)


async def _serve(context: Context, tool: Tool) -> Result:
    """Check the arguments, see who has to be asked, and run it."""
    if tool.is_late:
        await context.site_runner.sync(tool.find_failure)
    arguments = context.params.get("arguments")
    if type(arguments) is not dict:
        arguments = _arguments(context.params)
    if settings.IGNORED_ARGUMENTS:
        arguments = _known(arguments, tool)
    if tool.mirrors and not context.is_relayed:
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
    """Return the arguments as the function takes them, read within the site's context managers.

    Many are read so too: on the event loop nobody else would be served meanwhile.
    """
    return await context.site_runner.sync(partial(primitive.arguments.validate, arguments))


ApprovalGate = Callable[[Context, Tool, dict[str, Any], Rule], Awaitable[Result | None]]
"""Takes a call that has to be approved, with its validated arguments; returns the result that answers it, or None if it
may run. Then the context has its ``ApprovalGrant``."""

approval_gate: ApprovalGate | None = None
"""Set by ``approvals`` when the site starts; None if nobody can approve calls on this site."""


async def _approved(context: Context, tool: Tool, keywords: dict[str, Any]) -> Result | None:
    """What answers a call that nobody has approved; None where it may run."""
    rule = await find_rule(context, tool)
    # Who may call without asking may all the same have asked for a task, which others need to wait.
    may_run = rule.decision is Decision.ALLOW and not context.channel.needs_approval and "task" not in context.params
    if tool.kind != "tool" or may_run:
        return None
    if approval_gate is None:
        raise ToolError("This call requires approval, but approvals are not available on this site.")
    return await approval_gate(context, tool, keywords, rule)


async def _answered(context: Context, tool: Tool, keywords: dict[str, Any]) -> Result | None:
    """What stands for the result of a tool that is not run there and then; None where it is."""
    if tool.task_handler is None or context.channel.is_task:
        return None
    if context.spend is not None:
        await _spend(context)
    return await tool.task_handler(context, tool, keywords)


async def _failed(context: Context, tool: Tool, error: Exception) -> Result:
    """``tool_failure``, with what is known of the tool."""
    match error:
        case OutputTooLarge():
            return tool_failure(ToolError(too_large(error, tool)), context)
        case PermissionDenied():
            raise await _unknown_tool(context, tool.name) from None
    return tool_failure(error, context)


async def _call_named(context: Context) -> Result:
    """``tools/call`` of the tool that ``call_tool`` names, as if it had been called itself.

    A wrong name is an argument to the model, and it reads what is wrong with it. No header repeats the arguments.
    """
    arguments = _known(_arguments(context.params), tool_search.finders()[1])
    try:
        meant = tool_search.finders()[1].arguments.validate(arguments)
        if tool_search.is_call(tool_search.find(context.server, meant["name"])):
            raise unknown("tool", meant["name"])
        context.params = {**context.params, **meant}
        context.is_relayed = True
        return await call_tool(context)
    except Unknown as error:
        return tool_failure(ToolError(f"{error.message} Use search_tools to find the available tools."), context)
    except ArgumentError as error:
        return tool_failure(ArgumentError([*error.problems, *tool_search.misplaced(arguments)]), context)


async def _spend(context: Context) -> None:
    """Use up the client's ``requestState``, now that nothing is left that could refuse the call.

    Raises:
        InvalidParams: it was used already.
        InternalError: that is not known now. No result of the tool: the same request may be sent again.
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
        call = function.call if conduct is None else conduct.in_time(function.call)
        if grant is not None:
            return await _admitted(context, grant, partial(call, **keywords), tool, most, most_bytes)
        return tool.output.fields(await runner.coroutine(call, **keywords), most, most_bytes)

    def job() -> dict[str, Any]:
        if context.channel.cancelled:  # while it waited for a thread
            raise Cancelled
        if conduct is not None:
            conduct.begin()
        # Shown in the same thread and transaction: a returned queryset is read there.
        fields = tool.output.fields(function.call(**keywords), most, most_bytes)
        if context.channel.cancelled and tool.atomic:  # nobody knows of it, so nothing stays of it
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


async def _admitted(
    context: Context,
    grant: ApprovalGrant,
    call: Callable[[], Awaitable[Any]],
    tool: Tool,
    most: int | None,
    most_bytes: int | None,
) -> dict[str, Any]:
    """``ApprovalGrant.around`` for a coroutine function."""
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
    """``resources/templates/list``."""
    return page_of(context, "resourceTemplates", context.server.templates.values())


async def read_resource(context: Context) -> Result:
    """``resources/read``."""
    uri = context.params.get("uri")
    if not isinstance(uri, str):
        raise _not_a_string("uri")
    contents = await read(context, uri, lambda resource, value: resource.contents(uri, value), context.site_runner)
    return Result({"contents": contents}, ttl_ms=0)


def list_prompts(context: Context) -> Coroutine[Any, Any, Result]:
    """``prompts/list``."""
    return page_of(context, "prompts", context.server.prompts.values())


async def get_prompt(context: Context) -> Result:
    """``prompts/get``."""
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
    given = {name: value for name, value in arguments.items() if value}  # forms send fields that nobody filled in
    if settings.CALL_CONTEXT_MANAGERS or context.is_large:
        checked = await _validated(context, prompt, given)
    else:
        checked = prompt.arguments.validate(given)
    return Result(await run(context, prompt, checked, prompt.fields, context.site_runner, context.language))


class Method(NamedTuple):
    """A handler, and the capability without which its method does not exist."""

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
    """Serve one call.

    Args:
        context: of the call.
        extended: the client's protocol has extensions.
        begin: looks first at what the protocol adds to a call; whoever watches sees what it raises.

    Raises:
        ProtocolError: the call failed.
        InputRequired: it needs answers first.
        Cancelled: it found that nobody waits any more.
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
    if policy_cache.due <= monotonic():  # looked at by every call, so without a call
        await policy_cache.refresh(context.runner)
    method = METHODS.get(context.method)
    if method is not None and method.capability in context.server.capabilities:
        handler = method.handler
    else:
        handler = _extension_method(context, known=extended)
    try:
        return await handler(context)
    except BaseExceptionGroup as group:  # what the tasks of a TaskGroup asked side by side
        if (asked := merged(group)) is not None:
            raise asked from None
        if context.method == "tools/call":
            return tool_failure(group, context)
        raise request_failure(group, context) from None
    except Exception as error:  # noqa: BLE001 - request_failure is where it is decided
        raise request_failure(error, context) from None


def _extension_method(context: Context, *, known: bool) -> Callable[[Context], Awaitable[Result]]:
    for extension in context.server.extensions.values() if known else ():
        if (handler := extension.methods.get(context.method)) is not None:
            return handler
    raise _unknown_method(context)


def _unknown_method(context: Context) -> MethodNotFound:
    return MethodNotFound(f"Unknown method {context.method[:100]!r}.")


def can_interact(server: MCPServer, method: str, params: Mapping[str, Any]) -> bool:
    """Whether the code behind a call can say or ask anything while it runs, or be stopped by a cancellation.

    What cannot is most of all calls, and they are spared the machinery for it.
    """
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
    # Whoever is to approve the call is waited for; and what was decided is looked at only when the call is served.
    if not isinstance(primitive, Tool):
        return False
    return primitive.key in server.policies.asking or (policy_cache.due <= monotonic() and not primitive.read_only)


def named(server: MCPServer, method: Any, params: Mapping[str, Any]) -> Iterable[Primitive]:
    """What a call is about, in the order in which it is tried; nothing where it is a list, or unknown."""
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
    """Return the arguments without those that a client adds to every call, except the tool's own."""
    ignored = settings.IGNORED_ARGUMENTS
    own = tool.definition["inputSchema"].get("properties", {})
    return {name: value for name, value in arguments.items() if name in own or name not in ignored}


async def _unknown_tool(context: Context, name: str) -> Unknown:
    """For a tool that does not exist for the caller, with the nearest name of those that do."""
    error = unknown("tool", name)
    nearest = partial(tool_search.nearest, context, name)
    # Whatever the name is: a clock must not tell which of them are hidden.
    is_query = any(
        each.asks_user or each.key in context.server.policies.blocking for each in context.server.tools.values()
    )
    meant = await context.site_runner.sync(nearest) if is_query else nearest()
    return error if meant is None else Unknown(f"{error.message} Did you mean {meant!r}?")
