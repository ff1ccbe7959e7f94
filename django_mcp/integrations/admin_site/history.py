"""The history of a row, as the admin's history page has it, and the name of the client in what it writes."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from django.contrib.admin.utils import quote
from django.db import models
from django.db.models.signals import pre_save
from django.dispatch import receiver

from django_mcp.core.context import Context
from django_mcp.integrations.admin_site.changelist import plain
from django_mcp.integrations.admin_site.visit import page_url, visit
from django_mcp.model_resources.schema import to_json_value
from django_mcp.primitives.base import ToolError

MAX_ENTRIES = 100


def history(ctx: Context, site: Any, model: type[models.Model], key: Any) -> dict[str, Any]:
    """Return the newest entries of a row's history page.

    Raises:
        ToolError: there is no such row for the user.
    """
    options = model._meta  # noqa: SLF001 - Django's documented API
    path = page_url(ctx, site, f"{options.app_label}_{options.model_name}_history", quote(str(key)))
    page = visit(ctx, path)
    if page.location is not None:
        raise ToolError(f"There is no {options.verbose_name} {key}.")
    entries = page.context.get("action_list")
    if entries is None:
        from django_mcp.integrations.html import read_page  # noqa: PLC0415 - imports Beautiful Soup

        return {"text": read_page(page.html).text}
    return {"entries": [_entry(entry) for entry in list(entries)[:MAX_ENTRIES]]}


def _entry(entry: Any) -> dict[str, Any]:
    told = {
        "time": to_json_value(entry.action_time),
        "user": str(entry.user),
        "action": plain(entry.get_change_message()),
    }
    return {**told, **({"client": name} if (name := client_of(entry)) else {})}


# The client in the entries that a call writes

_client: ContextVar[dict[str, str] | None] = ContextVar("django_mcp_admin_client", default=None)
MEMBER = "mcp"
"""Member of an entry's message, which Django ignores."""


@contextmanager
def naming_client(ctx: Context) -> Iterator[None]:
    """Have the entries written in the block name the client of a call."""
    name = ctx.client.title or ctx.client.name or ""
    token = _client.set({"client": name} if name else None)
    try:
        yield
    finally:
        _client.reset(token)


@receiver(pre_save, sender="admin.LogEntry", dispatch_uid="django_mcp.integrations.admin_site.history")
def _name_client(*, instance: Any, **_: Any) -> None:
    told = _client.get()
    try:
        message = json.loads(instance.change_message)
    except ValueError:  # plain text, of older data or packages
        return
    if told and isinstance(message, list):
        instance.change_message = json.dumps([*message, {MEMBER: told}])


def client_of(entry: Any) -> str:
    """Return the name of the client in an entry of the history, or ""."""
    try:
        message = json.loads(entry.change_message)
    except ValueError:
        return ""
    if not isinstance(message, list):
        return ""
    found: Any = next((part[MEMBER] for part in message if isinstance(part, dict) and MEMBER in part), {})
    return str(found.get("client", "")) if isinstance(found, dict) else ""
