"""The requester's page of an approval request.

It is outside the admin, which admits only staff, but shows the call in the same way.
"""

from typing import Any

from django.contrib import admin
from django.contrib.auth.mixins import LoginRequiredMixin
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import NoReverseMatch
from django.utils.translation import gettext_lazy
from django.views import View

from django_mcp.admin.approval_cards import make_cards
from django_mcp.admin.approval_states import CANCELLED, OUTCOMES, WITHDRAWN, State, is_cancelled, outcome_of, state_of
from django_mcp.approvals.approval_requests import is_withdrawn
from django_mcp.approvals.approvers import may_decide
from django_mcp.approvals.messages import page_path
from django_mcp.core.server import server_named
from django_mcp.models import Approval
from django_mcp.oauth.consent import add_security_headers, render_page, server_title

REFRESH_SECONDS = 30
"""Seconds between reloads of the requester's page while the call is pending."""

REQUESTER_TEXTS = {
    "pending": (
        gettext_lazy("Pending approval"),
        gettext_lazy("Once it is approved, your client must repeat exactly the same call to run it."),
        gettext_lazy("Once it is approved, it continues automatically."),
    ),
    "approved": (
        gettext_lazy("Approved"),
        gettext_lazy("If it has not run yet, have your client repeat exactly the same call."),
        gettext_lazy("It continues automatically."),
    ),
    "denied": (gettext_lazy("Denied"), *[gettext_lazy("It was not run.")] * 2),
    "expired": (
        gettext_lazy("Expired"),
        *[gettext_lazy("It was not run. If your client makes the call again, it needs a new approval.")] * 2,
    ),
    "withdrawn": (
        WITHDRAWN,
        *[gettext_lazy("It was not run. Access to it was revoked, or the tool or its policy was changed.")] * 2,
    ),
    "cancelled": (CANCELLED, *[gettext_lazy("It was not run, because its task was cancelled.")] * 2),
    "started": (
        OUTCOMES["started"],
        gettext_lazy(
            "It was approved and started, and its outcome is not recorded yet. If your client stopped waiting without "
            "a result, the server may have stopped. The call may have taken effect; check before retrying."
        ),
        gettext_lazy("It was approved and is running. Your client gets the result."),
    ),
    "interrupted": (
        OUTCOMES["interrupted"],
        *[
            gettext_lazy(
                "It was approved and started, but stopped before its outcome was recorded. "
                "It may have taken effect; check before retrying."
            )
        ]
        * 2,
    ),
    "done": (OUTCOMES["done"], *[gettext_lazy("It was approved and succeeded. Your client has the result.")] * 2),
    "failed": (
        OUTCOMES["failed"],
        *[gettext_lazy("It was approved and failed. Your client has the error message.")] * 2,
    ),
}
"""Title and explanation of each state or outcome, for calls and for tasks."""


class RequesterView(LoginRequiredMixin, View):
    """The requester's page, ``/mcp/approvals/<id>/``. Redirects approvers to the admin."""

    http_method_names = ("get", "head", "options")

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return add_security_headers(super().dispatch(request, *args, **kwargs))  # type: ignore[arg-type]

    def get(self, request: HttpRequest, endpoint: str, approval_id: str) -> HttpResponse:
        """Show the call.

        Raises:
            Http404: the approval request does not exist or is another user's.
        """
        found = Approval.objects.filter(public_id=approval_id, server=endpoint).select_related("task").first()
        if found is None:
            raise Http404
        if may_decide(found, request.user) and may_open_admin(request):
            try:
                return HttpResponseRedirect(page_path(found))
            except NoReverseMatch:
                pass
        if found.user_id != request.user.pk:
            raise Http404
        (card,) = make_cards([found], request.user)
        is_pending = state_of(found) == State.PENDING
        title, text = describe_state(found)
        context = {
            "title": title,
            "text": text,
            "card": card,
            "row": found,
            "is_pending": is_pending,
            "is_notified": is_pending and found.notices.filter(delivered__isnull=False).exists(),
            "refresh_seconds": REFRESH_SECONDS,
            "endpoint_title": endpoint if (server := server_named(endpoint)) is None else server_title(server),
        }
        return render_page(request, "approvals/requester.html", context)


def may_open_admin(request: HttpRequest) -> bool:
    try:
        return admin.site.has_permission(request)
    except AttributeError:
        # The admin's pages fail for users without is_staff.
        return False


def describe_state(row: Approval) -> tuple[str, str]:
    state: str = state_of(row)
    if state == State.CONSUMED:
        state = outcome_of(row)
    elif is_withdrawn(row):
        state = "withdrawn"
    elif is_cancelled(row):
        state = "cancelled"
    title, text, text_of_task = REQUESTER_TEXTS[state]
    return str(title), str(text if row.task_id is None else text_of_task)
