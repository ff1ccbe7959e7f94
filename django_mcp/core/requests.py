"""The Django request that tools get: what the caller sent, but for what proves who they are.

A tool that had the token could pass it on to somebody else's service, and a log could keep it (2026-07-28,
Authorization, Token Passthrough).
"""

import copy
from typing import Any
from urllib.parse import parse_qsl, urlencode

HEADERS = ("authorization", "cookie", "proxy-authorization", "x-api-key")
PARAMETERS = frozenset({"api_key", "access_token"})


def without_credentials(request: Any) -> Any:
    """A copy of a Django request without credentials, cookies and session."""
    found = copy.copy(request)
    found.META = {name: value for name, value in request.META.items() if name not in _VARIABLES}
    given = found.META.get("QUERY_STRING", "")
    found.META["QUERY_STRING"] = query = _cleaned(given)
    if query != given:
        for whole in ("RAW_URI", "REQUEST_URI"):  # as servers may add them
            found.META.pop(whole, None)
    if hasattr(found, "environ"):  # under WSGI
        found.environ = found.META
    if hasattr(found, "scope"):  # under ASGI
        headers = [pair for pair in found.scope.get("headers", ()) if pair[0].decode("latin-1").lower() not in HEADERS]
        found.scope = {**found.scope, "headers": headers, "query_string": query.encode("latin-1")}
    for made_from_them in ("headers", "GET"):
        if hasattr(type(found), made_from_them):  # cached there, and made anew when asked for
            vars(found).pop(made_from_them, None)
    vars(found).pop("session", None)
    found.COOKIES = {}
    return found


def set_user(request: Any, user: Any) -> None:
    """Have a Django request be that of *user*, as ``AuthenticationMiddleware`` does."""

    async def auser() -> Any:
        return user

    request.user, request.auser = user, auser


def _cleaned(query: str) -> str:
    pairs = parse_qsl(query, keep_blank_values=True)
    kept = [pair for pair in pairs if pair[0] not in PARAMETERS]
    return query if len(kept) == len(pairs) else urlencode(kept)


_VARIABLES = frozenset(f"HTTP_{name.upper().replace('-', '_')}" for name in HEADERS)
