"""Which calls are the same call again: those with the same idempotency key.

A client that lost its connection cannot know whether its call was run. It repeats it under the key of the first; the
tool runs once, and each repetition gets that result.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django_mcp.core.addresses import host_of
from django_mcp.core.channel import Repeat
from django_mcp.primitives.tool import Tool, ToolError
from django_mcp.protocol.errors import InvalidParams
from django_mcp.protocol.meta import IDEMPOTENCY_KEY, meta_of

if TYPE_CHECKING:
    from django_mcp.core.request import RequestContext

LONGEST_KEY = 255


def repeat_of(context: "RequestContext", tool: Tool, arguments: Mapping[str, Any]) -> Repeat | None:
    """The call as one of perhaps several tries; None where it has no key, or where running it again does no harm.

    A key belongs to a caller, an endpoint, the host that was called and a tool. Callers who are not signed in have
    keys in common: a repeated call is not run again, and has no result of the first.

    Raises:
        ToolError, InvalidParams: the key is none.
    """
    key = _own_key(tool, arguments)
    if key is None and not tool.read_only:
        key = _key_of_client(context.params)
    if key is None:
        return None
    principal = context.principal
    host = host_of(context.request.META)
    call = _digest([context.server.name, host, principal.kind, principal.id, tool.name, key])
    return context.channel.repeat(call, _digest(arguments), is_shared=principal.is_anonymous)


def _own_key(tool: Tool, arguments: Mapping[str, Any]) -> str | None:
    """What the tool's own argument says."""
    name = tool.idempotency_key
    if name is None or (value := arguments.get(name)) is None:
        return None
    if not _is_key(key := str(value)):
        raise ToolError(f"Argument {name!r} must have 1 to {LONGEST_KEY} characters.")
    return key


def _key_of_client(params: Mapping[str, Any]) -> str | None:
    """What the client says beside the arguments."""
    key = meta_of(params).get(IDEMPOTENCY_KEY)
    if key is None:
        return None
    if not isinstance(key, str) or not _is_key(key):
        raise InvalidParams(f'"params._meta[{IDEMPOTENCY_KEY!r}]" must be a string of 1 to {LONGEST_KEY} characters.')
    return key


def _is_key(key: str) -> bool:
    return 0 < len(key) <= LONGEST_KEY


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
