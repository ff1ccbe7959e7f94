"""The history of a row, as the admin's history page has it, and the name of the client in what it writes."""

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from django.contrib.admin.utils import quote
from django.db import models
from django.db.models.signals import post_init, pre_save
from django.dispatch import receiver
from django.utils.translation import gettext

from django_mcp.conf import settings
from django_mcp.core.context import Context
from django_mcp.core.redaction import one_line
from django_mcp.core.request import History
from django_mcp.integrations.admin_site.texts import plain
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
    return {**told, **call_of(entry)}


# The call in the entries that it writes

MEMBER = "mcp"
"""Member of an entry's message, which Django ignores."""
MAX_NAME = 60
"""Characters of a client's name, which the client chooses."""


@dataclass
class _Call:
    client: str
    id: str
    entries: list[Any]

    @property
    def member(self) -> dict[str, Any]:
        named = {"client": self.client} if self.client else {}
        return {MEMBER: {**named, "request": self.id}}


_current: ContextVar[_Call | None] = ContextVar("django_mcp_admin_call", default=None)


@contextmanager
def naming_client(ctx: Context) -> Iterator[None]:
    """Have the entries written in the block name the client and the call, and the call's log entry name them."""
    name = one_line(ctx.client.title or ctx.client.name or "", MAX_NAME)
    call = _Call(name, secrets.token_hex(8), [])
    token = _current.set(call)
    try:
        yield
    finally:
        _current.reset(token)
    # A bulk insert tells no keys on databases that cannot return them.
    if keys := [str(entry.pk) for entry in call.entries if entry.pk is not None]:
        ctx.history = History(call.id, keys)


# When it is made, as Django inserts the entries of several rows in bulk, which sends no other signal; and when it is
# saved, for a message that was set in between.
@receiver(post_init, sender="admin.LogEntry", dispatch_uid="django_mcp.integrations.admin_site.history.made")
@receiver(pre_save, sender="admin.LogEntry", dispatch_uid="django_mcp.integrations.admin_site.history.saved")
def _name_call(*, instance: Any, **_: Any) -> None:
    call = _current.get()
    if call is None or instance.pk is not None:  # one that was read
        return
    if not any(entry is instance for entry in call.entries):
        call.entries.append(instance)
    message = _parts(instance)
    if message is None or call.member in message:  # plain text of a package, or named already
        return
    if settings.NAME_CLIENT_IN_HISTORY and call.client:
        # As text, since the admin's own page ignores what it does not know.
        instance.change_message = json.dumps(message)  # a deletion has none
        words = gettext("By %(client)s.") % {"client": call.client}
        instance.change_message = f"{instance.get_change_message()} {words}".strip()
    else:
        instance.change_message = json.dumps([*message, call.member])


def _parts(entry: Any) -> list[Any] | None:
    """Return the parts of an entry's message, or None if it is plain text."""
    if not entry.change_message and entry.is_deletion():
        from django.contrib.contenttypes.models import ContentType  # noqa: PLC0415 - needs the app

        # Django has no message for it, and would show one without known parts as "No fields changed."
        kind = None if entry.content_type_id is None else ContentType.objects.get_for_id(entry.content_type_id)
        model = None if kind is None else kind.model_class()
        name = str(kind if model is None else model._meta.verbose_name)  # noqa: SLF001 - documented
        return [{"deleted": {"name": name, "object": entry.object_repr}}]
    try:
        message = json.loads(entry.change_message)
    except ValueError:
        return None
    return message if isinstance(message, list) else None


def call_of(entry: Any) -> dict[str, str]:
    """Return ``client`` and ``request`` of the call that wrote an entry of the history, as far as it has them."""
    parts = _parts(entry) or []
    found: Any = next((part[MEMBER] for part in parts if isinstance(part, dict) and MEMBER in part), None)
    named = found if isinstance(found, dict) else {}
    return {name: str(named[name]) for name in ("client", "request") if named.get(name)}
