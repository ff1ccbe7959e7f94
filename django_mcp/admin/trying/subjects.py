"""What can be tried: the tools, resources and prompts of an endpoint that whoever is logged in may use."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from django.http import HttpRequest
from django.utils.translation import get_language

from django_mcp.admin.trying.calling import context_for
from django_mcp.core.context import Context
from django_mcp.core.permissions import Right, right, rule_for
from django_mcp.core.policies import Decision, book
from django_mcp.core.server import MCPServer, servers
from django_mcp.primitives.base import Primitive, spoken
from django_mcp.primitives.resource import Resource
from django_mcp.primitives.tool import Tool

METHODS: Mapping[str, str] = {
    "tool": "tools/call",
    "prompt": "prompts/get",
    "resource": "resources/read",
    "template": "resources/read",
    "uri": "resources/read",
}
"""Kind of what is tried -> the method that does it. ``uri`` is any resource, by an address that was typed."""
ANY_URI: Mapping[str, Any] = {
    "type": "object",
    "properties": {"uri": {"type": "string", "format": "uri", "title": "URI"}},
    "required": ["uri"],
}
_EXPRESSION = re.compile(r"\{([?+]?)([^{}]*)\}")
_RESERVED = "/:@!$&'()*+,;=~"


class Subject(NamedTuple):
    """One thing that can be tried.

    Attributes:
        kind: see ``METHODS``.
        key: its name or URI.
        primitive: what is behind it; None for what does not exist for the caller, and for a URI that is still to be
            typed.
    """

    kind: str
    key: str
    primitive: Primitive | None = None

    @property
    def definition(self) -> dict[str, Any]:
        """What clients are told of it, in the language of the page."""
        if self.primitive is None:
            return {}
        told: dict[str, Any] = spoken(self.primitive.definition, get_language() or "en")
        return told

    @property
    def schema(self) -> Mapping[str, Any]:
        """Of what it takes."""
        match self.kind, self.primitive:
            case "uri", _:
                return ANY_URI
            case "tool", Tool():
                schema: Mapping[str, Any] = self.definition.get("inputSchema") or {}
                return schema
            case "prompt", _:
                return _strings(self.definition.get("arguments") or ())
            case "template", Resource() as resource:
                described = resource.arguments.schema["properties"]
                names = resource.template.variables
                optional = resource.template.optional
                return _strings(
                    [{**_words(described[each]), "name": each, "required": each not in optional} for each in names]
                )
        return {}

    def params(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Of the request that tries it."""
        match self.kind:
            case "tool" | "prompt":
                return {"name": self.key, "arguments": dict(arguments)}
            case "uri":
                return {"uri": str(arguments.get("uri", ""))}
            case "template":
                return {"uri": expanded(self.key, arguments)}
        return {"uri": self.key}


def endpoints(user: Any) -> list[MCPServer]:
    """Those that a user may call."""
    return [each for each in servers() if each.user_passes_test is None or each.user_passes_test(user)]


def subjects(request: HttpRequest, server: MCPServer, kind: str) -> list[Subject]:
    """All of a kind that the user may use, in the order in which clients list them."""
    context = _looking(request, server)
    found = (each for each in registry(server, kind).values() if right(context, each) is Right.USE)
    return [Subject(kind, each.key, each) for each in found]


def subject(request: HttpRequest, server: MCPServer, kind: str, key: str) -> Subject:
    """One of them; without ``primitive`` where there is none for the user."""
    primitive = registry(server, kind).get(key)
    if primitive is None or right(_looking(request, server), primitive) is not Right.USE:
        return Subject(kind, key)
    return Subject(kind, key, primitive)


def asks(request: HttpRequest, server: MCPServer, primitive: Primitive | None) -> bool:
    """Whether somebody has to approve the user's calls."""
    if not isinstance(primitive, Tool) or primitive.key not in server.policies.asking:
        return False
    return rule_for(_looking(request, server), primitive).decision is Decision.ASK


def registry(server: MCPServer, kind: str) -> Mapping[str, Primitive]:
    """Everything of a kind there is."""
    match kind:
        case "tool":
            return server.tools
        case "prompt":
            return server.prompts
        case "resource":
            return server.resources
        case "template":
            return server.templates
    return {}


def _looking(request: HttpRequest, server: MCPServer) -> Context:
    """As whom the user looks, at what there is now."""
    if server.refresh is not None:
        server.refresh()
    book.bring_up_to_date()
    return context_for(request, server, "tools/list", {})


def _strings(arguments: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    return {
        "type": "object",
        "properties": {each["name"]: {**_words(each), "type": "string"} for each in arguments},
        "required": [each["name"] for each in arguments if each.get("required")],
    }


def _words(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {key: schema[key] for key in ("title", "description") if key in schema}


def expanded(template: str, values: Mapping[str, Any]) -> str:
    """A URI template with values put in (RFC 6570, as far as ``protocol.uri_templates`` has it)."""

    def put(match: re.Match[str]) -> str:
        operator, names = match[1], match[2]
        if operator == "?":
            given = {each: str(values[each]) for each in names.split(",") if each in values}
            return f"?{urlencode(given, quote_via=quote)}" if given else ""
        return quote(str(values.get(names, "")), safe=_RESERVED if operator else "")

    return _EXPRESSION.sub(put, template)
