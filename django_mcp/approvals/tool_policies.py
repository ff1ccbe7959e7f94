"""Tool policies: defaults, loading and setting, approved definitions, and notifying clients.

Each process reloads policies when a call arrives ``POLICY_CACHE_TTL`` after the last load: one query, or two with
``BLOCK_CHANGED_TOOLS``. So a change applies everywhere after that time, even without a channel layer.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from django.conf import settings as django_settings
from django.db.models.signals import post_delete, post_save
from django.dispatch import receiver
from django.utils import timezone, translation

from django_mcp.conf import settings
from django_mcp.core import database
from django_mcp.core.policies import Decision, Limit, Policies, Rule, policy_cache
from django_mcp.core.server import MCPServer, every_server
from django_mcp.models import Event, ToolPolicy, ToolSnapshot
from django_mcp.primitives.base import spoken
from django_mcp.primitives.tool import Tool
from django_mcp.pubsub import publish

SKEW = timedelta(seconds=1)
"""Maximum clock difference between processes."""


def announce(server: MCPServer) -> None:
    """Notify clients that the tool list has changed, once every process has the new policies."""
    server.pages = {}
    publish.publish([(publish.topic(server), _change())])


def was_announced(server: MCPServer, since: datetime) -> bool:
    """Return True if a process announced a change since the given time."""
    data = json.dumps(_change())
    return Event.objects.filter(topic=publish.topic(server), data=data, created__gt=since - SKEW).exists()


def _change() -> dict[str, object]:
    return {"method": publish.list_changed_method("tools"), "params": {}, "after": settings.POLICY_CACHE_TTL}


def decide(
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
    store(server.name, tool.key, decision, group=group, client_id=client_id, user=user)


def store(
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


def limit_of(client_id: str) -> set[tuple[str, str]] | None:
    """Return endpoint and key of the tools that a client may use, or None if it is not limited to some."""
    rows = set(ToolPolicy.objects.filter(client_id=client_id, group=None).values_list("server", "tool", "decision"))
    if ("", "", BLOCK) not in rows:
        return None
    return {(server, tool) for server, tool, decision in rows if decision != BLOCK}


def changes_of_limit(
    client_id: str, tools: Collection[tuple[str, str]] | None
) -> Iterator[tuple[str, str, str | None]]:
    """Yield what to ``store`` so that a client may use only some tools. Other policies still apply to these.

    Args:
        client_id: the client.
        tools: endpoint and key of each tool; None for all.
    """
    rows = ToolPolicy.objects.filter(client_id=client_id, group=None)
    before: dict[tuple[str, str], str] = {(row.server, row.tool): row.decision for row in rows}
    was_limited = before.pop(("", ""), None) is not None
    if was_limited is (tools is None):
        yield "", "", None if tools is None else BLOCK
    for which in sorted({*before, *(tools or ())}):
        decision = before.get(which)
        if tools is None:
            if decision == ToolPolicy.GENERAL:
                yield *which, None
        elif which in tools:
            if decision in {None, BLOCK}:
                yield *which, ToolPolicy.GENERAL
        elif decision != BLOCK:
            yield *which, None


def limit(client_id: str, tools: Collection[tuple[str, str]] | None, *, user: Any = None) -> None:
    """Limit a client to some tools. See ``changes_of_limit``."""
    with database.atomic():
        for server, tool, decision in list(changes_of_limit(client_id, tools)):
            store(server, tool, decision, client_id=client_id, user=user)


BLOCK = ToolPolicy.Decision.BLOCK.value


@receiver([post_save, post_delete], sender=ToolPolicy, dispatch_uid="django_mcp.policies")
@receiver([post_save, post_delete], sender=ToolSnapshot, dispatch_uid="django_mcp.policies.known")
def _on_changed(instance: ToolPolicy | ToolSnapshot, raw: bool = False, **_: Any) -> None:
    if raw:
        return
    database.on_commit(policy_cache.expire)
    for server in every_server():
        if not instance.server or (server.name == instance.server and instance.tool in server.tools):
            announce(server)


def default_decision(tool: Tool) -> Decision:
    """Return the decision of a tool's own options or annotations."""
    if tool.policy is not None:
        return Decision[tool.policy.upper()]
    return Decision.ASK if _asks(tool) else Decision.ALLOW


def _asks(tool: Tool) -> bool:
    # The specification's default for destructiveHint is true. Only an explicit hint counts here, or every tool
    # without hints would require approval.
    if settings.REQUIRE_APPROVAL_FOR == "destructive":
        return bool(tool.annotations.get("destructiveHint"))
    return settings.REQUIRE_APPROVAL_FOR == "writes" and not tool.read_only


def default_rule(tool: Tool) -> Rule:
    """Return the default decision as a rule for everyone."""
    return Rule(default_decision(tool), version="default")


SHOWN = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
"""Parts of a tool's definition that models and clients see."""


class Known(NamedTuple):
    """A tool's definition and its digest."""

    definition: dict[str, Any]
    digest: str


_known: WeakKeyDictionary[Tool, tuple[Mapping[str, Any], Known]] = WeakKeyDictionary()


def known(tool: Tool) -> Known:
    """Return a tool's current definition and digest, cached until the definition changes."""
    before = _known.get(tool)
    if before is not None and before[0] is tool.definition:
        return before[1]
    shown = {key: tool.definition[key] for key in SHOWN if key in tool.definition}
    with translation.override(django_settings.LANGUAGE_CODE):
        plain = json.loads(json.dumps(spoken(shown, django_settings.LANGUAGE_CODE), sort_keys=True, default=str))
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    now = Known(plain, hashlib.sha256(text.encode()).hexdigest())
    _known[tool] = tool.definition, now
    return now


def tools_of(server: MCPServer) -> Iterator[Tool]:
    """Yield the tools that have a policy; the tools of tool search have none."""
    return (each for each in server.tools.values() if each.kind == "tool")


def accepted() -> Mapping[tuple[str, str], str]:
    """Return the digests of approved definitions by endpoint and tool. One query."""
    rows = ToolSnapshot.objects.values_list("server", "tool", "digest")
    return {(server, tool): digest for server, tool, digest in rows}


def remember(servers: Iterable[MCPServer], before: Mapping[tuple[str, str], str]) -> None:
    """Store snapshots of new tools: a new definition is trusted, and only later changes need approval."""
    now = timezone.now()
    rows = [
        ToolSnapshot(
            server=server.name, tool=tool.key, definition=is_now.definition, digest=is_now.digest, accepted=now
        )
        for server in servers
        for tool in tools_of(server)
        if (server.name, tool.key) not in before and tool.find_failure() is None and (is_now := known(tool))
    ]
    if rows:
        ToolSnapshot.objects.bulk_create(rows, ignore_conflicts=True)


def accept(server: MCPServer, tool: Tool, user: Any) -> None:
    """Approve the current definition of a tool."""
    is_now = known(tool)
    with database.atomic():
        ToolSnapshot.objects.update_or_create(
            server=server.name,
            tool=tool.key,
            defaults={
                "definition": is_now.definition,
                "digest": is_now.digest,
                "accepted": timezone.now(),
                "accepted_by": user,
            },
        )


FOREVER = float("inf")
HELD = Rule(Decision.BLOCK, version="changed")


class Stored(NamedTuple):
    """The policies of all endpoints as stored.

    Attributes:
        rules: endpoint and key of a tool -> its rules.
        limits: id of a client that may use only some tools -> the rule that blocks the others.
        own: id of a client -> endpoint and key of the tools for which it has a policy of its own.
    """

    rules: Mapping[tuple[str, str], list[Rule]]
    limits: Mapping[str, Rule]
    own: Mapping[str, Collection[tuple[str, str]]]


NOTHING = Stored({}, {}, {})
_looked: datetime | None = None
"""Time of this process's last load."""


def reload() -> float:
    """Reload the policies of every endpoint. Return the seconds for which they are valid. Blocks."""
    if not database.has_database():  # only the tools' defaults apply
        apply(NOTHING, set())
        return FOREVER
    global _looked
    before, _looked = _looked, timezone.now()
    changed = apply(_stored(), _held())
    # Changes that sent no signal, such as bulk updates or those of another program.
    if policy_cache.is_read and before is not None:
        for server in changed:
            if not was_announced(server, before):
                announce(server)
    return settings.POLICY_CACHE_TTL


def _stored() -> Stored:
    rules: dict[tuple[str, str], list[Rule]] = defaultdict(list)
    limits: dict[str, Rule] = {}
    own: dict[str, set[tuple[str, str]]] = defaultdict(set)
    columns = ("server", "tool", "decision", "group__name", "client_id", "pk", "changed")
    for server, tool, decision, group, client_id, pk, changed in ToolPolicy.objects.order_by("pk").values_list(
        *columns
    ):
        if client_id and group is None:
            own[client_id].add((server, tool))
        if decision == ToolPolicy.GENERAL:
            continue
        rule = Rule(Decision[decision.upper()], group, client_id or None, f"{pk} {changed.isoformat()}")
        if tool:
            rules[server, tool].append(rule)
        else:
            limits[client_id] = rule
    return Stored(rules, limits, own)


def _held() -> set[tuple[str, str]]:
    """Return the tools whose definition has changed since it was approved, if ``BLOCK_CHANGED_TOOLS`` is set."""
    if not settings.BLOCK_CHANGED_TOOLS:
        return set()
    servers, fingerprints = every_server(), accepted()
    remember(servers, fingerprints)
    return {
        (server.name, tool.key)
        for server in servers
        for tool in tools_of(server)
        if fingerprints.get((server.name, tool.key), digest := known(tool).digest) != digest
    }


def apply(stored: Stored, held: Iterable[tuple[str, str]]) -> list[MCPServer]:
    """Set the policies of every endpoint and clear pages cached under old ones. Return the endpoints that changed."""
    held, changed = set(held), []
    for server in every_server():
        rules = {tool.key: _rules(server, tool.key, stored, held) for tool in tools_of(server)}
        limits = {client_id: _limit(server, client_id, stored) for client_id in stored.limits}
        policies = Policies({key: each for key, each in rules.items() if _is_worth_noting(each)}, limits)
        if (policies.rules, policies.limits) != (server.policies.rules, server.policies.limits):
            server.policies = policies
            server.pages = {}
            changed.append(server)
        if policies.asking:
            _add_tasks(server)
    return changed


def _add_tasks(server: MCPServer) -> None:
    """Add the Tasks extension to an endpoint: a call that requires approval may become a pending task."""
    from django_mcp.tasks.methods import EXTENSION  # noqa: PLC0415 - most sites have no use for it

    if EXTENSION.name not in server.extensions:
        server.extensions = {**server.extensions, EXTENSION.name: EXTENSION}


def _limit(server: MCPServer, client_id: str, stored: Stored) -> Limit:
    tools = (tool for name, tool in stored.own[client_id] if name == server.name)
    return Limit(stored.limits[client_id], frozenset(tools))


def _rules(server: MCPServer, key: str, stored: Stored, held: set[tuple[str, str]]) -> list[Rule]:
    if (server.name, key) in held:
        return [HELD]
    rules = list(stored.rules.get((server.name, key), ()))
    if not any(each.is_for_everybody for each in rules):
        rules.append(default_rule(server.tools[key]))
    return rules


def _is_worth_noting(rules: Iterable[Rule]) -> bool:
    return any(each.decision is not Decision.ALLOW or not each.is_for_everybody for each in rules)


def start() -> None:
    """Load policies on each call when due. The tools' defaults apply at once."""
    policy_cache.reload = reload
    policy_cache.expire()
    apply(NOTHING, set())
