"""``mcp_inspect``: what a caller sees at an endpoint, and why something is hidden.

``core.permissions`` decides; this module only finds the reasons.
"""

import dataclasses
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from textwrap import indent, shorten
from typing import Any

from django.apps import apps
from django.conf import settings as django_settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils.translation import gettext as _

from django_mcp.auth.base import authenticators
from django_mcp.auth.protected_resource import path_of, url_of
from django_mcp.client.in_process import permission_context, refresh_server
from django_mcp.conf import settings
from django_mcp.core.apps import App
from django_mcp.core.concurrency import run_inline
from django_mcp.core.context import Context
from django_mcp.core.lists import list_tools
from django_mcp.core.permissions import (
    Right,
    admits,
    call_visible,
    covers,
    declared,
    expanded,
    groups_of,
    in_order,
    is_blocked,
    right,
    rule_for,
)
from django_mcp.core.policies import READ_ONLY, Decision, Rule
from django_mcp.core.principal import Principal
from django_mcp.core.server import MCPServer, servers
from django_mcp.management.base import accept_intermixed_arguments, find_principal, find_server
from django_mcp.models import ClientPolicy
from django_mcp.primitives.base import Primitive, translate
from django_mcp.primitives.compatibility import problems
from django_mcp.primitives.function import dotted_name, origin_of
from django_mcp.primitives.resource import Resource
from django_mcp.primitives.tool import Tool
from django_mcp.transports.stdio import django_request

UNMADE = {
    "default": "by the tool's declaration",
    "changed": "until its new definition is approved: it changed since the last approval",
}
"""Reasons for rules that no administrator made, by version."""


def hidden_reasons(context: Context, primitive: Primitive) -> list[str]:
    """Return the reasons that keep a caller from using a primitive, [] if there are none. May query the database."""
    if right(context, primitive) is Right.USE:
        return []
    return list(_hidden_reasons(context, primitive)) or ["hidden"]


def _hidden_reasons(context: Context, primitive: Primitive) -> Iterator[str]:
    principal, user = context.principal, context.user
    limit = context.server.policies.limit_on(primitive, principal)
    if limit is READ_ONLY:
        yield "not one of the tools that change nothing, to which the client or its credential is limited"
    elif limit is not None:
        yield f"not one of the tools allowed to the client {principal.client_id!r}"
    if not covers(principal.scopes, primitive.scopes):
        yield f"requires the scope {in_order(primitive.scopes)}"
    if limit is None and is_blocked(context, primitive) and isinstance(primitive, Tool):
        yield f"blocked {rule_source(rule_for(context, primitive))}"
    yield from (
        f"requires the permission {permission}"
        for permission in primitive.permissions
        if user is None or not user.has_perm(permission)
    )
    if primitive.groups and (user is None or primitive.groups.isdisjoint(groups_of(user))):
        yield f"requires the group {' or '.join(sorted(primitive.groups))}"
    visible = call_visible(context, primitive)
    if isinstance(visible, BaseException):
        # Otherwise a missing permission would be named that the user has.
        yield f"an error in its permission check: {type(visible).__name__}: {visible}"
    elif not visible:
        yield visible_reason(primitive) or "hidden by its declaration"


def visible_reason(primitive: Primitive) -> str:
    if primitive.visible is None:
        return ""
    words: str = getattr(primitive.visible, "words", "decided by its visible()")
    return words


def rule_source(rule: Rule) -> str:
    if rule.version in UNMADE:
        return UNMADE[rule.version]
    named = []
    if rule.group is not None:
        named.append(f"the group {rule.group}")
    if rule.client_id is not None:
        named.append(f"the client {rule.client_id}")
    return f"by a policy for {' and '.join(named) or 'all callers'}"


def decision_for(context: Context, tool: Tool) -> tuple[Decision, str]:
    """Return the policy decision on the caller's calls of a tool, and its reason. May query the database."""
    rule = rule_for(context, tool)
    return rule.decision, rule_source(rule) if rule.decision is not Decision.ALLOW else ""


def as_client_user(
    server: MCPServer, principal: Principal, client_id: str, scopes: Collection[str] | None
) -> Principal:
    """Return the caller as a user of an OAuth client, restricted by the client's policy.

    Args:
        scopes: scopes of its token. None for those that the endpoint requires.
    """
    known = declared()
    if strange := [scope for scope in scopes or () if known and scope not in known]:
        raise CommandError(f"There is no scope {strange[0]!r}; --scope takes one of {', '.join(known)}.")
    policy = ClientPolicy.objects.filter(client_id=client_id).first()
    granted = frozenset(server.scopes if scopes is None else scopes)
    if policy is not None and policy.scopes is not None:
        granted = expanded(granted) & expanded(frozenset(policy.scopes))
    is_limited = policy is not None and policy.read_only
    changes: dict[str, Any] = {"scopes": granted, "client_id": client_id, "read_only": is_limited}
    return dataclasses.replace(principal, kind="oauth", steps_up=True, **changes)


KINDS = ("tools", "resources", "templates", "prompts")


def describe_endpoint(
    server: MCPServer, principal: Principal | None, *, names: Collection[str] = (), schemas: bool = False
) -> dict[str, Any]:
    """Describe an endpoint as JSON values. May query the database.

    Args:
        principal: the caller. None for the operator, who sees everything.
        names: only these primitives; all if empty.
    """
    context = None if principal is None else permission_context(server, principal, django_request(server))
    refused = "" if principal is None else refusal_reason(server, principal)
    report: dict[str, Any] = {
        "name": server.name,
        "title": server.implementation.get("title", ""),
        "path": path_of(server),
        "url": url_of(server),
        "authentication": [authenticator_name(authenticator) for authenticator in authenticators(server)],
        "scopes": sorted(server.scopes),
        "transports": ["http", *(["http+sse"] if settings.HTTP_SSE else []), "stdio"],
        "capabilities": sorted(server.capabilities),
        "models": sorted(model._meta.label for model in server.model_resources),  # noqa: SLF001 - Django's documented API
        "caller": None if principal is None else _caller(principal, refused),
    }
    listed = None if context is None or refused else listed_tools(context)
    report["searched"] = listed is not None and any(name not in server.tools for name in listed)
    for kind in KINDS:
        found: Mapping[str, Primitive] = getattr(server, kind)
        report[kind] = [
            _Entry(server, context, entry, refused).to_dict(listed, schemas=schemas)
            for entry in found.values()
            if not names or entry.key in names or entry.name in names
        ]
    return report


def refusal_reason(server: MCPServer, principal: Principal) -> str:
    """Return why a caller may not use an endpoint at all, or "". May query the database."""
    if principal.client_id is not None and _is_blocked(principal.client_id):
        return f"the client {principal.client_id!r} is blocked"
    if not admits(server, principal.user):
        return "the endpoint does not admit this user"
    if not covers(principal.scopes, server.scopes):
        return f"the endpoint requires the scope {in_order(server.scopes)}"
    return ""


def _is_blocked(client_id: str) -> bool:
    from django_mcp.models import ClientPolicy  # noqa: PLC0415 - needs the app

    return ClientPolicy.objects.filter(client_id=client_id, blocked=True).exists()


def listed_tools(context: Context) -> list[str]:
    """Return the names on all pages of ``tools/list`` for the caller. May query the database."""
    names: list[str] = []
    while True:
        fields = run_inline(list_tools(context)).fields
        names += [field["name"] for field in fields["tools"]]
        if "nextCursor" not in fields:
            return names
        context = permission_context(context.server, context.principal, context.request, cursor=fields["nextCursor"])


def _caller(principal: Principal, refused: str) -> dict[str, Any]:
    return {
        "user": principal.user.get_username(),
        "client": principal.client_id,
        "scopes": None if principal.scopes is None else sorted(principal.scopes),
        "refused_because": refused,
    }


def authenticator_name(authenticator: Any) -> str:
    kind = type(authenticator)
    if kind.__module__.startswith("django_mcp."):
        return f"django_mcp.{kind.__name__}"
    return f"{kind.__module__}.{kind.__qualname__}"


class _Entry:
    def __init__(self, server: MCPServer, context: Context | None, primitive: Primitive, refused: str) -> None:
        self.server, self.context, self.primitive, self.refused = server, context, primitive, refused

    def to_dict(self, listed: Collection[str] | None, *, schemas: bool) -> dict[str, Any]:
        primitive = self.primitive
        failure = primitive.find_failure()
        try:
            definition = translate(primitive.definition, django_settings.LANGUAGE_CODE)
        except Exception as error:  # noqa: BLE001 - a failing lazy text leaves it out of lists
            definition, failure = {"name": primitive.name}, error
        report: dict[str, Any] = {
            "name": primitive.name,
            "title": definition.get("title", ""),
            "description": definition.get("description", ""),
        }
        if isinstance(primitive, Resource):
            report["uri"] = primitive.uri
            report["mime_type"] = primitive.mime_type or ""
        if isinstance(primitive, App):
            report["template"], report["ui"] = primitive.template_name, definition["_meta"]["ui"]
        report |= {
            "permissions": list(primitive.permissions),
            "groups": sorted(primitive.groups),
            "scopes": sorted(primitive.scopes),
            "visible": visible_reason(primitive),
            "tags": sorted(primitive.tags),
            **self._seen(listed),
        }
        if isinstance(primitive, Tool):
            report |= self._of_tool(primitive, definition, schemas=schemas)
            if failure is not None:
                report["problems"] = [
                    _("its definition cannot be built: %(why)r.") % {"why": failure},
                    *report["problems"],
                ]
        elif definition.get("arguments"):
            report["arguments"] = definition["arguments"]
        return report

    def _seen(self, listed: Collection[str] | None) -> dict[str, Any]:
        if self.context is None:
            return {"listed": None, "usable": None, "hidden_because": []}
        if self.refused:
            return {"listed": False, "usable": False, "hidden_because": [self.refused]}
        granted = right(self.context, self.primitive)
        is_listed = bool(granted) if listed is None or self.primitive.kind != "tool" else self.primitive.key in listed
        return {
            "listed": is_listed,
            "usable": granted is Right.USE,
            "hidden_because": hidden_reasons(self.context, self.primitive),
        }

    def _of_tool(self, tool: Tool, definition: Mapping[str, Any], *, schemas: bool) -> dict[str, Any]:
        rules = self.server.policies.rules.get(tool.key, ())
        report: dict[str, Any] = {
            "hints": dict(definition.get("annotations", {})),
            "task": tool.task or "never",
            "app": None if tool.app is None else tool.app.uri,
            "visibility": sorted(tool.visibility),
            "policies": [
                {
                    "decision": rule.decision.name.lower(),
                    "group": rule.group,
                    "client": rule.client_id,
                    "made": rule_source(rule),
                }
                for rule in rules
            ],
            "decision": None,
            "problems": list(problems(definition)),
        }
        if self.context is not None:
            report["decision"] = decision_for(self.context, tool)[0].name.lower()
        if schemas:
            report["input_schema"] = self._own_schema(tool) or definition.get("inputSchema")
            report["output_schema"] = definition.get("outputSchema")
            report["defined"] = dotted_name(origin_of(tool.read.call))
        return report

    def _own_schema(self, tool: Tool) -> Mapping[str, Any] | None:
        """Return the arguments for the caller, if they differ by caller and the caller may use the tool."""
        if self.context is None or self.refused or right(self.context, tool) is not Right.USE:
            return None
        return tool.schema_for(self.context)


Style = Callable[[str], str]
WIDTH = 100
HEADINGS = {"tools": "Tools", "resources": "Resources", "templates": "Resource templates", "prompts": "Prompts"}
HINTS = {
    "readOnlyHint": "read-only",
    "destructiveHint": "destructive",
    "idempotentHint": "idempotent",
    "openWorldHint": "open world",
}
"""Hints to show if true. The JSON document also has the false ones."""


class TextReport:
    """Formats the description of an endpoint as text."""

    def __init__(self, heading: Style, hidden: Style, *, whole: bool) -> None:
        self._heading, self._hidden, self._whole = heading, hidden, whole

    def lines(self, report: Mapping[str, Any]) -> Iterator[str]:
        yield self._heading(f"{report['name']}  {report['url'] or report['path']}")
        yield f"  callers:       {', '.join(report['authentication']) or 'none: no authentication is configured'}"
        if report["scopes"]:
            yield f"  scopes:        {' '.join(report['scopes'])}"
        yield f"  transports:    {', '.join(report['transports'])}"
        yield f"  capabilities:  {', '.join(report['capabilities']) or 'none'}"
        if report["models"]:
            yield f"  models:        {', '.join(report['models'])} (resources/list includes their rows)"
        if report["caller"] is not None:
            yield from self._caller(report)
            if report["caller"]["refused_because"] and not self._whole:
                return
        for kind, title in HEADINGS.items():
            if report[kind]:
                yield ""
                yield self._heading(f"  {title} ({self._counted(report[kind])})")
                for entry in report[kind]:
                    yield from self._entry(entry)

    def _caller(self, report: Mapping[str, Any]) -> Iterator[str]:
        caller = report["caller"]
        through = f" with the client {caller['client']}" if caller["client"] else ""
        scopes = "" if caller["scopes"] is None else f", with the scopes: {' '.join(caller['scopes']) or 'none'}"
        yield f"  as seen by:    {caller['user'] or 'anonymous'}{through}{scopes}"
        if caller["refused_because"]:
            yield self._hidden(f"  DENIED:        {caller['refused_because']}; everything is hidden from this caller")
        if report["searched"]:
            yield "  tool search:   tools/list has the tools of tool search and those marked as listed"

    @staticmethod
    def _counted(entries: list[Mapping[str, Any]]) -> str:
        seen = [entry["listed"] for entry in entries if entry["listed"] is not None]
        return f"{sum(seen)} of {len(seen)} listed" if seen else str(len(entries))

    def _entry(self, entry: Mapping[str, Any]) -> Iterator[str]:
        name = entry.get("uri") or entry["name"]
        marks = ", ".join(_marks(entry))
        line = f"    {name}{f'  [{marks}]' if marks else ''}"
        if entry["usable"] is False:
            how = "listed, but not callable yet" if entry["listed"] else "hidden"
            yield self._hidden(f"  - {line[4:]}  {how}: {'; '.join(entry['hidden_because'])}")
        elif entry["listed"] is False:
            yield f"{line}  (not listed, but can be found and called)"
        else:
            yield line
        described = entry["title"] if not self._whole and entry["title"] else entry["description"]
        if described:
            yield indent(described if self._whole else shorten(described, WIDTH, placeholder=" …"), " " * 8)
        yield from (f"        {line}" for line in _needs(entry))
        yield from (self._hidden(f"        some clients reject it: {line}") for line in entry.get("problems", ()))
        if self._whole:
            yield from _schemas(entry)


def _marks(entry: Mapping[str, Any]) -> Iterable[str]:
    yield from (words for hint, words in HINTS.items() if entry.get("hints", {}).get(hint))
    if entry.get("task", "never") != "never":
        yield f"task {entry['task']}"
    if entry.get("app"):
        yield f"app {entry['app']}"
    if entry.get("visibility") == ["app"]:
        yield "called by apps only"
    if "template" in entry:
        yield f"template {entry['template']}"
    if entry.get("decision") == "ask":
        yield "requires approval"


def _needs(entry: Mapping[str, Any]) -> Iterable[str]:
    if entry["permissions"]:
        yield f"permission: {', '.join(entry['permissions'])}"
    if entry["groups"]:
        yield f"group: {' or '.join(entry['groups'])}"
    if entry["scopes"]:
        yield f"scope: {' '.join(entry['scopes'])}"
    if entry["visible"]:
        yield f"visible: {entry['visible']}"
    for name, value in entry.get("ui", {}).items():
        listed = (f"{key} {' '.join(origins)}" for key, origins in value.items()) if name == "csp" else value
        yield f"{name}: {value if isinstance(value, bool | str) else ', '.join(listed)}"
    for rule in entry.get("policies", ()):
        if rule["decision"] != "allow" or rule["group"] or rule["client"]:
            verb = {"allow": "allowed", "ask": "approval required", "block": "blocked"}[rule["decision"]]
            yield f"policy: {verb} {rule['made']}"


def _schemas(entry: Mapping[str, Any]) -> Iterable[str]:
    if "defined" in entry:
        yield f"        defined: {entry['defined']}"
    for key, title in (("arguments", "arguments"), ("input_schema", "input"), ("output_schema", "output")):
        if entry.get(key):
            yield f"        {title}:"
            yield indent(json.dumps(entry[key], indent=2, ensure_ascii=False, default=str), " " * 10)


def _verdict(context: Context, refused: str, tool: Tool) -> dict[str, Any]:
    """Return whether a caller may use a tool, why not, and the policy decision on their calls."""
    reasons = [refused] if refused else hidden_reasons(context, tool)
    decision = decision_for(context, tool)[0].name.lower()
    return {"usable": not reasons, "hidden_because": reasons, "decision": decision}


class Command(BaseCommand):
    """See ``help``."""

    help = "Shows endpoints, tools, resources and prompts. With --as, what a user sees and why the rest is hidden."

    def add_arguments(self, parser: CommandParser) -> None:
        accept_intermixed_arguments(parser)
        parser.add_argument("names", nargs="*", metavar="NAME", help="tools, resources or prompts to show in full")
        parser.add_argument("--server", help="name of an endpoint (default: all)")
        parser.add_argument(
            "--as", dest="user", metavar="USERNAME", help="show what this user sees, and why the rest is hidden"
        )
        parser.add_argument("--client", metavar="CLIENT_ID", help="... with this OAuth client; requires --as")
        parser.add_argument(
            "--scope",
            action="append",
            help="a scope granted to the client; may be repeated (default: those each endpoint requires)",
        )
        parser.add_argument(
            "--admin",
            action="store_true",
            help="show what admin_tools give the user of --as, by model; NAME is a model, such as shop.order",
        )
        parser.add_argument("--json", action="store_true", help="print one JSON document")
        parser.add_argument("--schemas", action="store_true", help="include the schemas of tools")

    def handle(self, *_: Any, **options: Any) -> None:
        if options["client"] is None and options["scope"]:
            raise CommandError("--scope requires an OAuth client: add --client CLIENT_ID.")
        if options["client"] is not None and options["user"] is None:
            raise CommandError("--client requires the user that the client acts for: add --as USERNAME.")
        chosen = list(servers()) if options["server"] is None else [find_server(options["server"])]
        if options["admin"]:
            self._inspect_admins(chosen, options)
            return
        whole = options["schemas"] or bool(options["names"])
        reports = []
        for server in chosen:
            refresh_server(server)
            reports.append(
                describe_endpoint(server, self._principal(server, options), names=options["names"], schemas=whole)
            )
        if options["names"]:
            self._check_names(options["names"], reports, chosen)
            reports = [endpoint for endpoint in reports if any(endpoint[kind] for kind in KINDS)]
        if options["json"]:
            self.stdout.write(json.dumps({"endpoints": reports}, indent=2, ensure_ascii=False, default=str))
            return
        text = TextReport(self.style.MIGRATE_HEADING, self.style.WARNING, whole=whole)
        self.stdout.write(
            "\n\n".join("\n".join(text.lines(endpoint)) for endpoint in reports) or "There are no endpoints."
        )

    def _inspect_admins(self, chosen: list[MCPServer], options: dict[str, Any]) -> None:
        if options["user"] is None:
            raise CommandError("--admin shows the admin of one person: add --as USERNAME.")
        if not apps.is_installed("django.contrib.admin"):
            raise CommandError("--admin needs 'django.contrib.admin' in INSTALLED_APPS.")
        from django_mcp.management import admin_inspection  # noqa: PLC0415 - needs the admin

        admin_inspection.require_models(chosen, options["names"])
        reports, having = [], []
        for server in chosen:
            refresh_server(server)
            principal = self._principal(server, options)
            assert principal is not None  # noqa: S101 - of --as
            refused = refusal_reason(server, principal)
            context = permission_context(server, principal, django_request(server))
            verdict = partial(_verdict, context, refused)
            found = admin_inspection.describe_admins(context, verdict, refused, options["names"])
            if found:
                having.append(server)
                named = {"name": server.name, "path": path_of(server), "url": url_of(server)}
                reports.append({**named, "caller": _caller(principal, refused), "admins": found})
        if not reports:
            where = ", ".join(server.name for server in chosen)
            raise CommandError(f"No admin is offered at {where}: add admin_tools(server=…) to an mcp.py.")
        if options["json"]:
            self.stdout.write(json.dumps({"endpoints": reports}, indent=2, ensure_ascii=False, default=str))
            return
        style = (self.style.MIGRATE_HEADING, self.style.WARNING)
        texts = (admin_inspection.lines(server, report, *style) for server, report in zip(having, reports, strict=True))
        self.stdout.write("\n\n".join("\n".join(text) for text in texts))

    @staticmethod
    def _principal(server: MCPServer, options: dict[str, Any]) -> Principal | None:
        if options["user"] is None:
            return None
        principal = find_principal(options["user"], "--as")
        if options["client"] is None:
            return principal
        return as_client_user(server, principal, options["client"], options["scope"])

    @staticmethod
    def _check_names(names: list[str], reports: list[dict[str, Any]], chosen: list[MCPServer]) -> None:
        found = {
            entry[key]
            for endpoint in reports
            for kind in KINDS
            for entry in endpoint[kind]
            for key in ("name", "uri")
            if key in entry
        }
        if missing := [name for name in names if name not in found]:
            where = ", ".join(endpoint.name for endpoint in chosen)
            raise CommandError(f"There is no {missing[0]!r} at {where}; 'manage.py mcp_inspect' lists all names.")
