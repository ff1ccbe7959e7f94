"""Which primitives a caller may know of."""

from functools import partial

from django_mcp.core.context import Context
from django_mcp.primitives.base import Primitive


async def may_know(context: Context, primitive: Primitive) -> bool:
    """Whether the caller has the primitive's permission; without it the primitive does not exist for them."""
    return primitive.permission is None or await context.runner.sync(partial(is_permitted, context, primitive))


def is_permitted(context: Context, primitive: Primitive) -> bool:
    """The same, here and now: it may be a query."""
    user = context.user
    return primitive.permission is None or (user is not None and user.has_perm(primitive.permission))
