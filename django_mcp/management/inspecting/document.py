"""An endpoint as one JSON document: what it offers, and what of that exists for a caller. ``docs/commands.md`` has the
keys.
"""

from collections.abc import Collection, Mapping
from typing import Any

from django.conf import settings as django_settings
from django.utils.translation import gettext as _

from django_mcp.auth.base import authenticators
from django_mcp.auth.protected_resource import path_of
from django_mcp.conf import settings
from django_mcp.core.concurrency import run_inline
from django_mcp.core.context import Context
from django_mcp.core.dispatch import list_tools
from django_mcp.core.hidden import decision_for, made_for, predicate, reasons
from django_mcp.core.permissions import Right, covers, in_order, right
from django_mcp.core.principal import Principal
from django_mcp.core.server import MCPServer
from django_mcp.management.callers import looking, url_of
from django_mcp.primitives.base import Primitive, spoken
from django_mcp.primitives.resource import Resource
from django_mcp.primitives.schema import problems
from django_mcp.primitives.tool import Tool

KINDS = ("tools", "resources", "templates", "prompts")


def described(
    server: MCPServer, principal: Principal | None, *, names: Collection[str] = (), schemas: bool = False
) -> dict[str, Any]:
    """An endpoint. May be queries.

    Args:
        server: the endpoint.
        principal: as whom to look; None for the operator, who sees everything there is.
        names: tell of these only; all where there are none.
        schemas: tell the schemas of tools.
    """
    context = None if principal is None else looking(server, principal)
    refused = "" if principal is None else refusal(server, principal)
    told: dict[str, Any] = {
        "name": server.name,
        "title": server.implementation.get("title", ""),
        "path": path_of(server),
        "url": url_of(server),
        "authentication": [authenticator_name(each) for each in authenticators(server)],
        "scopes": sorted(server.scopes),
        "transports": ["http", *(["http+sse"] if settings.HTTP_SSE else []), "stdio"],
        "capabilities": sorted(server.capabilities),
        "models": sorted(model._meta.label for model in server.exposed),  # noqa: SLF001 - Django's documented API
        "caller": None if principal is None else _caller(principal, refused),
    }
    listed = None if context is None or refused else listed_tools(context)
    told["searched"] = listed is not None and any(name not in server.tools for name in listed)
    for kind in KINDS:
        found: Mapping[str, Primitive] = getattr(server, kind)
        told[kind] = [
            _Entry(server, context, each, refused).told(listed, schemas=schemas)
            for each in found.values()
            if not names or each.key in names or each.name in names
        ]
    return told


def refusal(server: MCPServer, principal: Principal) -> str:
    """Why a caller may not use an endpoint at all; empty where they may. May be a query."""
    if principal.client_id is not None and _is_blocked(principal.client_id):
        return f"the client {principal.client_id!r} is blocked"
    if server.user_passes_test is not None and not server.user_passes_test(principal.user):
        return "the endpoint is not for this user"
    if not covers(principal.scopes, server.scopes):
        return f"the endpoint needs the scope {in_order(server.scopes)}"
    return ""


def _is_blocked(client_id: str) -> bool:
    from django_mcp.models import ClientPolicy  # noqa: PLC0415 - needs the app

    return ClientPolicy.objects.filter(client_id=client_id, blocked=True).exists()


def listed_tools(context: Context) -> list[str]:
    """Names of what ``tools/list`` gives the caller, on all its pages. May be queries."""
    names: list[str] = []
    while True:
        fields = run_inline(list_tools(context)).fields
        names += [each["name"] for each in fields["tools"]]
        if "nextCursor" not in fields:
            return names
        context = looking(context.server, context.principal, cursor=fields["nextCursor"])


def _caller(principal: Principal, refused: str) -> dict[str, Any]:
    return {
        "user": principal.user.get_username(),
        "client": principal.client_id,
        "scopes": None if principal.scopes is None else sorted(principal.scopes),
        "refused_because": refused,
    }


def authenticator_name(authenticator: Any) -> str:
    """What settings call it: those of the package by their short path."""
    kind = type(authenticator)
    if kind.__module__.startswith("django_mcp."):
        return f"django_mcp.{kind.__name__}"
    return f"{kind.__module__}.{kind.__qualname__}"


class _Entry:
    """One primitive."""

    def __init__(self, server: MCPServer, context: Context | None, primitive: Primitive, refused: str) -> None:
        self.server, self.context, self.primitive, self.refused = server, context, primitive, refused

    def told(self, listed: Collection[str] | None, *, schemas: bool) -> dict[str, Any]:
        """All of it, as a JSON object."""
        primitive = self.primitive
        failure = primitive.find_failure()
        try:
            definition = spoken(primitive.definition, django_settings.LANGUAGE_CODE)
        except Exception as error:  # noqa: BLE001 - a lazy text of the site that fails leaves it out of lists
            definition, failure = {"name": primitive.name}, error
        told: dict[str, Any] = {
            "name": primitive.name,
            "title": definition.get("title", ""),
            "description": definition.get("description", ""),
        }
        if isinstance(primitive, Resource):
            told["uri"] = primitive.uri
            told["mime_type"] = primitive.mime_type or ""
        told |= {
            "permissions": list(primitive.permissions),
            "groups": sorted(primitive.groups),
            "scopes": sorted(primitive.scopes),
            "visible": predicate(primitive),
            "tags": sorted(primitive.tags),
            **self._seen(listed),
        }
        if isinstance(primitive, Tool):
            told |= self._of_tool(primitive, definition, schemas=schemas)
            if failure is not None:
                told["problems"] = [_("it cannot be described: %(why)r.") % {"why": failure}, *told["problems"]]
        elif definition.get("arguments"):
            told["arguments"] = definition["arguments"]
        return told

    def _seen(self, listed: Collection[str] | None) -> dict[str, Any]:
        """What the caller sees of it; None where nobody in particular looks."""
        if self.context is None:
            return {"listed": None, "usable": None, "hidden_because": []}
        if self.refused:
            return {"listed": False, "usable": False, "hidden_because": [self.refused]}
        granted = right(self.context, self.primitive)
        is_listed = bool(granted) if listed is None or self.primitive.kind != "tool" else self.primitive.key in listed
        return {
            "listed": is_listed,
            "usable": granted is Right.USE,
            "hidden_because": reasons(self.context, self.primitive),
        }

    def _of_tool(self, tool: Tool, definition: Mapping[str, Any], *, schemas: bool) -> dict[str, Any]:
        rules = self.server.policies.rules.get(tool.key, ())
        told: dict[str, Any] = {
            "hints": dict(definition.get("annotations", {})),
            "task": tool.task or "never",
            "policies": [
                {
                    "decision": each.decision.name.lower(),
                    "group": each.group,
                    "client": each.client_id,
                    "made": made_for(each),
                }
                for each in rules
            ],
            "decision": None,
            "problems": list(problems(definition)),
        }
        if self.context is not None:
            told["decision"] = decision_for(self.context, tool)[0].name.lower()
        if schemas:
            told["input_schema"] = definition.get("inputSchema")
            told["output_schema"] = definition.get("outputSchema")
            call = tool.read.call
            told["defined"] = f"{getattr(call, '__module__', '?')}.{getattr(call, '__qualname__', tool.read.name)}"
        return told
