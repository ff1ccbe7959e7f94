"""Storage of a task's caller, restored with current permissions."""

import datetime
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlencode

from django.http import HttpRequest

from django_mcp.conf import settings
from django_mcp.core.context import Context
from django_mcp.core.principal import Principal
from django_mcp.core.request import StandInRequest
from django_mcp.core.resources import refresh_principal
from django_mcp.core.server import MCPServer
from django_mcp.models import Task
from django_mcp.secret_names import GENERATED, match

STORED_METADATA = (
    "HTTP_ACCEPT_LANGUAGE",
    "HTTP_HOST",
    "HTTP_X_FORWARDED_HOST",
    "HTTP_X_FORWARDED_PORT",
    "REMOTE_ADDR",
    "SCRIPT_NAME",
    "SERVER_NAME",
    "SERVER_PORT",
)
"""Metadata to store for ``ctx.request`` in any case: the site's address, and the language."""
MAX_HEADER = 256
"""Characters of a header to store. Longer ones are claims, certificates and cookies, not names of tenants."""


def _metadata(request: HttpRequest) -> Iterator[tuple[str, str]]:
    # A site may read the tenant, the client's address or the language from any header. The request has no credentials
    # that this package reads. A site's own credentials are recognised by their names.
    always = {*STORED_METADATA, f"HTTP_{(settings.CLIENT_ADDRESS_HEADER or '').upper().replace('-', '_')}"}
    for name, value in request.META.items():
        header = name.removeprefix("HTTP_")
        if name in always or (header != name and len(str(value)) <= MAX_HEADER and not match(header, GENERATED)):
            yield name, str(value)
    pairs = parse_qsl(request.META.get("QUERY_STRING", ""), keep_blank_values=True)
    yield "QUERY_STRING", urlencode([pair for pair in pairs if not match(pair[0], GENERATED)])


def snapshot(context: Context) -> dict[str, Any]:
    principal, request = context.principal, context.request
    return {
        "scopes": None if principal.scopes is None else sorted(principal.scopes),
        "client_id": principal.client_id,
        "credential": principal.credential,
        "resource": principal.resource,
        "expires": None if principal.expires is None else principal.expires.isoformat(),
        "request": {
            "path": request.path,
            "path_info": request.path_info,
            "scheme": request.scheme,
            "meta": dict(_metadata(request)),
        },
    }


class PrincipalGone(Exception):
    """The caller has lost access."""


def restore(task: Task, server: MCPServer) -> Principal:
    """Return the caller with current permissions.

    Raises:
        PrincipalGone: the caller has lost access.
    """
    from django.contrib.auth.models import AnonymousUser  # noqa: PLC0415 - not installed on every site

    user: Any = AnonymousUser() if task.user is None else task.user
    kept = task.caller
    then = Principal(
        kind=task.principal_kind,
        id=task.principal_id,
        user=user,
        scopes=None if kept["scopes"] is None else frozenset(kept["scopes"]),
        client_id=kept["client_id"],
        credential=kept["credential"],
        resource=kept.get("resource", ""),
        expires=None if kept["expires"] is None else datetime.datetime.fromisoformat(kept["expires"]),
    )
    now = refresh_principal(then, server)
    if now is None:
        raise PrincipalGone
    return now


def request_of(task: Task) -> StandInRequest:
    kept = task.caller["request"]
    path_info = kept.get("path_info", kept["path"])
    return StandInRequest(kept["path"], kept["meta"], path_info=path_info, scheme=kept["scheme"])
