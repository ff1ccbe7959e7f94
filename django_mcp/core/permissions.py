"""Permissions and OAuth scopes: which primitives a caller may use or know of.

A caller may use a primitive if scopes, permissions, groups, policy and ``visible`` all allow it. If only scopes are
missing and the client can request more, the primitive is listed and a call is answered with the required scopes (RFC
6750, section 3.1, ``insufficient_scope``). Otherwise it does not exist for the caller.
"""

import enum
import logging
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from django.core.signals import setting_changed

from django_mcp.conf import settings
from django_mcp.core.concurrency import Runner
from django_mcp.core.failures import must_propagate
from django_mcp.core.policies import Decision, Rule
from django_mcp.core.principal import Principal
from django_mcp.core.request import RequestContext
from django_mcp.core.signals import rights_changed
from django_mcp.primitives.base import Primitive
from django_mcp.primitives.tool import Tool
from django_mcp.protocol.errors import InsufficientScope

if TYPE_CHECKING:
    from django_mcp.core.server import MCPServer

logger = logging.getLogger("django_mcp")


class Scope(NamedTuple):
    """An OAuth scope.

    Attributes:
        text: description for the consent page.
        implies: included scopes.
    """

    text: Any
    implies: tuple[str, ...] = ()


def declared() -> Mapping[str, Scope]:
    """Return the scopes of ``DJANGO_MCP["SCOPES"]`` by name, in order."""
    return {
        name: Scope(value["text"], tuple(value.get("implies", ()))) if isinstance(value, Mapping) else Scope(value)
        for name, value in settings.SCOPES.items()
    }


@lru_cache(maxsize=1024)
def expanded(granted: frozenset[str]) -> frozenset[str]:
    """Return *granted* with all scopes included, transitively."""
    scopes = declared()
    found: set[str] = set()
    waiting = list(granted)
    while waiting:
        if (name := waiting.pop()) not in found:
            found.add(name)
            waiting += scopes[name].implies if name in scopes else ()
    return frozenset(found)


def covers(granted: frozenset[str] | None, needed: frozenset[str]) -> bool:
    # None is a credential without scopes, which includes all.
    return granted is None or needed <= granted or needed <= expanded(granted)


def admits(server: "MCPServer", user: Any) -> bool:
    """Return True if the user passes the endpoint's ``user_passes_test``. May query."""
    return server.user_passes_test is None or bool(server.user_passes_test(user))


def may_call(principal: Principal, server: "MCPServer") -> bool:
    """Return True if a caller may use an endpoint at all: its ``user_passes_test`` and scopes. May query.

    Requests are answered with what is missing (``transports.authentication``); whatever acts later for a caller asks
    ``core.resources.refresh_principal``.
    """
    return covers(principal.scopes, server.scopes) and admits(server, principal.user)


def in_order(scopes: Iterable[str]) -> str:
    """Return scopes as a ``scope`` parameter, in the order of the setting, then alphabetically."""
    places = {name: place for place, name in enumerate(settings.SCOPES)}
    return " ".join(sorted(scopes, key=lambda name: (places.get(name, len(places)), name)))


def _forget(*, setting: str, **_: Any) -> None:
    if setting == "DJANGO_MCP":
        expanded.cache_clear()


setting_changed.connect(_forget, dispatch_uid="django_mcp.core.scopes")


GROUPS = "_django_mcp_groups"
"""Attribute that caches the group names of a user object, as Django caches permissions."""


class Right(enum.IntEnum):
    """A caller's right to a primitive, the least first."""

    NONE = 0
    """It does not exist for the caller."""
    KNOW = 1
    """It is listed, but using it requires more scopes."""
    USE = 2


def right(context: RequestContext, primitive: Primitive) -> Right:
    """Return a caller's right to a primitive. May query."""
    if is_for_other_clients(context, primitive):
        return Right.NONE
    granted = right_of_credential(context.principal, primitive)
    if granted and is_blocked(context, primitive):
        return Right.NONE
    if granted and primitive.asks_user and not (_user_may(context.user, primitive) and is_visible(context, primitive)):
        return Right.NONE
    return granted


def right_of_credential(principal: Principal, primitive: Primitive) -> Right:
    """Return the right as far as it depends on the credential alone."""
    if covers(principal.scopes, primitive.scopes):
        return Right.USE
    return Right.KNOW if principal.steps_up else Right.NONE


def is_for_other_clients(context: RequestContext, primitive: Primitive) -> bool:
    return primitive.for_apps and isinstance(primitive, Tool) and not context.shows_apps


def is_blocked(context: RequestContext, primitive: Primitive) -> bool:
    """Return True if a policy blocks a tool for the caller. May query."""
    policies = context.server.policies
    if policies.limit_on(primitive, context.principal):
        return True
    if not (isinstance(primitive, Tool) and policies.may_block(primitive)):
        return False
    return rule_for(context, primitive).decision is Decision.BLOCK


def rule_for(context: RequestContext, tool: Tool) -> Rule:
    """Return the policy for a tool and caller. May query, for groups."""
    policies = context.server.policies
    groups = groups_of(context.user) if context.user is not None and policies.needs_groups(tool) else ()
    return policies.of(tool, context.principal, groups)


async def find_rule(context: RequestContext, tool: Tool) -> Rule:
    """``rule_for``, in another thread if it may query."""
    if context.server.policies.needs_groups(tool):
        return await context.runner.own.sync(partial(rule_for, context, tool))
    return rule_for(context, tool)


def _user_may(user: Any, primitive: Primitive) -> bool:
    if user is None:
        return not (primitive.permissions or primitive.groups)
    if not all(user.has_perm(permission) for permission in primitive.permissions):
        return False
    # Superusers need one of the groups too.
    return not primitive.groups or not primitive.groups.isdisjoint(groups_of(user))


def groups_of(user: Any) -> Collection[str]:
    """Return the names of a user's groups. One query per user object."""
    found: Collection[str] | None = getattr(user, GROUPS, None)
    if found is None:
        # Some user models have no groups. Inactive users are in none, as they have no permissions in Django.
        is_there = user.is_active and hasattr(user, "groups")
        found = frozenset(user.groups.values_list("name", flat=True)) if is_there else frozenset()
        setattr(user, GROUPS, found)
    return found


def is_visible(context: RequestContext, primitive: Primitive) -> bool:
    """Return the result of the site's ``visible`` predicate. False if it raises or would ask the client."""
    result = call_visible(context, primitive)
    if isinstance(result, bool):
        return result
    logger.error("%s is hidden because its visible() failed", primitive.label, exc_info=result)
    return False


def call_visible(context: RequestContext, primitive: Primitive) -> bool | BaseException:
    """Return the result of the site's ``visible`` predicate, or the exception that it raised."""
    try:
        return primitive.visible is None or bool(primitive.visible(context))
    except BaseException as error:
        if must_propagate(error):
            raise
        return error


async def may_use(context: RequestContext, primitive: Primitive, runner: Runner | None = None) -> bool:
    """Return True if the caller may use *primitive*, False if it does not exist for them.

    Raises:
        InsufficientScope: only scopes are missing.
    """
    found = await find_right(context, primitive, runner)
    if found is Right.KNOW:
        raise InsufficientScope(in_order(primitive.scopes))
    return found is Right.USE


async def find_right(context: RequestContext, primitive: Primitive, runner: Runner | None = None) -> Right:
    """``right``, in another thread if it may query."""
    policies = context.server.policies
    if is_for_other_clients(context, primitive) or policies.limit_on(primitive, context.principal):
        return Right.NONE
    granted = right_of_credential(context.principal, primitive)
    if granted and (primitive.asks_user or policies.may_block(primitive)):
        return await (runner or context.site_runner).checks.sync(partial(right, context, primitive))
    return granted


async def look_for(context: RequestContext, others: Iterable[Primitive]) -> None:
    """Take as long for an unknown name as for a hidden one among *others*, so that response times reveal nothing."""
    blocking = context.server.policies.may_block
    hidden = next((other for other in others if other.asks_user or blocking(other)), None)
    if hidden is not None:
        await find_right(context, hidden)


def known_of(context: RequestContext, primitives: Iterable[Primitive]) -> list[Primitive]:
    """Return the *primitives* that the caller may know of. May query."""
    return [primitive for primitive in primitives if right(context, primitive)]


def is_for_everybody(server: "MCPServer", primitives: Iterable[Primitive]) -> bool:
    """Return True if none of *primitives* depends on the caller, except through the limit of a client."""
    blocking = server.policies.may_block
    return not any(primitive.is_guarded or blocking(primitive) for primitive in primitives)


def notify_permissions_changed(*users: Any) -> None:
    """Notify the clients of *users* after commit that their lists may have changed.

    Django's signals about users, groups and permissions do this already. Call it after ``bulk_create()``, ``update()``
    and raw SQL, and when data that your ``visible`` predicates read has changed.

    Args:
        users: Django users.
    """
    rights_changed.send(sender=None, users=[str(user.pk) for user in users])
