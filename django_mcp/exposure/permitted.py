"""Whether what was made for a model exists for a caller, and which permissions that is about."""

from django_mcp.core.context import Context
from django_mcp.exposure.declaration import ModelResource

ACTIONS = {"create": "add", "update": "change", "delete": "delete"}


class Permitted:
    """A ``visible`` predicate that asks a declaration.

    Args:
        resource: the declaration.
        verb: what is to be done with rows, of ``verbs``; None to view them.
    """

    __slots__ = ("_resource", "_verb")

    def __init__(self, resource: ModelResource, verb: str | None = None) -> None:
        self._resource, self._verb = resource, verb

    def __call__(self, ctx: Context) -> bool:
        """Ask it."""
        if self._verb is None:
            return self._resource.has_view_permission(ctx.user)
        return self._resource.allows(self._verb, ctx.user)

    @property
    def words(self) -> str:
        """What it takes, for the site's operator; empty where it takes nothing."""
        actions = ["view"] if self._verb is None else ["view", ACTIONS[self._verb]]
        needed = [each for each in map(self._resource.permission_for, actions) if each is not None]
        return f"{type(self._resource).__name__} wants the permission {' and '.join(needed)}" if needed else ""
