"""Tool policies: defaults, loading and setting, approved definitions, and notifying clients.

Each process reloads policies when a call arrives ``POLICY_CACHE_TTL`` after the last load: two queries, or three with
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
from django.contrib.auth import get_user_model
from django.db.models.signals import post_delete, post_save, pre_save
from django.dispatch import receiver
from django.utils import timezone, translation
from django.utils.translation import gettext as _

from django_mcp.auth.base import authenticators
from django_mcp.auth.oauth import has_toolkit
from django_mcp.conf import settings
from django_mcp.core import database
from django_mcp.core.policies import Decision, Limit, Policies, Rule, policy_cache
from django_mcp.core.server import MCPServer, every_server
from django_mcp.core.signals import differs
from django_mcp.models import ClientPolicy, Event, RequestLog, ToolPolicy, ToolSnapshot
from django_mcp.primitives.base import translate
from django_mcp.primitives.tool import Tool
from django_mcp.pubsub import publish

SKEW = timedelta(seconds=1)
"""Maximum clock difference between processes."""


def announce(server: MCPServer) -> None:
    """Notify clients that the tool list has changed, once every process has the new policies."""
    server.pages = {}
    publish.publish([(publish.server_topic(server), _change())])


def was_announced(server: MCPServer, since: datetime) -> bool:
    data = json.dumps(_change())
    return Event.objects.filter(topic=publish.server_topic(server), data=data, created__gt=since - SKEW).exists()


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


Which = tuple[str, str]
"""Endpoint and key of a tool."""


def limit_of(client_id: str) -> set[Which] | None:
    """Return the tools that a client may use, or None if it is not limited to some."""
    return which_of(ClientPolicy.objects.filter(client_id=client_id).values_list("tools", flat=True).first())


def which_of(stored: Iterable[str] | None) -> set[Which] | None:
    """Return the tools of ``ClientPolicy.tools``, or None for no limit."""
    if stored is None:
        return None
    return {(server, tool) for server, _dot, tool in (key.partition(".") for key in stored)}


def limit(client_id: str, tools: Iterable[Which] | None) -> None:
    """Limit a client to some tools. Policies still apply to these, and overrides stay as they are.

    Args:
        client_id: the client.
        tools: the tools that it may use; None for all.
    """
    stored = None if tools is None else sorted(f"{server}.{tool}" for server, tool in tools)
    with database.atomic():
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
    database.on_commit(policy_cache.expire)
    for server in every_server():
        if server.name == instance.server and instance.tool in server.tools:
            announce(server)


@receiver(pre_save, sender=ClientPolicy, dispatch_uid="django_mcp.policies.limit_is_saved")
def _look_at_limit(instance: Any, update_fields: Any, **_more: Any) -> None:
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


# Policies that match nobody


def unknown_clients(client_ids: Iterable[str]) -> set[str]:
    """Return those client ids that no client has. Two queries at most.

    Clients that are registered elsewhere are known by their logged requests.
    """
    unknown = {client_id for client_id in client_ids if client_id}
    if unknown and has_toolkit():
        from django_mcp.auth.toolkit import get_application_model  # noqa: PLC0415 - where it is installed

        known = get_application_model().objects.filter(client_id__in=unknown)
        unknown -= set(known.values_list("client_id", flat=True))
    if unknown and may_register_elsewhere():
        seen = RequestLog.objects.filter(client_id__in=unknown).order_by()
        unknown -= set(seen.values_list("client_id", flat=True).distinct())
    return unknown


def may_register_elsewhere() -> bool:
    """Return True if clients of an endpoint may be registered with an issuer of JWTs or by the site's own code."""
    found = (authenticator for server in every_server() for authenticator in authenticators(server))
    return any(type(authenticator).__module__ not in WITHOUT_OTHER_CLIENTS for authenticator in found)


WITHOUT_OTHER_CLIENTS = {f"django_mcp.auth.{name}" for name in ("api_keys", "base", "oauth", "session")}
"""Modules of authentication classes whose callers have no client, or one that is registered with this site."""


def find_problems(rows: Collection[ToolPolicy]) -> dict[Any, str]:
    """Return by primary key why policies match no caller, of those that match none. Three queries at most."""
    unknown = unknown_clients(row.client_id for row in rows)
    groups = {row.group.name for row in rows if row.group is not None}
    joined: set[str] = set()
    if groups and hasattr(get_user_model(), "groups"):  # some user models have none
        # By name, as for a caller: the groups of the site's users may be rows of another model.
        users = get_user_model()._default_manager.filter(groups__name__in=groups)  # noqa: SLF001 - documented API
        joined.update(users.order_by().values_list("groups__name", flat=True).distinct())
    found: dict[Any, str] = {}
    for row in rows:
        if row.client_id in unknown:
            found[row.pk] = _("matches nobody: no client has this id")
        elif row.group is not None and row.group.name not in joined:
            found[row.pk] = _("matches nobody: the group has no members")
    return found


def find_unmatched(server: MCPServer) -> list[str]:
    """Return a sentence about each policy of an endpoint, and of a client, that matches nobody. A few queries."""
    rows = list(ToolPolicy.objects.filter(server=server.name).select_related("group").order_by("tool", "pk"))
    problems = find_problems(rows)
    of_tools = [
        f"{row.decision} of {row.tool}: no such tool"
        if row.tool not in server.tools
        else f"{row.decision} of {row.tool} for {row.client_id or f'group {row.group}'} {problems[row.pk]}"
        for row in rows
        if row.tool not in server.tools or row.pk in problems
    ]
    unknown = unknown_clients(ClientPolicy.objects.values_list("client_id", flat=True))
    return [
        *of_tools,
        *(f"the policy of the client {client_id}: no client has this id" for client_id in sorted(unknown)),
    ]


def _limits_changed() -> None:
    database.on_commit(policy_cache.expire)
    for server in every_server():
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
        plain = json.loads(json.dumps(translate(shown, django_settings.LANGUAGE_CODE), sort_keys=True, default=str))
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    now = Known(plain, hashlib.sha256(text.encode()).hexdigest())
    _known[tool] = tool.definition, now
    return now


def tools_of(server: MCPServer) -> Iterator[Tool]:
    """Yield the tools that have a policy; the tools of tool search have none."""
    return (tool for tool in server.tools.values() if tool.kind == "tool")


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
        rules: tool -> its rules.
        limits: id of a client that may use only some tools -> these.
    """

    rules: Mapping[Which, list[Rule]]
    limits: Mapping[str, Collection[Which]]


NOTHING = Stored({}, {})
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
    rules: dict[Which, list[Rule]] = defaultdict(list)
    columns = ("server", "tool", "decision", "group__name", "client_id", "pk", "changed")
    for server, tool, decision, group, client_id, pk, changed in ToolPolicy.objects.order_by("pk").values_list(
        *columns
    ):
        rule = Rule(Decision[decision.upper()], group, client_id or None, f"{pk} {changed.isoformat()}")
        rules[server, tool].append(rule)
    return Stored(rules, limits())


def limits() -> dict[str, set[Which]]:
    """Return the tools of each client that may use only some. One query."""
    rows = ClientPolicy.objects.exclude(tools=None).values_list("client_id", "tools")
    return {client_id: which_of(tools) or set() for client_id, tools in rows}


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
        policies = policies_of(server, stored, held)
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


def policies_of(server: MCPServer, stored: Stored, held: Collection[Which] = ()) -> Policies:
    """Return the policies of an endpoint; *held* are tools that are blocked because their definition changed."""
    rules = {tool.key: _rules(server, tool.key, stored, held) for tool in tools_of(server)}
    limits = {client_id: _limit(server, client_id, tools) for client_id, tools in stored.limits.items()}
    return Policies({key: rule for key, rule in rules.items() if _is_worth_noting(rule)}, limits)


def _limit(server: MCPServer, client_id: str, tools: Iterable[Which]) -> Limit:
    rule = Rule(Decision.BLOCK, None, client_id, "limit")
    return Limit(rule, frozenset(tool for name, tool in tools if name == server.name))


def _rules(server: MCPServer, key: str, stored: Stored, held: Collection[Which]) -> list[Rule]:
    if (server.name, key) in held:
        return [HELD]
    rules = list(stored.rules.get((server.name, key), ()))
    if not any(rule.is_for_everybody for rule in rules):
        rules.append(default_rule(server.tools[key]))
    return rules


def _is_worth_noting(rules: Iterable[Rule]) -> bool:
    return any(rule.decision is not Decision.ALLOW or not rule.is_for_everybody for rule in rules)


def start() -> None:
    """Load policies on each call when due. The tools' defaults apply at once."""
    policy_cache.reload, policy_cache.find_unmatched = reload, find_unmatched
    policy_cache.expire()
    apply(NOTHING, set())
