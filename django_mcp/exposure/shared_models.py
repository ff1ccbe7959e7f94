"""A model behind the tools that it shares with others: who may use it, and how what is asked of it is checked."""

from collections.abc import Mapping, Sequence
from typing import Any

from django_mcp.core.context import Context
from django_mcp.exposure.exposed import Exposed
from django_mcp.exposure.tools import (
    RESERVED,
    aggregate_parameters,
    get_parameters,
    run_aggregate,
    run_get,
    run_search,
    search_parameters,
)
from django_mcp.primitives.output import ToolResult
from django_mcp.primitives.schema import ArgumentError, Arguments
from django_mcp.primitives.tool import ToolError


class SharedModel:
    """A model, and the arguments that its own tools would take.

    Args:
        exposed: the model.

    Attributes:
        label: what callers name it by, like ``"library.Book"``.
        scopes: what a credential must have for it.
    """

    def __init__(self, exposed: Exposed) -> None:
        self.exposed = exposed
        self.label: str = exposed.options.label
        self.scopes = frozenset(exposed.resource.scopes)
        self._search = Arguments(search_parameters(exposed), self.label, is_json=True)
        self._get = Arguments(get_parameters(exposed), self.label)
        self._aggregate = Arguments(aggregate_parameters(exposed), self.label, is_json=True)

    def search(self, ctx: Context, given: Mapping[str, Any]) -> ToolResult[Any]:
        """A page of rows.

        Raises:
            ArgumentError, ToolError: as of its own ``search_…``.
        """
        return run_search(self.exposed, ctx, self._search.validate(_flat(given)))

    def get(self, ctx: Context, given: Mapping[str, Any]) -> ToolResult[Any]:
        """One row in full.

        Raises:
            ArgumentError, ToolError: as of its own ``get_…``.
        """
        name = self.exposed.lookup_name
        return run_get(self.exposed, ctx, self._get.validate({name: given["lookup"]})[name])

    def aggregate(self, ctx: Context, given: Mapping[str, Any]) -> ToolResult[Any]:
        """Groups of rows, and what was worked out of them.

        Raises:
            ArgumentError, ToolError: as of its own ``aggregate_…``.
        """
        return run_aggregate(self.exposed, ctx, self._aggregate.validate(_flat(given)))

    def is_for_user(self, user: Any) -> bool:
        """Whether *user* may view it, whatever their client was allowed."""
        return self.exposed.resource.has_view_permission(user)

    def is_for(self, ctx: Context) -> bool:
        """Whether it exists for the caller: by scopes too, which no client is asked for here."""
        return self.exposed.is_for(ctx.principal)


def _flat(given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as the model's own tool takes them: filters among the others, and without what was left out.

    Raises:
        ArgumentError: among the filters is the name of another argument.
    """
    filters = given["filters"] or {}
    if wrong := [name for name in filters if name in RESERVED]:
        raise ArgumentError([f"Argument 'filters': {name!r} is no filter." for name in wrong])
    others = {key: value for key, value in given.items() if key not in {"model", "filters"} and value not in (None, [])}
    return {**others, **filters}


def find(models: Sequence[SharedModel], ctx: Context, name: str) -> SharedModel:
    """The model of that name.

    Raises:
        ToolError: there is none for the caller.
    """
    # All are looked through, whatever the name: one that is not for the caller takes as long as one that is nowhere.
    known = {each.label.lower(): each for each in models if each.is_for(ctx)}
    found = known.get(name.lower())
    if found is None:
        names = ", ".join(repr(each.label) for each in known.values())
        raise ToolError(f"There is no model {name[:80]!r}. There {f'are {names}' if known else 'is none'}.")
    return found
