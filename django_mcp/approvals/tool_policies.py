"""Tool policies: defaults, setting and loading, limits of clients, and notifying clients.

Each process reloads policies when a call arrives ``POLICY_CACHE_TTL`` after the last load: two queries, or three with
``BLOCK_CHANGED_TOOLS``. So a change applies everywhere after that time, even without a channel layer.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db.models.signals import post_delete, post_save, pre_save
from django.dispatch import receiver
from django.utils import timezone

from django_mcp.approvals.tool_definitions import approved_digests, current_definition, store_snapshots, tools_of
from django_mcp.conf import settings
from django_mcp.core import database
from django_mcp.core.policies import Decision, Limit, Policies, Rule, policy_cache
from django_mcp.core.server import MCPServer, every_server
from django_mcp.core.signals import differs
from django_mcp.models import ClientPolicy, Event, ToolPolicy, ToolSnapshot
from django_mcp.primitives.tool import Tool
from django_mcp.pubsub import publish

SKEW = timedelta(seconds=1)
"""Maximum clock difference between processes."""


def notify_tools_changed(server: MCPServer) -> None:
    # The notice is held back for ``POLICY_CACHE_TTL``: a client that asked at once might reach a process that still
    # has the old policies.
    server.pages = {}
    publish.publish([(publish.server_topic(server), _notification())])


def was_notified(server: MCPServer, since: datetime) -> bool:
    data = json.dumps(_notification())
    return Event.objects.filter(topic=publish.server_topic(server), data=data, created__gt=since - SKEW).exists()


def _notification() -> dict[str, object]:
    return {"method": publish.list_changed_method("tools"), "params": {}, "after": settings.POLICY_CACHE_TTL}


def set_policy(
    server: MCPServer,
    tool: Tool,
    decision: str | None,
    *,
    group: Any = None,
    client_id: str = "",
    user: Any = None,
) -> None:
    """Set the policy of a tool.

    Args:
        server: the tool's endpoint.
        tool: the tool.
        decision: ``"allow"``, ``"ask"`` or ``"block"``; None for the tool's default.
        group: the Django group it applies to; None for everyone.
        client_id: the OAuth client it applies to; empty for all.
        user: who decides.
    """
    store_policy(server.name, tool.key, decision, group=group, client_id=client_id, user=user)


@database.retry_conflicts
def store_policy(
    server: str, tool: str, decision: str | None, *, group: Any = None, client_id: str = "", user: Any = None
) -> None:
    """Set a policy, or remove it if *decision* is None. See ``ToolPolicy`` for values of the arguments."""
    which = {"server": server, "tool": tool, "group": group, "client_id": client_id}
    with database.atomic():
        if decision is None:
            for row in ToolPolicy.objects.filter(**which):
                row.delete()
        else:
            ToolPolicy.objects.update_or_create(**which, defaults={"decision": decision, "changed_by": user})


ToolKey = tuple[str, str]
"""Endpoint and key of a tool."""


def get_limit(client_id: str) -> set[ToolKey] | None:
    return parse_tools(ClientPolicy.objects.filter(client_id=client_id).values_list("tools", flat=True).first())


def parse_tools(stored: Iterable[str] | None) -> set[ToolKey] | None:
    if stored is None:
        return None
    return {(server, tool) for server, _dot, tool in (key.partition(".") for key in stored)}


@database.retry_conflicts
def limit_client(client_id: str, tools: Iterable[ToolKey] | None) -> None:
    """Limit a client to some tools. Policies still apply to these, and overrides stay as they are.

    Args:
        client_id: the client.
        tools: the tools that it may use; None for all.
    """
    stored = None if tools is None else sorted(f"{server}.{tool}" for server, tool in tools)
    with database.atomic():
        # Locked, so that a change of the other limits of the client is not overwritten with what was read before it.
        row = ClientPolicy.objects.select_for_update().filter(client_id=client_id).first()
        if row is None:
            if stored is not None:
                ClientPolicy.objects.create(client_id=client_id, tools=stored)
        elif row.tools != stored:
            row.tools = stored
            row.save(update_fields=["tools"])


@receiver([post_save, post_delete], sender=ToolPolicy, dispatch_uid="django_mcp.policies")
@receiver([post_save, post_delete], sender=ToolSnapshot, dispatch_uid="django_mcp.policies.known")
def _on_changed(instance: ToolPolicy | ToolSnapshot, raw: bool = False, **_more: Any) -> None:
    if raw:
        return
    # After the commit: a call that reloads the policies before it would keep the old ones until the cache expires.
    database.on_commit(policy_cache.expire)
    for server in every_server():
        if server.name == instance.server and instance.tool in server.tools:
            notify_tools_changed(server)


@receiver(pre_save, sender=ClientPolicy, dispatch_uid="django_mcp.policies.limit_is_saved")
def _before_limit_saved(instance: Any, update_fields: Any, **_more: Any) -> None:
    is_new = instance._state.adding and instance.tools is not None  # noqa: SLF001 - Django's documented API
    instance.limits_other = is_new or differs(instance, ["tools"], update_fields)


@receiver(post_save, sender=ClientPolicy, dispatch_uid="django_mcp.policies.limit_was_saved")
def _on_limit_saved(instance: Any, raw: bool = False, **_more: Any) -> None:
    if vars(instance).pop("limits_other", False) and not raw:
        _limits_changed()


@receiver(post_delete, sender=ClientPolicy, dispatch_uid="django_mcp.policies.limit_was_deleted")
def _on_limit_deleted(instance: ClientPolicy, **_more: Any) -> None:
    if instance.tools is not None:
        _limits_changed()


def _limits_changed() -> None:
    database.on_commit(policy_cache.expire)
    for server in every_server():
        notify_tools_changed(server)


def default_decision(tool: Tool) -> Decision:
    if tool.policy is not None:
        return Decision[tool.policy.upper()]
    return Decision.ASK if _requires_approval(tool) else Decision.ALLOW


def _requires_approval(tool: Tool) -> bool:
    # The specification's default for destructiveHint is true. Only an explicit hint counts here, or every tool
    # without hints would require approval.
    if settings.REQUIRE_APPROVAL_FOR == "destructive":
        return bool(tool.annotations.get("destructiveHint"))
    return settings.REQUIRE_APPROVAL_FOR == "writes" and not tool.read_only


def default_rule(tool: Tool) -> Rule:
    return Rule(default_decision(tool), version="default")


FOREVER = float("inf")
CHANGED_RULE = Rule(Decision.BLOCK, version="changed")


class StoredPolicies(NamedTuple):
    """The policies of all endpoints as stored.

    Attributes:
        rules: tool -> its rules.
        limits: id of a client that may use only some tools -> these.
    """

    rules: Mapping[ToolKey, list[Rule]]
    limits: Mapping[str, Collection[ToolKey]]


NO_POLICIES = StoredPolicies({}, {})
_last_load: datetime | None = None
"""Time of this process's last load."""


def reload_policies() -> float:
    """Reload the policies of every endpoint. Return the seconds for which they are valid. Blocks."""
    if not database.has_database():  # only the tools' defaults apply
        apply_policies(NO_POLICIES, set())
        return FOREVER
    global _last_load
    before, _last_load = _last_load, timezone.now()
    changed = apply_policies(_read_policies(), _find_hidden())
    # Changes that sent no signal, such as bulk updates or those of another program.
    if policy_cache.is_read and before is not None:
        for server in changed:
            if not was_notified(server, before):
                notify_tools_changed(server)
    return settings.POLICY_CACHE_TTL


def _read_policies() -> StoredPolicies:
    rules: dict[ToolKey, list[Rule]] = defaultdict(list)
    columns = ("server", "tool", "decision", "group__name", "client_id", "pk", "changed")
    for server, tool, decision, group, client_id, pk, changed in ToolPolicy.objects.order_by("pk").values_list(
        *columns
    ):
        rule = Rule(Decision[decision.upper()], group, client_id or None, f"{pk} {changed.isoformat()}")
        rules[server, tool].append(rule)
    return StoredPolicies(rules, read_limits())


def read_limits() -> dict[str, set[ToolKey]]:
    """Return the tools of each client that may use only some. One query."""
    rows = ClientPolicy.objects.exclude(tools=None).values_list("client_id", "tools")
    return {client_id: parse_tools(tools) or set() for client_id, tools in rows}


def _find_hidden() -> set[tuple[str, str]]:
    if not settings.BLOCK_CHANGED_TOOLS:
        return set()
    servers, digests = every_server(), approved_digests()
    store_snapshots(servers, digests)
    return {
        (server.name, tool.key)
        for server in servers
        for tool in tools_of(server)
        if digests.get((server.name, tool.key), digest := current_definition(tool).digest) != digest
    }


def apply_policies(stored: StoredPolicies, hidden: Iterable[tuple[str, str]]) -> list[MCPServer]:
    """Set the policies of every endpoint and clear pages cached under old ones. Return the endpoints that changed."""
    hidden, changed = set(hidden), []
    for server in every_server():
        policies = policies_of(server, stored, hidden)
        if (policies.rules, policies.limits) != (server.policies.rules, server.policies.limits):
            server.policies = policies
            server.pages = {}
            changed.append(server)
        if policies.asking:
            _add_tasks(server)
    return changed


def _add_tasks(server: MCPServer) -> None:
    # A call that requires approval may become a pending task.
    from django_mcp.tasks.methods import EXTENSION  # noqa: PLC0415 - most sites have no use for it

    if EXTENSION.name not in server.extensions:
        server.extensions = {**server.extensions, EXTENSION.name: EXTENSION}


def policies_of(server: MCPServer, stored: StoredPolicies, hidden: Collection[ToolKey] = ()) -> Policies:
    """Return the policies of an endpoint; *hidden* tools are blocked because their definition changed."""
    rules = {tool.key: _rules(server, tool.key, stored, hidden) for tool in tools_of(server)}
    limits = {client_id: _limit(server, client_id, tools) for client_id, tools in stored.limits.items()}
    return Policies({key: rule for key, rule in rules.items() if _is_needed(rule)}, limits)


def _limit(server: MCPServer, client_id: str, tools: Iterable[ToolKey]) -> Limit:
    rule = Rule(Decision.BLOCK, None, client_id, "limit")
    return Limit(rule, frozenset(tool for name, tool in tools if name == server.name))


def _rules(server: MCPServer, key: str, stored: StoredPolicies, hidden: Collection[ToolKey]) -> list[Rule]:
    if (server.name, key) in hidden:
        return [CHANGED_RULE]
    rules = list(stored.rules.get((server.name, key), ()))
    if not any(rule.is_for_everybody for rule in rules):
        rules.append(default_rule(server.tools[key]))
    return rules


def _is_needed(rules: Iterable[Rule]) -> bool:
    return any(rule.decision is not Decision.ALLOW or not rule.is_for_everybody for rule in rules)


def _find_unmatched(server: MCPServer) -> list[str]:
    from django_mcp.approvals.unmatched_policies import find_unmatched  # noqa: PLC0415 - mcp_doctor alone needs it

    return find_unmatched(server)


def start_loading() -> None:
    """Load policies on each call when due. The tools' defaults apply at once."""
    policy_cache.reload, policy_cache.find_unmatched = reload_policies, _find_unmatched
    policy_cache.expire()
    apply_policies(NO_POLICIES, set())
