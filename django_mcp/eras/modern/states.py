"""``requestState``: what a call remembers between its rounds, in the hands of the client.

The client can read it and cannot change it: it is signed with ``SECRET_KEY`` (and read with its fallbacks, so keys
can be rotated while questions are open), and good only for the same caller, endpoint, host, method and arguments,
for ``INPUT_SECONDS`` (2026-07-28, Multi Round-Trip Requests, Server Requirements 4 and 5). It holds nothing the client
did not say itself.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from django.core import signing

from django_mcp.conf import settings
from django_mcp.core.context import Context
from django_mcp.core.elicitation import Dialogue
from django_mcp.core.request import host_of
from django_mcp.protocol.errors import InvalidParams

SALT = "django_mcp.request_state"


def seal(context: Context, params: Mapping[str, Any]) -> str:
    """The state for the next round of a call.

    Args:
        context: of the call.
        params: as the client sent them; those of the context may be of the tool that ``call_tool`` named.
    """
    value = {"for": _binding(context, params), **context.channel.dialogue.to_json()}
    return signing.dumps(value, salt=SALT, compress=True)


def unseal(state: Any, context: Context) -> Dialogue:
    """The dialogue a state holds.

    Args:
        state: as the client sent it.
        context: of the call that it came with, before anything runs.

    Raises:
        InvalidParams: it is not ours, not for this call, or too old.
    """
    if not isinstance(state, str):
        raise InvalidParams('"params.requestState" must be a string, as it was sent.')
    try:
        value = signing.loads(state, salt=SALT, max_age=settings.INPUT_SECONDS)
    except signing.SignatureExpired:
        raise InvalidParams("This requestState has expired. Make the call again without it.") from None
    except Exception:  # noqa: BLE001 - what is not signed may break the decoding in any way
        raise InvalidParams("This requestState was not issued here, or was altered.") from None
    if value.pop("for", None) != _binding(context, context.params):
        raise InvalidParams("This requestState belongs to another call: repeat the call with the same arguments.")
    return Dialogue(**value)


def _binding(context: Context, params: Mapping[str, Any]) -> str:
    principal = context.principal
    params = {key: value for key, value in params.items() if key not in {"_meta", "inputResponses", "requestState"}}
    caller = [host_of(context.request.META), principal.kind, principal.id]
    parts = [context.server.name, *caller, context.method, params]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]
