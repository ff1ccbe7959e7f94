"""Rights of a form that writes rows of a model: those that the same write through ``ModelResource`` takes."""

import inspect
from collections.abc import Callable
from typing import Any

from django.contrib.auth import get_permission_codename
from django.db.models import Model

from django_mcp.core.context import Context
from django_mcp.core.permissions import covers
from django_mcp.model_resources.bound_resource import rules_at
from django_mcp.model_resources.options import ACTIONS
from django_mcp.model_resources.writes import require_change
from django_mcp.primitives.tool import ToolError


class WritePermission:
    """A ``visible`` predicate that asks the models' declarations or, where there is none, for Django's permissions.

    Args:
        writes: models, each with what is done to its rows: ``"create"`` or ``"update"``.

    Attributes:
        also: a further predicate, or None.
    """

    def __init__(self, *writes: tuple[type[Model], str]) -> None:
        self._writes = writes
        self.also: Callable[[Context], Any] | None = None

    def __call__(self, ctx: Context) -> bool:
        """Return True if the caller may do all of it, as far as that does not depend on the row."""
        if not all(_allows(ctx, model, verb) for model, verb in self._writes):
            return False
        return self.also is None or bool(self.also(ctx))

    def require(self, ctx: Context, obj: Any) -> None:
        """See that the caller may write a row, changed or new, whichever it turned out to be.

        Raises:
            ToolError: they may not.
        """
        options, is_new = obj._meta, obj._state.adding  # noqa: SLF001 - Django's documented API
        if not _allows(ctx, type(obj), "create" if is_new else "update"):
            words = f"add {options.verbose_name_plural}" if is_new else f"change this {options.verbose_name}"
            raise ToolError(f"You may not {words}.")
        exposed = rules_at(ctx.server, type(obj))
        if exposed is not None and not is_new:
            require_change(exposed, ctx, obj)

    @property
    def words(self) -> str:
        """Say which permissions it asks for where the model has no declaration; ``mcp_inspect`` shows it."""
        return "wants the permission " + " and ".join(_permission(model, verb) for model, verb in self._writes)


def is_predicate(given: object) -> bool:
    """Return True if *given* can be asked whether a tool exists for a caller."""
    return callable(given) and not inspect.iscoroutinefunction(given)


def _allows(ctx: Context, model: type[Model], verb: str) -> bool:
    exposed = rules_at(ctx.server, model)
    if exposed is None:
        return ctx.user is not None and bool(ctx.user.has_perm(_permission(model, verb)))
    resource = exposed.resource
    scopes = frozenset((*resource.scopes, *resource.write_scopes))
    return covers(ctx.principal.scopes, scopes) and bool(resource.allows(verb, ctx.user))


def _permission(model: type[Model], verb: str) -> str:
    options = model._meta  # noqa: SLF001 - Django's documented API
    return f"{options.app_label}.{get_permission_codename(ACTIONS[verb], options)}"
