"""``mcp_inspect --admin``: what the tools of an admin give one user, as JSON values and as text."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from django.core.management.base import CommandError

from django_mcp.core.context import Context
from django_mcp.core.server import MCPServer
from django_mcp.integrations.admin_site import inspection
from django_mcp.integrations.admin_site.tools import ActionTool, AdminTool, AdminTools, admins_of
from django_mcp.primitives.tool import Tool

Verdict = Callable[[Tool], Mapping[str, Any]]
"""Returns ``usable``, ``hidden_because`` and ``decision`` of a tool for the caller."""
REQUESTER = "requester"
Style = Callable[[str], str]
WORDS = {"search": "view", "get": "view", "history": "view"}
"""The permission of the admin by verb, where it has another name."""


def require_models(servers: Iterable[MCPServer], names: Collection[str]) -> None:
    """Raise CommandError if no admin at these endpoints has tools for a model of *names*."""
    offered = [offered for server in servers for offered in admins_of(server)]
    known = {model._meta.label_lower for each in offered for model in each.names}  # noqa: SLF001 - documented
    if offered and (unknown := sorted({name.lower() for name in names} - known)):
        text = f"There are no tools of an admin for {unknown[0]!r}. There are some for: {', '.join(sorted(known))}."
        raise CommandError(text)


def describe_admins(
    context: Context, verdict: Verdict, refused: str, names: Collection[str] = ()
) -> list[dict[str, Any]]:
    """Describe the admins that an endpoint offers, as JSON values. May query the database.

    Args:
        context: of the caller.
        verdict: decides about a tool.
        refused: why the caller may not use the endpoint, or "".
        names: labels of models, such as ``"shop.order"``; all if empty.
    """
    wanted = {name.lower() for name in names}
    return [_admin(context, offered, verdict, refused, wanted) for offered in admins_of(context.server)]


def _admin(
    context: Context, offered: AdminTools, verdict: Verdict, refused: str, wanted: Collection[str]
) -> dict[str, Any]:
    why = refused or inspection.refusal(context, offered)
    own = [tool for tool in context.server.tools.values() if isinstance(tool, AdminTool | ActionTool)]
    own = [tool for tool in own if tool.offered is offered]
    told: list[dict[str, Any]] = []
    for model in offered.names:
        label = model._meta.label_lower  # noqa: SLF001 - Django's documented API
        if why or (wanted and label not in wanted):
            continue
        tools = [_tool(context, tool, verdict) for tool in own if tool.model is model]
        entry = inspection.describe_model(context, offered, model)
        absent = [{"verb": verb, "why": reason} for verb, reason in offered.absent(model)]
        told.append({**entry, "tools": tools, "absent": absent})
    left_out = offered.left_out() if not wanted else ()
    return {
        "site": offered.site.name,
        "url": inspection.admin_url(context, offered),
        "refused_because": why,
        "models": told,
        "left_out": [{"model": model._meta.label, "why": reason} for model, reason in left_out],  # noqa: SLF001 - documented
    }


def _tool(context: Context, tool: AdminTool | ActionTool, verdict: Verdict) -> dict[str, Any]:
    seen = verdict(tool)
    told: dict[str, Any] = {"name": tool.name, "does": tool.verb if isinstance(tool, AdminTool) else "action"}
    reasons = list(seen["hidden_because"])
    if not tool.is_offered(context):
        # In place of "decided by its visible()".
        verb = told["does"]
        reasons = [
            "the admin does not offer the action to this user"
            if verb == "action"
            else f"the admin gives no permission to {WORDS.get(verb, verb)}"
        ]
    decision = seen["decision"] if seen["usable"] else None
    decider = None
    if decision == "ask":
        decider = REQUESTER if tool.self_approval else "another person"
    return {**told, "usable": seen["usable"], "decision": decision, "decided_by": decider, "hidden_because": reasons}


# As text

TITLES = {
    "columns": "columns",
    "search": "search in",
    "filters": "filters",
    "date": "dates",
    "order_by": "order by",
    "fields": "fields",
}
"""What is shown of a model, if it has it."""


def lines(server: MCPServer, report: Mapping[str, Any], heading: Style, hidden: Style) -> Iterator[str]:
    """Yield the lines of an endpoint's report."""
    yield heading(f"{server.name}  {report['url'] or report['path']}")
    yield f"  as seen by:    {report['caller']['user']}"
    for admin in report["admins"]:
        yield ""
        where = f" at {admin['url']}" if admin["url"] else hidden(", to which no URL leads")
        yield heading(f"  Admin {admin['site']}{where}")
        if admin["refused_because"]:
            yield hidden(f"    DENIED: {admin['refused_because']}; no tool of it exists for this caller")
            continue
        models = admin["models"]
        closed = [model["model"] for model in models if not any(tool["usable"] for tool in model["tools"])]
        # A model that was asked for is shown with the reasons.
        is_asked = len(models) == 1 and not admin["left_out"]
        for model in models:
            if is_asked or model["model"] not in closed:
                yield from _model(model, report["caller"]["user"], heading, hidden)
        if closed and not is_asked:
            yield hidden(f"    nothing of: {', '.join(closed)} (name one for the reasons)")
        for why in dict.fromkeys(left["why"] for left in admin["left_out"]):
            names = ", ".join(left["model"] for left in admin["left_out"] if left["why"] == why)
            yield f"    not offered: {names} ({why})"


def _model(model: Mapping[str, Any], user: str, heading: Style, hidden: Style) -> Iterator[str]:
    yield heading(f"    {model['model']}  {model['title']}")
    kinds: dict[str, list[str]] = {}
    for tool in model["tools"]:
        if tool["usable"]:
            decides = user if tool["decided_by"] == REQUESTER else str(tool["decided_by"])
            words = f"approval by {decides}" if tool["decision"] == "ask" else "allowed"
            kinds.setdefault(words, []).append(tool["name"])
        else:
            yield hidden(f"      - {tool['name']}  hidden: {'; '.join(tool['hidden_because'])}")
    yield from (f"      {words}: {', '.join(names)}" for words, names in kinds.items())
    yield from (f"      - no tool to {absent['verb']}: {absent['why']}" for absent in model["absent"])
    for member, title in TITLES.items():
        if value := model[member]:
            yield f"      {title}: {value if isinstance(value, str) else ', '.join(value)}"
    for entry in model["hidden"]:
        opener = f"; show=[{entry['opened_by']!r}] opens it" if entry["opened_by"] else ""
        yield f"      kept back: {entry['field']} ({entry['where']}): {entry['why']}{opener}"
    yield from (hidden(f"      {line}") for line in model["failed"])
