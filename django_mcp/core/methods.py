"""From method to handler, for every client alike."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from django_mcp.core import rates
from django_mcp.core.channel import Cancelled
from django_mcp.core.completion import complete
from django_mcp.core.concurrency import in_transaction
from django_mcp.core.context import Context
from django_mcp.core.dialogue import merged
from django_mcp.core.failures import request_failure, tool_failure, unknown
from django_mcp.core.permissions import is_permitted, may_know
from django_mcp.core.registry import MCPServer
from django_mcp.primitives.base import Primitive
from django_mcp.primitives.prompt import strings_only
from django_mcp.primitives.resource import Resource
from django_mcp.primitives.tool import Tool
from django_mcp.protocol.cursors import decode_cursor, encode_cursor
from django_mcp.protocol.errors import InvalidParams, MethodNotFound, ResourceNotFound
from django_mcp.protocol.results import Result

T = TypeVar("T")


async def list_tools(context: Context) -> Result:
    """``tools/list``."""
    return await _page(context, "tools", context.server.tools.values())


async def call_tool(context: Context) -> Result:
    """``tools/call``: what goes wrong in the tool is a result, so that the model can read it."""
    name = _string(context.params, "name")
    tool = context.server.tools.get(name)
    if tool is None or (tool.permission is not None and not await may_know(context, tool)):
        raise unknown("tool", name)
    if context.server.rate is not None or tool.rate is not None:
        await context.runner.sync(partial(rates.count, context.server, tool, context.principal))
    try:
        arguments = _arguments(context.params)
        if tool.mirrors:
            context.channel.check_mirrors(tool.mirrors, arguments)
        keywords = tool.arguments.validate(arguments)
        if tool.function.context is not None:
            keywords = tool.keywords(context, keywords)
        return Result(await _run_tool(context, tool, keywords))
    except Exception as error:  # noqa: BLE001 - tool_failure is where it is decided
        return tool_failure(error, context)


async def _run_tool(context: Context, tool: Tool, keywords: dict[str, Any]) -> dict[str, Any]:
    function = tool.function
    if function.is_async:
        return tool.output.fields(await context.runner.coroutine(function.call, **keywords))

    def job() -> dict[str, Any]:
        if context.channel.cancelled:  # while it waited for a thread
            raise Cancelled
        # Shown in the same thread and transaction: a returned queryset is read there.
        return tool.output.fields(function.call(**keywords))

    if tool.atomic:
        return await context.runner.sync(partial(in_transaction, job, context if function.context else None))
    return await context.runner.sync(job)


async def list_resources(context: Context) -> Result:
    """``resources/list``."""
    return await _page(context, "resources", context.server.resources.values())


async def list_resource_templates(context: Context) -> Result:
    """``resources/templates/list``."""
    return await _page(context, "resourceTemplates", context.server.templates.values())


async def read_resource(context: Context) -> Result:
    """``resources/read``. A plain resource goes before templates, templates in order of registration."""
    uri = _string(context.params, "uri")
    for resource, arguments in _matches(context, uri):
        if await may_know(context, resource):
            contents = await _run(context, resource, arguments, partial(resource.contents, uri))
            return Result({"contents": contents}, ttl_ms=0)
    raise ResourceNotFound(uri)


def _matches(context: Context, uri: str) -> Iterable[tuple[Resource, dict[str, Any]]]:
    if (exact := context.server.resources.get(uri)) is not None:
        yield exact, {}
    for template in context.server.templates.values():
        if (arguments := template.match(uri)) is not None:
            yield template, arguments


async def known_resources(context: Context, uris: Sequence[str]) -> list[str]:
    """Those of *uris* that the caller may know of."""
    return [uri for uri in uris if any([await may_know(context, resource) for resource, _ in _matches(context, uri)])]


async def list_prompts(context: Context) -> Result:
    """``prompts/list``."""
    return await _page(context, "prompts", context.server.prompts.values())


async def get_prompt(context: Context) -> Result:
    """``prompts/get``."""
    name = _string(context.params, "name")
    prompt = context.server.prompts.get(name)
    if prompt is None or not await may_know(context, prompt):
        raise unknown("prompt", name)
    arguments = _arguments(context.params)
    if wrong := strings_only(arguments):
        raise InvalidParams(f"Arguments of a prompt are strings; {', '.join(map(repr, wrong))} is not.")
    return Result(await _run(context, prompt, prompt.arguments.validate(arguments), prompt.fields))


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


async def dispatch(context: Context) -> Result:
    """Serve one call.

    Raises:
        ProtocolError: the call failed.
        InputRequired: it needs answers first.
        Cancelled: it found that nobody waits any more.
    """
    method = METHODS.get(context.method)
    if method is None or method.capability not in context.server.capabilities:
        raise MethodNotFound(f"Unknown method {context.method[:100]!r}.")
    try:
        return await method.handler(context)
    except BaseExceptionGroup as group:  # what the tasks of a TaskGroup asked side by side
        if (asked := merged(group)) is not None:
            raise asked from None
        if context.method == "tools/call":
            return tool_failure(group, context)
        raise request_failure(group, context) from None
    except Exception as error:  # noqa: BLE001 - request_failure is where it is decided
        raise request_failure(error, context) from None


def may_speak(server: MCPServer, method: str, params: Mapping[str, Any]) -> bool:
    """Whether the code behind a call can say or ask anything while it runs, or be stopped by a cancellation.

    What cannot is most of all calls, and they are spared the machinery for it.
    """
    primitive: Primitive | None = None
    match method:
        case "tools/call":
            primitive = server.tools.get(str(params.get("name")))
        case "prompts/get":
            primitive = server.prompts.get(str(params.get("name")))
        case "resources/read":
            primitive = server.resources.get(str(params.get("uri")))
            if primitive is None:
                return any(each.speaks for each in server.templates.values())
    return primitive is not None and primitive.speaks


async def _run(context: Context, primitive: Primitive, arguments: dict[str, Any], show: Callable[[Any], T]) -> T:
    """Call a resource's or prompt's function and show what it gives, both on the side the function is on."""
    function, keywords = primitive.function, primitive.keywords(context, arguments)
    if function.is_async:
        return show(await context.runner.coroutine(function.call, **keywords))
    return await context.runner.sync(lambda: show(function.call(**keywords)))


async def _page(context: Context, member: str, primitives: Collection[Primitive]) -> Result:
    """One page of a list: entries after the cursor's position that the caller may know of.

    Where no entry depends on the caller the page is the same for everybody: it is kept, encodings and all.
    """
    server = context.server
    after = decode_cursor(context.params.get("cursor"))
    kept = server.pages.get((member, after))
    if kept is not None:
        return kept
    public = all(primitive.permission is None for primitive in primitives)
    entries = [primitive for primitive in primitives if primitive.position > after]
    if not public:
        # One hop for all of them: each permission may be a query.
        entries = await context.runner.sync(lambda: [each for each in entries if is_permitted(context, each)])
    shown = entries[: server.page_size]
    fields: dict[str, Any] = {member: [primitive.definition for primitive in shown]}
    if len(entries) > len(shown):
        fields["nextCursor"] = encode_cursor(shown[-1].position)
    page = Result(fields, ttl_ms=server.ttl_ms, public=public, encoded={} if public else None)
    # A position that no cursor of ours has is not worth keeping, or clients could fill the memory.
    if public and after in {-1, *(primitive.position for primitive in primitives)}:
        server.pages[member, after] = page
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
        raise InvalidParams('"params.arguments" must be an object.')
    return arguments
