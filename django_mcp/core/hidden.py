"""Why something does not exist for a caller, in words for the site's operator. Never for the caller.

Whether it exists is for ``core.permissions`` to say; this only looks for what was missing.
"""

from collections.abc import Iterator

from django_mcp.core.context import Context
from django_mcp.core.permissions import Right, covers, groups_of, in_order, is_blocked, is_visible, right, rule_for
from django_mcp.core.policies import Decision, Rule
from django_mcp.primitives.base import Primitive
from django_mcp.primitives.tool import Tool

UNMADE = {
    "default": "by what the tool says of itself",
    "changed": "until somebody accepts it: it is another tool than the one that was accepted",
}
"""What stands for the version of a rule that nobody made."""


def reasons(context: Context, primitive: Primitive) -> list[str]:
    """All that keeps a caller from using it; empty where they may. May be queries."""
    if right(context, primitive) is Right.USE:
        return []
    return list(_reasons(context, primitive)) or ["hidden"]


def _reasons(context: Context, primitive: Primitive) -> Iterator[str]:
    principal, user = context.principal, context.user
    if principal.tools is not None and primitive.kind == "tool" and primitive.key not in principal.tools:
        yield f"not among the tools of the client {principal.client_id!r}"
    if not covers(principal.scopes, primitive.scopes):
        yield f"needs the scope {in_order(primitive.scopes)}"
    if is_blocked(context, primitive) and isinstance(primitive, Tool):
        yield f"blocked {made_for(rule_for(context, primitive))}"
    yield from (
        f"lacks the permission {each}" for each in primitive.permissions if user is None or not user.has_perm(each)
    )
    if primitive.groups and (user is None or primitive.groups.isdisjoint(groups_of(user))):
        yield f"is not in the group {' or '.join(sorted(primitive.groups))}"
    if not is_visible(context, primitive):
        yield predicate(primitive) or "its declaration says no"


def predicate(primitive: Primitive) -> str:
    """What its ``visible`` is about, where that can be told; empty where it has none."""
    if primitive.visible is None:
        return ""
    words: str = getattr(primitive.visible, "words", "its own visible() decides")
    return words


def made_for(rule: Rule) -> str:
    """By what, and for whom, something was decided."""
    if rule.version in UNMADE:
        return UNMADE[rule.version]
    named = []
    if rule.group is not None:
        named.append(f"the group {rule.group}")
    if rule.client_id is not None:
        named.append(f"the client {rule.client_id}")
    return f"by a policy for {' and '.join(named) or 'everybody'}"


def decision_for(context: Context, tool: Tool) -> tuple[Decision, str]:
    """What the caller's calls of a tool meet, and why. May be a query."""
    rule = rule_for(context, tool)
    return rule.decision, made_for(rule) if rule.decision is not Decision.ALLOW else ""
