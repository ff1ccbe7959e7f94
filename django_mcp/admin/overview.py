"""The log of calls as one page of numbers and plots, over a chosen time."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.core.cache import cache
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import NoReverseMatch, path, reverse
from django.utils import timezone
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy

from django_mcp.admin.bins import DAY, edges_of
from django_mcp.admin.figures import count, duration, figures, share
from django_mcp.admin.read_only import ReadOnlyAdmin
from django_mcp.admin.statistics import Activity, activity
from django_mcp.core.server import servers
from django_mcp.models import Approval


@dataclass(frozen=True)
class Period:
    """A time to look back at.

    Attributes:
        name: in the address.
        words: in the page.
        bins: into how many pieces it is cut.
        seconds: how long one is.
        kept: for how many seconds the numbers are not added up again.
    """

    name: str
    words: Any
    bins: int
    seconds: int
    kept: int


PERIODS = (
    Period("hour", gettext_lazy("last hour"), 60, 60, 5),
    Period("day", gettext_lazy("24 hours"), 48, 1800, 60),
    Period("week", gettext_lazy("7 days"), 28, 6 * 3600, 60),
    Period("month", gettext_lazy("30 days"), 30, DAY, 300),
    Period("quarter", gettext_lazy("90 days"), 90, DAY, 600),
)
USUAL = PERIODS[1]


class OverviewAdmin(ReadOnlyAdmin):
    """One page for whoever may see calls."""

    def get_urls(self) -> list[Any]:
        """The page, under its own name and under that by which admin sites link models."""
        view = self.admin_site.admin_view(self.overview_view)
        return [path("", view, name=name) for name in ("django_mcp_overview_changelist", "django_mcp_overview")]

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        """The permission is that of the log."""
        return request.user.has_perm("django_mcp.view_toolcall")

    has_module_permission = has_view_permission

    def overview_view(self, request: HttpRequest) -> HttpResponse:
        """The page.

        Raises:
            PermissionDenied: they may not see calls.
        """
        if not self.has_view_permission(request):
            raise PermissionDenied
        request.current_app = self.admin_site.name
        period = next((each for each in PERIODS if each.name == request.GET.get("period")), USUAL)
        server = request.GET.get("endpoint", "")
        server = server if server in {each.name for each in servers()} else ""
        found, then = _kept(period, server)
        context = {
            **self.admin_site.each_context(request),
            "title": capfirst(self.opts.verbose_name_plural),
            "opts": self.opts,
            "period": period,
            "then": then,
            "periods": [(each.words, _query(each, server), each is period) for each in PERIODS],
            "endpoints": _endpoints(period, server),
            "facts": _facts(found),
            "waiting": self._waiting(request),
            "figures": figures(found, period.seconds) if found.total.calls else [],
        }
        return TemplateResponse(request, "admin/django_mcp/overview.html", context)

    def _waiting(self, request: HttpRequest) -> tuple[str, str]:
        """How many calls wait now, and where to decide about them, for those who may go there."""
        now = timezone.now()
        waiting = Approval.objects.filter(state=Approval.State.PENDING, expires__gt=now).count()
        may = any(request.user.has_perm(f"django_mcp.{each}") for each in ("view_approval", "approve_toolcall"))
        try:
            address = reverse("admin:django_mcp_approval_changelist", current_app=self.admin_site.name) if may else ""
        except NoReverseMatch:  # a site that took the page out
            address = ""
        return count(waiting), address


def _kept(period: Period, server: str) -> tuple[Activity, datetime]:
    """What went on, and when that was looked up: not again for some time, since it takes seconds of a long log."""
    key = f"django_mcp:overview:{period.name}:{server}:{timezone.get_current_timezone_name()}"
    kept: tuple[Activity, datetime] | None = cache.get(key)
    if kept is None:
        kept = activity(edges_of(period.bins, period.seconds), server), timezone.now()
        cache.set(key, kept, period.kept)
    return kept


def _query(period: Period, server: str) -> str:
    return "?" + urlencode({"period": period.name, **({"endpoint": server} if server else {})})


def _endpoints(period: Period, chosen: str) -> list[tuple[str, str, bool]]:
    """Each endpoint to choose; none where there is no choice."""
    names = [each.name for each in servers()]
    every = (str(gettext_lazy("all")), _query(period, ""), not chosen)
    return [every, *((name, _query(period, name), name == chosen) for name in names)] if len(names) > 1 else []


def _facts(found: Activity) -> list[tuple[Any, str, str]]:
    """Numbers for the top of the page, some with their share."""
    total = found.total
    errors, refused = total.groups["error"], total.groups["refused"]
    return [
        (gettext_lazy("calls"), count(total.calls), ""),
        (gettext_lazy("errors"), count(errors), share(errors / total.calls) if errors else ""),
        (gettext_lazy("refusals"), count(refused), share(refused / total.calls) if refused else ""),
        (gettext_lazy("median duration"), duration(total.median), ""),
        (gettext_lazy("95th percentile"), duration(total.p95), ""),
    ]
