"""From method to handler, for every client alike."""

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from functools import partial
from time import monotonic
from typing import Any, NamedTuple

from django.core.exceptions import PermissionDenied

from django_mcp.conf import settings
from django_mcp.core import discovery, rates
from django_mcp.core.channel import Cancelled
from django_mcp.core.completion import complete
from django_mcp.core.context import Context
from django_mcp.core.database import in_transaction
from django_mcp.core.dialogue import InputRequired, merged
from django_mcp.core.failures import Unknown, request_failure, tool_failure, unknown
from django_mcp.core.known import matches
from django_mcp.core.limits import too_large
from django_mcp.core.observing import watching
from django_mcp.core.pages import list_resources, page_of
from django_mcp.core.permissions import find_rule, look_for, may_use
from django_mcp.core.policies import Admission, Decision, Rule, book
from django_mcp.core.reading import read, run
from django_mcp.core.registry import MCPServer
from django_mcp.core.running import Conduct, conducted, surely
from django_mcp.primitives.base import Primitive
from django_mcp.primitives.output import OutputTooLarge
from django_mcp.primitives.prompt import Prompt, strings_only
from django_mcp.primitives.schema import ArgumentError
from django_mcp.primitives.tool import Tool, ToolError
from django_mcp.primitives.validation_errors import kind_name
from django_mcp.protocol.errors import InvalidParams, MethodNotFound
from django_mcp.protocol.jsonrpc import Result
from django_mcp.protocol.meta import IDEMPOTENCY_KEY


def list_tools(context: Context) -> Coroutine[Any, Any, Result]:
    """``tools/list``."""
    return page_of(context, "tools", context.server.tools.values())


async def call_tool(context: Context) -> Result:
    """``tools/call``: what goes wrong in the tool is a result, so that the model can read it."""
    name = _string(context.params, "name")
    tool = context.server.tools.get(name)
    if tool is None and discovery.is_call(tool := discovery.find(context.server, name)):
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
        count = partial(rates.count, context.server, tool, context.principal)
        await context.runner.sync(partial(count, f"{dialogue.id} {dialogue.round}") if dialogue.round else count)
    try:
        return await _serve(context, tool)
    except Exception as error:  # noqa: BLE001 - tool_failure is where it is decided
        return await _failed(context, tool, error)


async def _serve(context: Context, tool: Tool) -> Result:
    """Check the arguments, see who has to be asked, and run it."""
    if tool.is_late:
        await context.site_runner.sync(tool.find_failure)
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
    if tool.answered_by is not None and (answer := await _answered(context, tool, keywords)) is not None:
        return answer
    run = _run_tool if context.spend is None else _run_resumed
    meta = context.params.get("_meta")
    is_keyed = type(meta) is dict and IDEMPOTENCY_KEY in meta
    if not (is_keyed or tool.is_conducted or settings.TOOL_TIMEOUT):
        return Result(await run(context, tool, keywords))
    return Result(await conducted(context, tool, arguments, partial(run, context, tool, keywords)))


async def _validated(context: Context, primitive: Tool | Prompt, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments as the function takes them, read within the site's context managers.

    Many are read so too: on the event loop nobody else would be served meanwhile.
    """
    return await context.site_runner.sync(partial(primitive.arguments.validate, arguments))


ApprovalGate = Callable[[Context, Tool, dict[str, Any], Rule], Awaitable[Result | None]]
"""Takes a call that has to be approved, with its validated arguments; returns the result that answers it, or None if it
may run. Then the context has its ``Admission``."""

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
        raise ToolError("This call needs an approval, which nobody can give on this site.")
    return await approval_gate(context, tool, keywords, rule)


async def _answered(context: Context, tool: Tool, keywords: dict[str, Any]) -> Result | None:
    """What stands for the result of a tool that is not run there and then; None where it is."""
    if tool.answered_by is None or context.channel.is_task:
        return None
    if context.spend is not None:
        await _spend(context)
    return await tool.answered_by(context, tool, keywords)


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
    arguments = _known(_arguments(context.params), discovery.finders()[1])
    try:
        meant = discovery.finders()[1].arguments.validate(arguments)
        if discovery.is_call(discovery.find(context.server, meant["name"])):
            raise unknown("tool", meant["name"])
        context.params = {**context.params, **meant}
        context.is_relayed = True
        return await call_tool(context)
    except Unknown as error:
        return tool_failure(ToolError(f"{error.message} search_tools finds what there is."), context)
    except ArgumentError as error:
        return tool_failure(ArgumentError([*error.problems, *discovery.misplaced(arguments)]), context)


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
        raise InvalidParams("This requestState was used already. Make the call again without it.")


async def _run_resumed(
    context: Context, tool: Tool, keywords: dict[str, Any], conduct: Conduct | None = None
) -> dict[str, Any]:
    await _spend(context)
    return await _run_tool(context, tool, keywords, conduct)


async def _run_tool(
    context: Context, tool: Tool, keywords: dict[str, Any], conduct: Conduct | None = None
) -> dict[str, Any]:
    function, admission = tool.function, context.admission
    most = settings.OUTPUT_LIMIT if tool.output_limit is None else tool.output_limit or None
    most_bytes = settings.BINARY_OUTPUT_LIMIT
    runner = context.site_runner if settings.CALL_CONTEXT_MANAGERS else context.runner
    if function.is_async:
        call = function.call if conduct is None else conduct.in_time(function.call)
        if admission is not None:
            return await _admitted(context, admission, partial(call, **keywords), tool, most, most_bytes)
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
    if admission is not None:
        work = partial(admission.around, work)
    return await runner.sync(work if conduct is None else partial(conduct.watch, work))


async def _admitted(
    context: Context,
    admission: Admission,
    call: Callable[[], Awaitable[Any]],
    tool: Tool,
    most: int | None,
    most_bytes: int | None,
) -> dict[str, Any]:
    """``Admission.around`` for a coroutine function."""
    await context.runner.sync(admission.use)
    outcome = "error"
    try:
        fields = tool.output.fields(await context.site_runner.coroutine(call), most, most_bytes)
        outcome = "error" if fields.get("isError") else "ok"
    except (InputRequired, BaseExceptionGroup) as ended:
        outcome = "" if isinstance(ended, InputRequired) or merged(ended) is not None else "error"
        raise
    finally:
        if outcome:
            await surely(context.runner, partial(admission.ended, outcome))
    return fields


def list_resource_templates(context: Context) -> Coroutine[Any, Any, Result]:
    """``resources/templates/list``."""
    return page_of(context, "resourceTemplates", context.server.templates.values())


async def read_resource(context: Context) -> Result:
    """``resources/read``."""
    uri = _string(context.params, "uri")
    contents = await read(context, uri, lambda resource, value: resource.contents(uri, value), context.site_runner)
    return Result({"contents": contents}, ttl_ms=0)


def list_prompts(context: Context) -> Coroutine[Any, Any, Result]:
    """``prompts/list``."""
    return page_of(context, "prompts", context.server.prompts.values())


async def get_prompt(context: Context) -> Result:
    """``prompts/get``."""
    name = _string(context.params, "name")
    prompt = context.server.prompts.get(name)
    if prompt is None:
        await look_for(context, context.server.prompts.values())
    if prompt is None or not await may_use(context, prompt):
        raise unknown("prompt", name)
    arguments = _arguments(context.params)
    if wrong := strings_only(arguments):
        raise InvalidParams(f"Arguments of a prompt are strings; {', '.join(map(repr, wrong))} is not.")
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
    context: Context,
    *,
    extended: bool = False,
    watched: bool = False,
    begin: Callable[[], Awaitable[None]] | None = None,
) -> Result:
    """Serve one call.

    Args:
        context: of the call.
        extended: the client's protocol has extensions.
        watched: the observer watches already.
        begin: looks first at what the protocol adds to a call; whoever watches sees what it raises.

    Raises:
        ProtocolError: the call failed.
        InputRequired: it needs answers first.
        Cancelled: it found that nobody waits any more.
    """
    observer = watching.observer
    if observer is not None and not watched and observer.wants(context):
        return await observer.watch(context, partial(dispatch, context, extended=extended, watched=True, begin=begin))
    if begin is not None:
        await begin()
    if context.server.refresh is not None:
        await context.runner.sync(context.server.refresh)
    if book.due <= monotonic():  # looked at by every call, so without a call
        await book.refresh(context.runner)
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


def may_speak(server: MCPServer, method: str, params: Mapping[str, Any]) -> bool:
    """Whether the code behind a call can say or ask anything while it runs, or be stopped by a cancellation.

    What cannot is most of all calls, and they are spared the machinery for it.
    """
    primitive: Primitive | None = None
    match method:
        case "tools/call":
            primitive = server.tools.get(str(params.get("name"))) or discovery.behind(server, params)
        case "prompts/get":
            primitive = server.prompts.get(str(params.get("name")))
        case "resources/read":
            primitive = server.resources.get(str(params.get("uri")))
            if primitive is None:
                return any(each.speaks for each in server.templates.values())
    if primitive is None or primitive.speaks:
        return primitive is not None
    # Whoever is to approve the call is waited for; and what was decided is looked at only when the call is served.
    if not isinstance(primitive, Tool):
        return False
    return primitive.key in server.policies.asking or (book.due <= monotonic() and not primitive.read_only)


def named(server: MCPServer, method: Any, params: Mapping[str, Any]) -> Iterable[Primitive]:
    """What a call is about, in the order in which it is tried; nothing where it is a list, or unknown."""
    match method, params:
        case "tools/call", {"name": str(name)} if name in server.tools:
            yield server.tools[name]
        case "tools/call", _ if (tool := discovery.behind(server, params)) is not None:
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


def _string(params: Mapping[str, Any], key: str) -> str:
    value = params.get(key)
    if not isinstance(value, str):
        raise InvalidParams(f'"params.{key}" must be a string.')
    return value


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
    nearest = partial(discovery.nearest, context, name)
    # Whatever the name is: a clock must not tell which of them are hidden.
    is_query = any(
        each.asks_user or each.key in context.server.policies.blocking for each in context.server.tools.values()
    )
    meant = await context.site_runner.sync(nearest) if is_query else nearest()
    return error if meant is None else Unknown(f"{error.message} Did you mean {meant!r}?")
