"""``completion/complete``: values for an argument of a prompt or resource template."""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from django.core.exceptions import PermissionDenied

from django_mcp.core.context import Context
from django_mcp.core.failures import (
    unknown_primitive,
)
from django_mcp.core.permissions import may_use
from django_mcp.core.server import MCPServer
from django_mcp.primitives.completions import Completer, completion
from django_mcp.primitives.prompt import Prompt, strings_only
from django_mcp.primitives.resource import Resource
from django_mcp.protocol.errors import InvalidParams
from django_mcp.protocol.jsonrpc import Result

if TYPE_CHECKING:
    pass


async def complete(context: Context) -> Result:
    """Handle ``completion/complete``. An argument without completions has no values; that is no error.

    Raises:
        InvalidParams: malformed parameters, or a prompt, template or argument that does not exist for the caller.
    """
    kind, key, primitive = _referenced(context.server, context.params.get("ref"))
    name, value = _completed_argument(context.params.get("argument"))
    chosen = _other_arguments(context.params.get("context"))
    if primitive is None or not await may_use(context, primitive):
        raise unknown_primitive(kind, key)
    _require_argument(name, primitive)
    completer = primitive.completers.get(name)
    # A completer may list a folder: it gets no text that the resource itself would not get.
    texts = [(name, value), *chosen.items()]
    is_refused = isinstance(primitive, Resource) and any(primitive.refuses(*text) for text in texts)
    if completer is None or is_refused:
        return Result({"completion": completion([])})
    try:
        return Result(
            {"completion": await _run_completer(context, completer, completer.keywords(context, value, chosen))}
        )
    except PermissionDenied:
        raise unknown_primitive(kind, key) from None


async def _run_completer(context: Context, completer: Completer, keywords: dict[str, Any]) -> dict[str, Any]:
    if completer.is_async:
        found = await context.site_runner.coroutine(completer.call, **keywords)
        return await context.site_runner.checks.sync(partial(completion, found))  # it may be a lazy queryset
    return await context.site_runner.sync(lambda: completion(completer.call(**keywords)))


def _referenced(server: MCPServer, ref: Any) -> tuple[str, str, Prompt | Resource | None]:
    match ref:
        case {"type": "ref/prompt", "name": str(name)}:
            return "prompt", name, server.prompts.get(name)
        case {"type": "ref/resource", "uri": str(uri)}:
            return "resource template", uri, server.templates.get(uri) or server.resources.get(uri)
    raise InvalidParams(
        '"params.ref" must be {"type": "ref/prompt", "name": …} or {"type": "ref/resource", "uri": …}, with strings.'
    )


def _completed_argument(argument: Any) -> tuple[str, str]:
    match argument:
        case {"name": str(name), "value": str(value)}:
            return name, value
    raise InvalidParams('"params.argument" must be {"name": …, "value": …}, with strings.')


def _other_arguments(context: Any) -> Mapping[str, str]:
    match context:
        case None | {"arguments": None}:
            return {}
        case {"arguments": dict(arguments)} if not strings_only(arguments):
            return arguments
        case dict() if "arguments" not in context:
            return {}
    raise InvalidParams('"params.context" must be {"arguments": {…}}, with strings.')


def _require_argument(name: str, primitive: Prompt | Resource) -> None:
    # A plain resource has no arguments, and its URI may be completed.
    known = primitive.arguments.schema["properties"]
    if name in known or (isinstance(primitive, Resource) and not primitive.is_template):
        return
    offer = f"It takes {', '.join(map(repr, known))}." if known else "It takes no arguments."
    raise InvalidParams(f"{unknown_primitive('argument', name).message} {offer}")
