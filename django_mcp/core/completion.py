"""``completion/complete`` (2026-07-28, Completion): what may be meant by what is being typed."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from django.core.exceptions import PermissionDenied

from django_mcp.core.context import Context
from django_mcp.core.failures import unknown
from django_mcp.core.permissions import may_use
from django_mcp.core.registry import MCPServer
from django_mcp.primitives.completions import Completer, completion
from django_mcp.primitives.prompt import Prompt, strings_only
from django_mcp.primitives.resource import Resource
from django_mcp.protocol.errors import InvalidParams
from django_mcp.protocol.jsonrpc import Result


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
