"""Storage of a task's caller, restored with current permissions."""

import datetime
from typing import Any

from django.conf import settings as django_settings
from django.http import HttpRequest

from django_mcp.core.context import Context
from django_mcp.core.principal import Principal
from django_mcp.core.resources import refresh_principal
from django_mcp.core.server import MCPServer
from django_mcp.models import Task

KEPT = (
    "HTTP_ACCEPT_LANGUAGE",
    "HTTP_HOST",
    "HTTP_X_FORWARDED_HOST",
    "HTTP_X_FORWARDED_PORT",
    "REMOTE_ADDR",
    "SCRIPT_NAME",
    "SERVER_NAME",
    "SERVER_PORT",
)
"""Stored metadata for ``ctx.request``: the site's address, and the language."""


def saved(context: Context) -> dict[str, Any]:
    """Return caller and request as stored."""
    principal, request = context.principal, context.request
    meta = {name: str(request.META[name]) for name in KEPT if name in request.META}
    return {
        "scopes": None if principal.scopes is None else sorted(principal.scopes),
        "client_id": principal.client_id,
        "credential": principal.credential,
        "resource": principal.resource,
        "expires": None if principal.expires is None else principal.expires.isoformat(),
        "request": {"path": request.path, "scheme": request.scheme, "meta": meta},
    }


class Gone(Exception):
    """The caller has lost access."""


def restored(task: Task, server: MCPServer) -> Principal:
    """Return the caller with current permissions.

    Raises:
        Gone: the caller has lost access.
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
        raise Gone
    return now


def request_of(task: Task) -> HttpRequest:
    """Return a Django request like the original."""
    kept = task.caller["request"]
    request = _Request(kept["scheme"])
    request.method = "POST"
    request.path = request.path_info = kept["path"]
    request.META = {"REQUEST_METHOD": "POST", "SERVER_NAME": _host(), "SERVER_PORT": "80", **kept["meta"]}
    return request


class _Request(HttpRequest):
    def __init__(self, scheme: str) -> None:
        super().__init__()
        self._kept_scheme = scheme

    def _get_scheme(self) -> str:
        return self._kept_scheme


def _host() -> str:
    allowed = [host for host in django_settings.ALLOWED_HOSTS if host and host[0] not in "*."]
    return allowed[0] if allowed else "localhost"
