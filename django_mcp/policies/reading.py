"""From rows to the ``Policies`` of every endpoint.

What was decided is read anew by each process, ``POLICY_SECONDS`` after it was last read, when there is a call: with one
query, or with two where changed tools are held. So it counts everywhere after that time, whether a bell can be heard or
not.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime

from django.utils import timezone

from django_mcp.conf import settings
from django_mcp.core import database
from django_mcp.core.policies import Decision, Policies, Rule, book
from django_mcp.core.server import MCPServer, every_server
from django_mcp.models import ToolPolicy
from django_mcp.policies import definitions
from django_mcp.policies.announcing import announce, was_announced
from django_mcp.policies.defaults import default_rule

FOREVER = float("inf")
HELD = Rule(Decision.BLOCK, version="changed")
Rules = Mapping[tuple[str, str], list[Rule]]

_looked: datetime | None = None
"""When this process last looked at what was decided."""


def renew() -> float:
    """Bring the policies of every endpoint up to date; for how many seconds they are good. Blocks."""
    if not database.has_database():  # without a database, what tools say of themselves is all there is
        apply({}, set())
        return FOREVER
    global _looked
    before, _looked = _looked, timezone.now()
    changed = apply(_decided(), _held())
    # What no signal told of: changes by one statement for many rows, or by another program.
    if book.is_read and before is not None:
        for server in changed:
            if not was_announced(server, before):
                announce(server)
    return settings.POLICY_SECONDS


def _decided() -> Rules:
    found: dict[tuple[str, str], list[Rule]] = defaultdict(list)
    columns = ("server", "tool", "decision", "group__name", "client_id", "pk", "changed")
    for server, tool, decision, group, client_id, pk, changed in ToolPolicy.objects.order_by("pk").values_list(
        *columns
    ):
        rule = Rule(Decision[decision.upper()], group, client_id or None, f"{pk} {changed.isoformat()}")
        found[server, tool].append(rule)
    return found


def _held() -> set[tuple[str, str]]:
    """Tools that are others than those that were accepted, where that matters."""
    if not settings.HOLD_CHANGED_TOOLS:
        return set()
    servers, fingerprints = every_server(), definitions.accepted()
    definitions.remember(servers, fingerprints)
    return {
        (server.name, tool.key)
        for server in servers
        for tool in definitions.tools_of(server)
        if fingerprints.get((server.name, tool.key), digest := definitions.known(tool).digest) != digest
    }


def apply(decided: Rules, held: Iterable[tuple[str, str]]) -> list[MCPServer]:
    """Give every endpoint its policies, and forget pages that were made under others; those that have other ones."""
    held, changed = set(held), []
    for server in every_server():
        rules = {tool.key: _rules(server, tool.key, decided, held) for tool in definitions.tools_of(server)}
        policies = Policies({key: each for key, each in rules.items() if _is_worth_noting(each)})
        if policies.rules != server.policies.rules:
            server.policies = policies
            server.pages = {}
            changed.append(server)
        if policies.asking:
            _add_tasks(server)
    return changed


def _add_tasks(server: MCPServer) -> None:
    """Give an endpoint the methods of tasks: a call that has to be approved may become a task that waits."""
    from django_mcp.tasks.methods import EXTENSION  # noqa: PLC0415 - most sites have no use for it

    if EXTENSION.name not in server.extensions:
        server.extensions = {**server.extensions, EXTENSION.name: EXTENSION}


def _rules(server: MCPServer, key: str, decided: Rules, held: set[tuple[str, str]]) -> list[Rule]:
    if (server.name, key) in held:
        return [HELD]
    rules = list(decided.get((server.name, key), ()))
    if not any(each.is_for_everybody for each in rules):
        rules.append(default_rule(server.tools[key]))
    return rules


def _is_worth_noting(rules: Iterable[Rule]) -> bool:
    return any(each.decision is not Decision.ALLOW or not each.is_for_everybody for each in rules)


def start() -> None:
    """Have every call look whether something was decided. What tools say of themselves counts at once."""
    book.renew = renew
    book.expire()
    apply({}, set())
