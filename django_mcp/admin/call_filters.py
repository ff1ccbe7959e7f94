"""Filters of the log of calls. None looks for its choices in the whole log."""

import datetime
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext_lazy

from django_mcp.core.server import every_server
from django_mcp.models import ToolCall

if TYPE_CHECKING:
    from django.db.models import QuerySet

RECENT = 2000
"""Newest rows in which clients and users are looked for that can be chosen."""
MOST_CHOICES = 30
METHODS = (
    "tools/call",
    "tools/list",
    "resources/read",
    "resources/list",
    "resources/templates/list",
    "prompts/get",
    "prompts/list",
)


class _ByColumn(admin.SimpleListFilter):
    """By the value of one column."""

    column: str

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:  # noqa: ARG002
        """The choices, and what was chosen."""
        found = dict(self.choices_now(request))
        chosen = self.used_parameters.get(self.parameter_name or "")
        if chosen:
            found.setdefault(str(chosen), str(chosen))
        return sorted(found.items(), key=lambda each: each[1].lower())

    def choices_now(self, request: HttpRequest) -> Iterable[tuple[str, str]]:
        """Values, and how they are shown."""
        raise NotImplementedError

    def has_output(self) -> bool:
        """Also with one choice: what is not there yet may come."""
        return bool(self.lookup_choices)

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:  # noqa: ARG002
        """Those that have it."""
        value = self.value()
        return queryset if value is None else queryset.filter(**{self.column: value})


class EndpointFilter(_ByColumn):
    """By endpoint."""

    title = gettext_lazy("endpoint")
    parameter_name = column = "server"

    def choices_now(self, request: HttpRequest) -> Iterable[tuple[str, str]]:  # noqa: ARG002
        """Those that there are."""
        return [(each.name, each.name) for each in every_server()]


class MethodFilter(_ByColumn):
    """By method."""

    title = gettext_lazy("method")
    parameter_name = column = "method"

    def choices_now(self, request: HttpRequest) -> Iterable[tuple[str, str]]:  # noqa: ARG002
        """The common ones."""
        return [(each, each) for each in METHODS]


class ToolFilter(_ByColumn):
    """By tool."""

    title = gettext_lazy("tool")
    parameter_name = column = "name"

    def choices_now(self, request: HttpRequest) -> Iterable[tuple[str, str]]:  # noqa: ARG002
        """Those that there are, of all endpoints."""
        return [(name, name) for server in every_server() for name in server.tools]


class ClientFilter(_ByColumn):
    """By client, as it calls itself."""

    title = gettext_lazy("client")
    parameter_name = column = "client_name"

    def choices_now(self, request: HttpRequest) -> Iterable[tuple[str, str]]:
        """Those of late."""
        return [(name, name) for name in _recent(request, "client_name") if name][:MOST_CHOICES]


class UserFilter(_ByColumn):
    """By user."""

    title = gettext_lazy("user")
    parameter_name = column = "user"

    def choices_now(self, request: HttpRequest) -> Iterable[tuple[str, str]]:
        """Those of late."""
        keys = [key for key in _recent(request, "user") if key is not None][:MOST_CHOICES]
        users = get_user_model()._default_manager.in_bulk(keys)  # noqa: SLF001 - Django's documented API
        return [(str(key), user.get_username()) for key, user in users.items()]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        """Theirs; none where that is no user's key."""
        try:
            return super().queryset(request, queryset)
        except (ValueError, TypeError):
            return queryset.none()


class PeriodFilter(admin.SimpleListFilter):
    """By how long ago it was."""

    title = gettext_lazy("period")
    parameter_name = "period"
    periods = (
        ("hour", gettext_lazy("the last hour"), datetime.timedelta(hours=1)),
        ("day", gettext_lazy("the last 24 hours"), datetime.timedelta(days=1)),
        ("week", gettext_lazy("the last 7 days"), datetime.timedelta(days=7)),
        ("month", gettext_lazy("the last 30 days"), datetime.timedelta(days=30)),
    )

    def lookups(self, request: HttpRequest, model_admin: Any) -> Any:  # noqa: ARG002
        """The periods."""
        return [(key, words) for key, words, _ in self.periods]

    def queryset(self, request: HttpRequest, queryset: "QuerySet[ToolCall]") -> "QuerySet[ToolCall]":  # noqa: ARG002
        """Those since then."""
        for key, _words, length in self.periods:
            if key == self.value():
                return queryset.filter(called__gte=timezone.now() - length)
        return queryset


def _recent(request: HttpRequest, column: str) -> list[Any]:
    """Values of the newest rows, the newest first; read once for a page."""
    rows: list[dict[str, Any]] | None = getattr(request, "_recent_calls", None)
    if rows is None:
        rows = [dict(each) for each in ToolCall.objects.order_by("-called").values("client_name", "user")[:RECENT]]
        request._recent_calls = rows  # type: ignore[attr-defined]  # noqa: SLF001 - of this page alone
    return list(dict.fromkeys(each[column] for each in rows))
