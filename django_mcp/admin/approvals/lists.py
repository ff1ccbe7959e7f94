"""The list: calls that wait, and below them what became of others. Search and filters are for both."""

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy

from django_mcp.admin.approvals.cards import RUNS, Card, cards, has_ended, ran, waits
from django_mcp.models import OVER, Approval

if TYPE_CHECKING:
    _Rows = QuerySet[Approval]
else:
    _Rows = QuerySet

State = Approval.State
MOST = 50
"""Cards on one page."""


class ApprovalList(ChangeList):
    """Rows are those that wait no longer.

    Attributes:
        waiting: the others, the newest first.
    """

    waiting: _Rows

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> _Rows:
        """Both, told apart."""
        found = super().get_queryset(request, exclude_parameters)
        if exclude_parameters is None:  # else it is only counted
            self.waiting = found.filter(waits()).order_by("-pk")
        return found.filter(has_ended()).defer("arguments", "preview", "parts")

    def get_results(self, request: HttpRequest) -> None:
        """With the names of callers."""
        super().get_results(request)
        for each in cards(self.result_list, request.user):
            each.row.person = each.person  # type: ignore[attr-defined]

    def cards(self, user: Any) -> tuple[list[Card], int]:
        """Of those that wait, and how many there are."""
        rows = list(self.waiting.select_related("user", "task")[: MOST + 1])
        return cards(rows[:MOST], user), len(rows) if len(rows) <= MOST else self.waiting.count()


class WaitingList(ApprovalList):
    """Without the others, for those who look every other second."""

    def get_results(self, request: HttpRequest) -> None:  # noqa: ARG002
        """None."""
        self.result_count = self.full_result_count = 0
        self.result_list = self.root_queryset.none()
        self.can_show_all, self.multi_page = True, False


class StateFilter(admin.SimpleListFilter):
    """By what became of it; what is good no longer has expired, whether or not anybody has noticed."""

    title = gettext_lazy("state")
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Any:  # noqa: ARG002
        """Every state, in the words of the list; of used tickets what became of the run."""
        states = [(value, capfirst(label)) for value, label in State.choices if value != State.CONSUMED]
        return [*states, *RUNS.items()]

    def queryset(self, request: HttpRequest, queryset: _Rows) -> _Rows | None:  # noqa: ARG002
        """Rows in the chosen one."""
        now = timezone.now()
        match self.value():
            case State.PENDING:
                return queryset.filter(waits())
            case State.APPROVED:
                return queryset.filter(state=State.APPROVED, expires__gt=now)
            case State.EXPIRED:
                is_old = Q(state__in=[State.PENDING, State.APPROVED], expires__lte=now)
                is_unwanted = Q(state=State.PENDING, task__status__in=OVER)
                return queryset.filter(Q(state=State.EXPIRED) | is_old | is_unwanted)
            case State.DENIED | State.CONSUMED as state:
                return queryset.filter(state=state)
            case str(run) if run in RUNS:
                return queryset.filter(ran(run))
        return None
