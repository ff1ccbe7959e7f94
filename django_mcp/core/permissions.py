"""Permissions and OAuth scopes: what a caller may use.

They are declared once, in ``DJANGO_MCP["SCOPES"]``.

A caller may use what all of these allow. What only the scopes lack, for a client that can ask its user for more, it may
know of: a call is answered with what to ask for (RFC 6750, section 3.1, ``insufficient_scope``). Everything else does
not exist for the caller.
"""

import enum
import logging
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from django.core.signals import setting_changed

from django_mcp.conf import settings
from django_mcp.core.concurrency import Runner
from django_mcp.core.elicitation import InputRequired
from django_mcp.core.policies import Decision, Rule
from django_mcp.core.principal import Principal
from django_mcp.core.request import RequestContext
from django_mcp.core.signals import rights_changed
from django_mcp.primitives.base import Primitive
from django_mcp.primitives.tool import Tool
from django_mcp.protocol.errors import InsufficientScope

if TYPE_CHECKING:
    from django_mcp.core.server import MCPServer


class Scope(NamedTuple):
    """One scope.

    Attributes:
        text: what it lets a client do, for the person who is asked to agree.
        implies: scopes that are included.
    """

    text: Any
    implies: tuple[str, ...] = ()


def declared() -> Mapping[str, Scope]:
    """Every scope of the site, by name, in the order of the setting."""
    return {
        name: Scope(value["text"], tuple(value.get("implies", ()))) if isinstance(value, Mapping) else Scope(value)
        for name, value in settings.SCOPES.items()
    }


@lru_cache(maxsize=1024)
def expanded(granted: frozenset[str]) -> frozenset[str]:
    """*granted* and all that it includes, however deep."""
    scopes = declared()
    found: set[str] = set()
    waiting = list(granted)
    while waiting:
        if (name := waiting.pop()) not in found:
            found.add(name)
            waiting += scopes[name].implies if name in scopes else ()
    return frozenset(found)


def covers(granted: frozenset[str] | None, needed: frozenset[str]) -> bool:
    """Whether *granted* is enough; None is a credential without scopes, which is enough for all."""
    return granted is None or needed <= granted or needed <= expanded(granted)


def in_order(scopes: Iterable[str]) -> str:
    """Scopes as ``scope`` parameters have them, in the order of the setting, then of the alphabet."""
    places = {name: place for place, name in enumerate(settings.SCOPES)}
    return " ".join(sorted(scopes, key=lambda name: (places.get(name, len(places)), name)))


def _forget(*, setting: str, **_: Any) -> None:
    if setting == "DJANGO_MCP":
        expanded.cache_clear()


setting_changed.connect(_forget, dispatch_uid="django_mcp.core.scopes")


GROUPS = "_django_mcp_groups"
"""Where a user keeps the names of their groups, as Django keeps their permissions: as long as the object lives."""

logger = logging.getLogger("django_mcp")


class Right(enum.IntEnum):
    """What may be done with a primitive."""

    NONE = 0
    """It does not exist."""
    KNOW = 1
    """It is listed; to use it, the client has to ask for more scopes."""
    USE = 2


def right(context: RequestContext, primitive: Primitive) -> Right:
    """A caller's right to a primitive. May be a query, where that depends on the user."""
    granted = right_of_credential(context.principal, primitive)
    if granted and is_blocked(context, primitive):
        return Right.NONE
    if granted and primitive.asks_user and not (_user_may(context.user, primitive) and is_visible(context, primitive)):
        return Right.NONE
    return granted


def right_of_credential(principal: Principal, primitive: Primitive) -> Right:
    """The same as far as it does not depend on the user."""
    if principal.tools is not None and primitive.kind == "tool" and primitive.key not in principal.tools:
        return Right.NONE
    if covers(principal.scopes, primitive.scopes):
        return Right.USE
    return Right.KNOW if principal.steps_up else Right.NONE


def is_blocked(context: RequestContext, primitive: Primitive) -> bool:
    """Whether somebody decided that a tool does not exist for the caller. May be a query."""
    if not (isinstance(primitive, Tool) and context.server.policies.may_block(primitive)):
        return False
    return rule_for(context, primitive).decision is Decision.BLOCK


def rule_for(context: RequestContext, tool: Tool) -> Rule:
    """What was decided about a tool for the caller. May be a query, where that depends on groups."""
    policies = context.server.policies
    groups = groups_of(context.user) if context.user is not None and policies.needs_groups(tool) else ()
    return policies.of(tool, context.principal, groups)


async def find_rule(context: RequestContext, tool: Tool) -> Rule:
    """``rule_for``, on another thread where it may be a query."""
    if context.server.policies.needs_groups(tool):
        return await context.runner.sync(partial(rule_for, context, tool))
    return rule_for(context, tool)


def _user_may(user: Any, primitive: Primitive) -> bool:
    """By permissions, all of them, and by groups, any of them. A superuser has every permission, and is in no group."""
    if user is None:
        return not (primitive.permissions or primitive.groups)
    if not all(user.has_perm(each) for each in primitive.permissions):
        return False
    return not primitive.groups or not primitive.groups.isdisjoint(groups_of(user))


def groups_of(user: Any) -> Collection[str]:
    """The names of a user's groups. One query for each user object, whatever is asked of it."""
    found: Collection[str] | None = getattr(user, GROUPS, None)
    if found is None:
        # Not every user model has groups; and who is not active is in none, as Django gives them no permission.
        is_there = user.is_active and hasattr(user, "groups")
        found = frozenset(user.groups.values_list("name", flat=True)) if is_there else frozenset()
        setattr(user, GROUPS, found)
    return found


def is_visible(context: RequestContext, primitive: Primitive) -> bool:
    """What the site's own predicate says; one that fails, or would ask the client, hides what it is about."""
    try:
        return primitive.visible is None or bool(primitive.visible(context))
    except (Exception, SystemExit, InputRequired):
        logger.exception("%s is hidden, for its visible() failed", primitive.label)
        return False


async def may_use(context: RequestContext, primitive: Primitive, runner: Runner | None = None) -> bool:
    """Whether the caller may use it; False where it does not exist for them.

    Args:
        context: of the call.
        primitive: what it is about.
        runner: by default that of the call.

    Raises:
        InsufficientScope: nothing but scopes is missing.
    """
    found = await find_right(context, primitive, runner)
    if found is Right.KNOW:
        raise InsufficientScope(in_order(primitive.scopes))
    return found is Right.USE


async def find_right(context: RequestContext, primitive: Primitive, runner: Runner | None = None) -> Right:
    """``right``, on another thread where it may be a query."""
    granted = right_of_credential(context.principal, primitive)
    if granted and (primitive.asks_user or context.server.policies.may_block(primitive)):
        return await (runner or context.site_runner).sync(partial(right, context, primitive))
    return granted


async def look_for(context: RequestContext, others: Iterable[Primitive]) -> None:
    """Take for a name that nobody has what it takes to find that one is hidden, so that a clock tells no more.

    Args:
        context: of the call.
        others: what there is of the kind.
    """
    blocking = context.server.policies.may_block
    hidden = next((each for each in others if each.asks_user or blocking(each)), None)
    if hidden is not None:
        await find_right(context, hidden)


def known_of(context: RequestContext, primitives: Iterable[Primitive]) -> list[Primitive]:
    """Those of *primitives* that the caller may know of. May be queries."""
    return [each for each in primitives if right(context, each)]


def is_for_everybody(server: "MCPServer", primitives: Iterable[Primitive]) -> bool:
    """Whether none of them depends on who calls, but for clients with a list of their own."""
    blocking = server.policies.may_block
    return not any(primitive.is_guarded or blocking(primitive) for primitive in primitives)


def notify_permissions_changed(*users: Any) -> None:
    """Tell clients that listen in the name of *users* that lists may be others now, once the transaction is committed.

    Django's signals tell of users, groups and permissions already. Call it after ``bulk_create()``, ``update()`` and
    SQL of your own, and when something changes that your ``redaction`` predicates look at.

    Args:
        users: Django users.
    """
    rights_changed.send(sender=None, users=[str(user.pk) for user in users])
