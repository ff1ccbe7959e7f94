"""From method to handler, for every client alike."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

from django.core.exceptions import PermissionDenied

from django_mcp.conf import settings
from django_mcp.core import discovery, rates
from django_mcp.core.channel import Cancelled
from django_mcp.core.completion import complete
from django_mcp.core.concurrency import in_transaction
from django_mcp.core.context import Context
from django_mcp.core.dialogue import merged
from django_mcp.core.failures import Unknown, request_failure, tool_failure, unknown
from django_mcp.core.known import matches
from django_mcp.core.limits import too_large
from django_mcp.core.permissions import is_for_everybody, known_of, look_for, may_use
from django_mcp.core.reading import read, run
from django_mcp.core.registry import MCPServer, Rows
from django_mcp.core.running import conducted
from django_mcp.primitives.base import Primitive
from django_mcp.primitives.prompt import strings_only
from django_mcp.primitives.schema import ArgumentError
from django_mcp.primitives.sizes import OutputTooLarge
from django_mcp.primitives.tool import Tool, ToolError
from django_mcp.primitives.translated import spoken
from django_mcp.primitives.words import kind_name
from django_mcp.protocol.cursors import decode_cursor, encode_cursor, is_cursor
from django_mcp.protocol.envelope import IDEMPOTENCY_KEY
from django_mcp.protocol.errors import InvalidParams, MethodNotFound
from django_mcp.protocol.results import Result


async def list_tools(context: Context) -> Result:
    """``tools/list``."""
    return await page_of(context, "tools", context.server.tools.values())


async def call_tool(context: Context) -> Result:
    """``tools/call``: what goes wrong in the tool is a result, so that the model can read it."""
    name = _string(context.params, "name")
    tool = context.server.tools.get(name) or discovery.find(context.server, name)
    if tool is discovery.CALL:
        return await _call_named(context)
    if tool is None:
        await look_for(context, context.server.tools.values())
    # Most tools are for everybody who may call at all; those are not asked about.
    guarded = tool is not None and (tool.is_guarded or context.principal.tools is not None)
    if tool is None or (guarded and not await may_use(context, tool)):
        raise await _unknown_tool(context, name)
    if (context.server.rate is not None or tool.rate is not None) and not context.channel.is_task:
        await context.runner.sync(partial(rates.count, context.server, tool, context.principal))
    try:
        arguments = _arguments(context.params)
        if tool.mirrors and not context.is_relayed:
            context.channel.check_mirrors(tool.mirrors, arguments)
        keywords = tool.arguments.validate(arguments)
        if tool.function.context is not None:
            keywords = tool.keywords(context, keywords)
        if tool.answered_by is not None and (answer := await _answered(context, tool, keywords)) is not None:
            return answer
        meta = context.params.get("_meta")
        is_keyed = type(meta) is dict and IDEMPOTENCY_KEY in meta
        if not (is_keyed or tool.is_conducted or settings.TOOL_TIMEOUT):
            return Result(await _run_tool(context, tool, keywords))
        return Result(await conducted(context, tool, arguments, partial(_run_tool, context, tool, keywords)))
    except Exception as error:  # noqa: BLE001 - tool_failure is where it is decided
        return await _failed(context, tool, error)


async def _answered(context: Context, tool: Tool, keywords: dict[str, Any]) -> Result | None:
    """What stands for the result of a tool that is not run there and then; None where it is."""
    if tool.answered_by is None or context.channel.is_task:
        return None
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
    arguments = _arguments(context.params)
    try:
        meant = discovery.CALL.arguments.validate(arguments)
        if discovery.find(context.server, meant["name"]) is discovery.CALL:
            raise unknown("tool", meant["name"])
        context.params = {**context.params, **meant}
        context.is_relayed = True
        return await call_tool(context)
    except Unknown as error:
        return tool_failure(ToolError(f"{error.message} search_tools finds what there is."), context)
    except ArgumentError as error:
        return tool_failure(ArgumentError([*error.problems, *discovery.misplaced(arguments)]), context)


async def _run_tool(context: Context, tool: Tool, keywords: dict[str, Any]) -> dict[str, Any]:
    function, conduct = tool.function, context.conduct
    most = settings.OUTPUT_LIMIT if tool.output_limit is None else tool.output_limit or None
    most_bytes = settings.BINARY_OUTPUT_LIMIT
    if function.is_async:
        call = function.call if conduct is None else conduct.in_time(function.call)
        return tool.output.fields(await context.runner.coroutine(call, **keywords), most, most_bytes)

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
    return await context.runner.sync(work if conduct is None else partial(conduct.watch, work))


async def list_resources(context: Context) -> Result:
    """``resources/list``: what was registered, and behind it the rows of models that are resources."""
    cursor = context.params.get("cursor")
    rows = context.server.rows
    if rows is None:
        return await page_of(context, "resources", context.server.resources.values())
    if not is_cursor(cursor):
        return await context.runner.sync(partial(_rows, context, rows, cursor, context.server.page_size, ()))
    page = await page_of(context, "resources", context.server.resources.values())
    if "nextCursor" in page.fields:
        return page
    own = page.fields["resources"]
    return await context.runner.sync(partial(_rows, context, rows, None, context.server.page_size - len(own), own))


def _rows(context: Context, rows: Rows, cursor: Any, room: int, before: Sequence[dict[str, Any]]) -> Result:
    entries, following = rows(context, cursor, room)
    fields: dict[str, Any] = {"resources": [*before, *entries]}
    if following is not None:
        fields["nextCursor"] = following
    return Result(fields, ttl_ms=context.server.ttl_ms)


async def list_resource_templates(context: Context) -> Result:
    """``resources/templates/list``."""
    return await page_of(context, "resourceTemplates", context.server.templates.values())


async def read_resource(context: Context) -> Result:
    """``resources/read``."""
    uri = _string(context.params, "uri")
    contents = await read(context, uri, lambda resource, value: resource.contents(uri, value), context.runner)
    return Result({"contents": contents}, ttl_ms=0)


async def list_prompts(context: Context) -> Result:
    """``prompts/list``."""
    return await page_of(context, "prompts", context.server.prompts.values())


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
    checked = prompt.arguments.validate(arguments)
    return Result(await run(context, prompt, checked, prompt.fields, context.runner, context.language))


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


async def dispatch(context: Context, *, extended: bool = False) -> Result:
    """Serve one call.

    Args:
        context: of the call.
        extended: the client's protocol has extensions.

    Raises:
        ProtocolError: the call failed.
        InputRequired: it needs answers first.
        Cancelled: it found that nobody waits any more.
    """
    if context.server.refresh is not None:
        await context.runner.sync(context.server.refresh)
    method = METHODS.get(context.method)
    if method is not None and method.capability in context.server.capabilities:
        handler = method.handler
    elif extended:
        handler = _extension_method(context)
    else:
        raise _unknown_method(context)
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


def _extension_method(context: Context) -> Callable[[Context], Awaitable[Result]]:
    for extension in context.server.extensions.values():
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
    return primitive is not None and primitive.speaks


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
    kept = server.pages.get((member, after, language)) if listed is None else None
    if kept is not None:
        return kept
    public = listed is None and is_for_everybody(primitives)
    is_searched = member == "tools" and server.search_above > 0  # where all that the caller may know of are counted
    entries: Sequence[Primitive] = [primitive for primitive in primitives if is_searched or primitive.position > after]
    if not public:
        # One hop for all of them: each permission may be a query.
        entries = await context.runner.sync(partial(known_of, context, entries))
    first, entries = discovery.offered(server, entries, after) if is_searched else ((), entries)
    shown = entries[: max(server.page_size - len(first), 1)]
    definitions = [*first, *map(show, shown)]
    fields: dict[str, Any] = {member: spoken(definitions, language) if language else definitions}
    if len(entries) > len(shown):
        fields["nextCursor"] = encode_cursor(shown[-1].position)
    page = Result(fields, ttl_ms=server.ttl_ms, public=public and not language, encoded={} if public else None)
    # A position that no cursor of ours has is not worth keeping, or clients could fill the memory.
    if public and after in {-1, *(primitive.position for primitive in primitives)}:
        server.pages[member, after, language] = page
    return page


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


async def _unknown_tool(context: Context, name: str) -> Unknown:
    """For a tool that does not exist for the caller, with the nearest name of those that do."""
    error = unknown("tool", name)
    nearest = partial(discovery.nearest, context, name)
    # Whatever the name is: a clock must not tell which of them are hidden.
    is_query = any(each.asks_user for each in context.server.tools.values())
    meant = await context.runner.sync(nearest) if is_query else nearest()
    return error if meant is None else Unknown(f"{error.message} Did you mean {meant!r}?")
