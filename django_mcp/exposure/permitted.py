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
        methods = {action: f"has_{action}_permission" for action in actions}
        cls = type(self._resource)
        own = [name for name in methods.values() if getattr(cls, name) is not getattr(ModelResource, name)]
        needed = [self._resource.permission_for(action) for action, name in methods.items() if name not in own]
        wants = " and ".join(each for each in needed if each is not None)
        parts = [f"wants the permission {wants}" if wants else "", f"asks its {' and '.join(own)}" if own else ""]
        said = " and ".join(filter(None, parts))
        return f"{cls.__name__} {said}" if said else ""
