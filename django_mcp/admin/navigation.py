"""The order of this app's entries in the index and sidebar of the admin, and the number of pending approvals there.

Django sorts entries by name, and asks no ``ModelAdmin``. So ``order_app_list`` wraps ``get_app_list`` of one admin
site: entries of other apps stay as they are, and a site that overrides ``get_app_list`` keeps its order of apps.
"""

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from functools import wraps
from typing import Any

from django.contrib.admin import AdminSite
from django.db import DatabaseError, connections, router, transaction
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_mcp.admin.approval_states import pending_count
from django_mcp.models import Approval

APP = "django_mcp"
ORDER = ("Overview", "Approval", "Tools", "RequestLog", "OAuthClient", "APIKey", "Task", "Playground")
ADVANCED = ("AutoApprovalRule", "ClientPolicy", "Session")
"""Object names of the models. Those in neither list, of a later version or of the site, come after ``ORDER``."""
NAMES = {"RequestLog": gettext_lazy("Request log"), "Session": gettext_lazy("Sessions (2025-11-25 and older)")}
MAX_PENDING = 99
"""Pending approvals that are shown; more are "99+"."""


def order_app_list(site: AdminSite) -> None:
    """Arrange this app's entries in the index and sidebar of an admin site."""
    usual = site.get_app_list

    @wraps(usual)
    def get_app_list(request: HttpRequest, *args: Any, **options: Any) -> list[Any]:
        return [part for app in usual(request, *args, **options) for part in _arranged(request, app)]

    site.get_app_list = get_app_list  # type: ignore[method-assign]


def _arranged(request: HttpRequest, app: Any) -> Iterator[Any]:
    """Yield an app as it is; this one in two parts."""
    if app["app_label"] != APP:
        yield app
        return
    entries = {model["object_name"]: _named(request, model) for model in app["models"]}
    advanced = [entries.pop(name) for name in ADVANCED if name in entries]
    usual = [entries.pop(name) for name in ORDER if name in entries]
    if usual := [*usual, *entries.values()]:
        yield {**app, "models": usual}
    if advanced:
        yield {**app, "name": _("%s: advanced") % app["name"], "models": advanced}


def _named(request: HttpRequest, entry: Mapping[str, Any]) -> dict[str, Any]:
    name = str(NAMES.get(entry["object_name"], entry["name"]))
    if entry["object_name"] == "Approval" and (pending := _pending(request)):
        name = f"{name} ({pending if pending <= MAX_PENDING else f'{MAX_PENDING}+'})"
    return {**entry, "name": name}


_is_migrated = False
"""True after the first successful count of this process."""


def _pending(request: HttpRequest) -> int:
    global _is_migrated  # noqa: PLW0603 - one flag of the process
    connection = connections[router.db_for_read(Approval)]
    try:
        # An error would end the transaction of ATOMIC_REQUESTS, except within a savepoint.
        is_guarded = connection.in_atomic_block and not _is_migrated
        with transaction.atomic(using=connection.alias) if is_guarded else nullcontext():
            found = pending_count(request)
    except DatabaseError:
        # The table is missing before migrate, when the admin must open as well.
        return 0
    _is_migrated = True
    return found
