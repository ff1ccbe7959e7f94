"""Filters of the request log."""

import datetime
from collections.abc import Iterable, Iterator
from typing import Any

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.auth import get_user_model
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import formats, timezone
from django.utils.dateparse import parse_date, parse_datetime
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_mcp.audit.outcomes import FILTERS
from django_mcp.core.database import keys_of
from django_mcp.core.principal import display_name
from django_mcp.core.server import every_server
from django_mcp.models import RequestLog

RECENT = 2000
"""Newest rows in which clients and users to choose from are looked for."""
MAX_CHOICES = 30
METHODS = (
    "tools/call",
    "tools/list",
    "resources/read",
    "resources/list",
    "resources/templates/list",
    "prompts/get",
    "prompts/list",
)


class _ColumnFilter(admin.SimpleListFilter):
    """Filter by the value of one column."""

    column: str

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:  # noqa: ARG002
        # The chosen value stays, even if it is not among the choices.
        found = dict(self.choices_now(request))
        chosen = self.used_parameters.get(self.parameter_name or "")
        if chosen:
            found.setdefault(str(chosen), str(chosen))
        return sorted(found.items(), key=lambda choice: choice[1].lower())

    def choices_now(self, request: HttpRequest) -> Iterable[tuple[str, str]]:
        raise NotImplementedError

    def has_output(self) -> bool:
        # With one choice too: the next request may bring another.
        return bool(self.lookup_choices)

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:  # noqa: ARG002
        value = self.value()
        return queryset if value is None else queryset.filter(**{self.column: value})


class EndpointFilter(_ColumnFilter):
    """Filter by endpoint."""

    title = gettext_lazy("endpoint")
    parameter_name = column = "server"

    def choices_now(self, request: HttpRequest) -> Iterable[tuple[str, str]]:  # noqa: ARG002
        return [(endpoint.name, endpoint.name) for endpoint in every_server()]


class MethodFilter(_ColumnFilter):
    """Filter by method."""

    title = gettext_lazy("method")
    parameter_name = column = "method"

    def choices_now(self, request: HttpRequest) -> Iterable[tuple[str, str]]:  # noqa: ARG002
        return [(method, method) for method in METHODS]


class ToolFilter(_ColumnFilter):
    """Filter by tool."""

    title = gettext_lazy("tool")
    parameter_name = column = "name"

    def choices_now(self, request: HttpRequest) -> Iterable[tuple[str, str]]:  # noqa: ARG002
        return [(name, name) for server in every_server() for name in server.tools]


class _RecentFilter(_ColumnFilter):
    """Base of filters whose choices are those of the newest rows."""

    def recent_values(self, request: HttpRequest) -> list[Any]:
        # Read once for a page, for all of these filters.
        rows: list[dict[str, Any]] | None = getattr(request, "_recent_requests", None)
        if rows is None:
            columns = [kind.column for kind in _RecentFilter.__subclasses__()]
            rows = [dict(row) for row in RequestLog.objects.order_by("-started_at").values(*columns)[:RECENT]]
            request._recent_requests = rows  # type: ignore[attr-defined]  # noqa: SLF001 - of this page alone
        return list(dict.fromkeys(row[self.column] for row in rows))


class ClientFilter(_RecentFilter):
    """Filter by the self-reported name of the client."""

    title = gettext_lazy("client")
    parameter_name = column = "client_name"

    def choices_now(self, request: HttpRequest) -> Iterable[tuple[str, str]]:
        return [(name, name) for name in self.recent_values(request) if name][:MAX_CHOICES]


class UserFilter(_RecentFilter):
    """Filter by user."""

    title = gettext_lazy("user")
    parameter_name = column = "user"

    def choices_now(self, request: HttpRequest) -> Iterable[tuple[str, str]]:
        keys = [key for key in self.recent_values(request) if key is not None][:MAX_CHOICES]
        users = get_user_model()._default_manager.in_bulk(keys)  # noqa: SLF001 - Django's documented API
        return [(str(key), display_name(user)) for key, user in users.items()]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:  # noqa: ARG002
        # No rows if the value is no key of a user.
        value = self.value()
        return queryset if value is None else queryset.filter(user__in=keys_of(get_user_model(), [value]))


class OutcomeFilter(admin.SimpleListFilter):
    """Filter by outcome; errors and crashes together are "failed"."""

    title = gettext_lazy("outcome")
    parameter_name = "outcome"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Any:  # noqa: ARG002
        return [*((value, group.label) for value, group in FILTERS.items()), *RequestLog.Outcome.choices]

    def queryset(self, request: HttpRequest, queryset: QuerySet[RequestLog]) -> QuerySet[RequestLog]:  # noqa: ARG002
        value = self.value()
        if value is None:
            return queryset
        return queryset.filter(outcome__in=FILTERS[value].outcomes if value in FILTERS else [value])


class PeriodFilter(admin.ListFilter):
    """Filter by a period that ends now, or by a span: ``since`` and ``until``, dates or times in ISO 8601.

    A time without an offset is one of the current time zone. ``until`` is exclusive; a date includes its day.
    """

    title = gettext_lazy("period")
    parameter_name = "period"
    span = ("since", "until")
    periods = (
        ("hour", gettext_lazy("last hour"), datetime.timedelta(hours=1)),
        ("day", gettext_lazy("last 24 hours"), datetime.timedelta(days=1)),
        ("week", gettext_lazy("last 7 days"), datetime.timedelta(days=7)),
        ("month", gettext_lazy("last 30 days"), datetime.timedelta(days=30)),
        ("quarter", gettext_lazy("last 90 days"), datetime.timedelta(days=90)),
    )

    def __init__(self, request: HttpRequest, params: dict[str, Any], model: Any, model_admin: Any) -> None:
        super().__init__(request, params, model, model_admin)
        for name in (self.parameter_name, *self.span):
            if name in params and (value := params.pop(name)[-1]):
                self.used_parameters[name] = value
        self.since, self.until = self._moment("since"), self._moment("until")

    def _moment(self, name: str) -> datetime.datetime | None:
        """Return the time of a parameter.

        Raises:
            IncorrectLookupParameters: it is neither a date nor a time.
        """
        text: str = self.used_parameters.get(name, "")  # type: ignore[assignment]
        if not text:
            return None
        try:
            day = parse_date(text)
            found = parse_datetime(text) if day is None else datetime.datetime.combine(day, datetime.time())
            if found is None:
                raise IncorrectLookupParameters(f"{name} is not a date or time in ISO 8601")
            if day is not None and name == "until":
                found += datetime.timedelta(days=1)
            found = _stored(found)
            localtime(found)  # a time at the edge of the calendar has no local time
        except (ValueError, OverflowError) as error:
            raise IncorrectLookupParameters(str(error)) from None
        return found

    def expected_parameters(self) -> list[str | None]:
        return [self.parameter_name, *self.span]

    def has_output(self) -> bool:
        return True

    def choices(self, changelist: Any) -> Iterator[dict[str, Any]]:
        chosen = "" if self.words else self.used_parameters.get(self.parameter_name, "")
        query = changelist.get_query_string
        yield {
            "selected": not chosen and not self.words,
            "query_string": query(remove=[self.parameter_name, *self.span]),
            "display": _("All"),
        }
        today = timezone.localdate() if timezone.is_aware(timezone.now()) else datetime.datetime.now().date()  # noqa: DTZ005
        for named, back in ((_("today"), 0), (_("yesterday"), 1)):
            day = str(today - datetime.timedelta(days=back))
            yield {
                "selected": self.days == {"since": day, "until": day},
                "query_string": query({"since": day, "until": day}, [self.parameter_name]),
                "display": named,
            }
        for key, words, _length in self.periods:
            yield {
                "selected": key == chosen,
                "query_string": query({self.parameter_name: key}, [*self.span]),
                "display": words,
            }

    @property
    def words(self) -> str:
        ends = [_shown(end) for end in (self.since, self.until)]
        if all(ends):
            return " – ".join(ends)
        return _("since %s") % ends[0] if ends[0] else _("until %s") % ends[1] if ends[1] else ""

    @property
    def days(self) -> dict[str, str]:
        last = self.until and self.until - datetime.timedelta(microseconds=1)
        return {
            name: "" if at is None else f"{localtime(at):%Y-%m-%d}"
            for name, at in (("since", self.since), ("until", last))
        }

    def queryset(self, request: HttpRequest, queryset: QuerySet[RequestLog]) -> QuerySet[RequestLog]:  # noqa: ARG002
        if self.since is not None:
            queryset = queryset.filter(started_at__gte=self.since)
        if self.until is not None:
            queryset = queryset.filter(started_at__lt=self.until)
        for key, _words, length in self.periods:
            if not self.words and key == self.used_parameters.get(self.parameter_name):
                return queryset.filter(started_at__gte=timezone.now() - length)
        return queryset


def _stored(at: datetime.datetime) -> datetime.datetime:
    if timezone.is_aware(at):
        return at if timezone.is_aware(timezone.now()) else timezone.make_naive(at)
    return timezone.make_aware(at) if timezone.is_aware(timezone.now()) else at


def _shown(at: datetime.datetime | None) -> str:
    return "" if at is None else str(formats.date_format(localtime(at), "DATETIME_FORMAT"))


def localtime(moment: datetime.datetime) -> datetime.datetime:
    return timezone.localtime(moment) if timezone.is_aware(moment) else moment
