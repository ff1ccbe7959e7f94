"""Delete pages of the admin: what goes along, what protects a row, and what the user may not delete."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from django.contrib.admin.utils import quote
from django.db import models

from django_mcp.core.context import Context
from django_mcp.integrations.admin_site.texts import plain
from django_mcp.integrations.admin_site.visit import Visit, page_url, visit
from django_mcp.primitives.base import ToolError

MAX_NAMED = 50
"""Rows named in a report."""


def open_deletion(ctx: Context, site: Any, model: type[models.Model], key: Any) -> tuple[str, Visit]:
    """Return the path of a row's delete page, and the page.

    Raises:
        ToolError: there is no such row for the user, or they may not delete it.
    """
    options = model._meta  # noqa: SLF001 - Django's documented API
    path = page_url(ctx, site, f"{options.app_label}_{options.model_name}_delete", quote(str(key)))
    page = visit(ctx, path)
    if page.location is not None:
        raise ToolError(f"There is no {options.verbose_name} {key}.")
    return path, page


def require_deletable(page: Visit, options: Any) -> None:
    """Raise ToolError if rows protect the one to delete, or the user may not delete what goes along."""
    if lacking := list(page.context.get("perms_lacking") or ()):
        names = ", ".join(sorted(map(str, lacking)))
        raise ToolError(f"Deleting it would delete rows that you may not delete: {names}.")
    if protected := list(page.context.get("protected") or ()):
        named = ", ".join(shortened(names_in(protected)))
        raise ToolError(f"This {options.verbose_name} cannot be deleted, because these rows depend on it: {named}.")


def delete(ctx: Context, site: Any, model: type[models.Model], key: Any) -> list[str]:
    """Delete a row as the admin's page does, and return the admin's messages.

    Raises:
        ToolError: there is no such row for the user, something protects it, or the user may not delete what goes along.
    """
    options = model._meta  # noqa: SLF001 - Django's documented API
    path, page = open_deletion(ctx, site, model, key)
    require_deletable(page, options)
    sent = visit(ctx, path, data=[("post", "yes")])
    if sent.location is not None:
        return sent.messages
    require_deletable(sent, options)
    raise ToolError("The admin answered with a page and did not delete the row.")


def counts(page: Visit) -> dict[str, int]:
    """Return how many rows of each model are deleted, by plural name."""
    return {str(name): count for name, count in page.context.get("model_count") or ()}


def names_in(nested: Iterable[Any]) -> list[str]:
    """Return the texts of the nested lists that the admin shows."""
    return list(_flat(nested))


def shortened(texts: Sequence[str], most: int = MAX_NAMED) -> list[str]:
    """Return at most *most* texts, and how many more there are."""
    rest = len(texts) - most
    return [*texts[:most], *([f"… ({rest} more)"] if rest > 0 else [])]


def _flat(nested: Iterable[Any]) -> Iterator[str]:
    for entry in nested:
        if isinstance(entry, list | tuple):
            yield from _flat(entry)
        else:
            yield plain(entry)
