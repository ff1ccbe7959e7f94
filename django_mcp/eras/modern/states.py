"""``requestState``: what a call remembers between its rounds, in the hands of the client.

The client can read it and cannot change it: it is signed with ``SECRET_KEY`` (and read with its fallbacks, so keys
can be rotated while questions are open), and good only for the same caller, endpoint, method and arguments, for
``INPUT_SECONDS`` (2026-07-28, Multi Round-Trip Requests, Server Requirements 4 and 5). It holds nothing the client
did not say itself.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from django.core import signing

from django_mcp.conf import settings
from django_mcp.core.dialogue import Dialogue
from django_mcp.core.principal import Principal
from django_mcp.core.registry import MCPServer
from django_mcp.protocol.errors import InvalidParams
from django_mcp.protocol.jsonrpc import Request

SALT = "django_mcp.request_state"


def seal(dialogue: Dialogue, request: Request, server: MCPServer, principal: Principal) -> str:
    """The state for the next round."""
    value = {"for": _binding(request, server, principal), **dialogue.to_json()}
    return signing.dumps(value, salt=SALT, compress=True)


def unseal(state: Any, request: Request, server: MCPServer, principal: Principal) -> Dialogue:
    """The dialogue a state holds.

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
    if value.pop("for", None) != _binding(request, server, principal):
        raise InvalidParams("This requestState belongs to another call: repeat the call with the same arguments.")
    return Dialogue(**value)


def _binding(request: Request, server: MCPServer, principal: Principal) -> str:
    params: Mapping[str, Any] = {
        key: value for key, value in request.params.items() if key not in {"_meta", "inputResponses", "requestState"}
    }
    parts = [server.name, principal.kind, principal.id, request.method, params]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]
