"""Callers as people read them: by the names of users and keys, as far as their kind says whose they are."""

from collections.abc import Iterable, Mapping
from typing import Any

from django.contrib.auth import get_user_model

from django_mcp.core.database import keys_of
from django_mcp.models import APIKey

Caller = tuple[str, str]
"""``Principal.kind`` and ``Principal.id``."""


def names_of(callers: Iterable[Caller]) -> Mapping[Caller, str]:
    """A name for each, with at most two queries."""
    callers = set(callers)
    of_keys = [id for kind, id in callers if kind == "api_key"]  # noqa: A001
    keys = APIKey.objects.select_related("user").in_bulk(keys_of(APIKey, of_keys))
    users = get_user_model()._default_manager.in_bulk(  # noqa: SLF001 - Django's documented API
        keys_of(get_user_model(), map(_user_of, callers))
    )
    by_id = {str(pk): key for pk, key in keys.items()}
    by_text = {str(pk): user for pk, user in users.items()}
    found: dict[Caller, str] = {}
    for caller in callers:
        kind, id = caller  # noqa: A001
        found[caller] = kind if id in {"", kind} else f"{kind} {id}"
        if kind == "api_key" and (key := by_id.get(id)) is not None:
            found[caller] = f"{key.user} ({key.name})"
        elif (user := by_text.get(_user_of(caller) or "")) is not None:
            found[caller] = str(user)
    return found


def _user_of(caller: Caller) -> str | None:
    """The primary key in the ids of those kinds that begin with one."""
    kind, id = caller  # noqa: A001
    return id.partition(":")[0] if kind in {"session", "oauth"} else None


def name_of(row: Any) -> str:
    """The caller of one row."""
    caller = row.principal_kind, row.principal_id
    return names_of([caller])[caller]


def with_names(rows: Iterable[Any]) -> None:
    """Give each row its caller's name as ``person``."""
    rows = list(rows)
    names = names_of((row.principal_kind, row.principal_id) for row in rows)
    for row in rows:
        row.person = names[row.principal_kind, row.principal_id]
