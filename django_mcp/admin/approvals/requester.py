"""The requester's page: the user who made a call sees what becomes of it. ``django_mcp.urls`` serves it.

It is no page of the admin, which lets only staff in, but shows the call as the admin's page does.
"""

from typing import Any

from django.contrib.auth.mixins import LoginRequiredMixin
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import NoReverseMatch
from django.utils.translation import gettext_lazy as _
from django.views import View

from django_mcp.admin.approvals.cards import RUNS, cards, run_of, state_of
from django_mcp.approvals.decisions import may_decide
from django_mcp.approvals.messages import page_path
from django_mcp.core.server import servers
from django_mcp.models import Approval
from django_mcp.oauth.consent import page, protect, title_of

State = Approval.State
REFRESH_SECONDS = 30
"""After which the page is loaded anew while the call waits."""

STATES = {
    "pending": (
        _("Waiting for approval"),
        _("Once it is approved, your client has to make exactly the same call again, and it runs."),
        _("Once it is approved, it goes on by itself."),
    ),
    "approved": (
        _("Approved"),
        _("If it has not run yet, let your client make exactly the same call again."),
        _("It goes on by itself."),
    ),
    "denied": (_("Denied"), *[_("It was not run.")] * 2),
    "expired": (
        _("Expired"),
        *[_("It was not run. If your client makes the call again, it needs a new approval.")] * 2,
    ),
    "started": (
        RUNS["started"],
        _(
            "It was approved and began, and what came of it is not noted yet. If your client waits no longer and has "
            "no result, the server may have stopped. Check what the call did before you make it again."
        ),
        _("It was approved and runs. Your client gets the result."),
    ),
    "interrupted": (
        RUNS["interrupted"],
        *[
            _(
                "It was approved and began, and ended before its outcome was noted. "
                "Check what it did before you repeat it."
            )
        ]
        * 2,
    ),
    "done": (RUNS["done"], *[_("It was approved and has run. Your client has the result.")] * 2),
    "failed": (RUNS["failed"], *[_("It was approved, and ended with an error. Your client has the message.")] * 2),
}
"""For each state, with those of the run of an approved call: a title, and a sentence for a call and for a task."""


class RequesterView(LoginRequiredMixin, View):
    """``/mcp/approvals/<ticket>/``: one call, for its user. Approvers are redirected to the page in the admin."""

    http_method_names = ("get", "head", "options")

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Add the headers of the package's pages."""
        return protect(super().dispatch(request, *args, **kwargs))  # type: ignore[arg-type]

    def get(self, request: HttpRequest, endpoint: str, ticket: str) -> HttpResponse:
        """Show the call.

        Raises:
            Http404: there is no such ticket, or it is another user's.
        """
        found = Approval.objects.filter(ticket=ticket, server=endpoint).select_related("task").first()
        if found is None:
            raise Http404
        if may_decide(found, request.user) and getattr(request.user, "is_staff", True):
            try:
                return HttpResponseRedirect(page_path(found))
            except NoReverseMatch:
                pass
        if found.user_id != request.user.pk:
            raise Http404
        (card,) = cards([found], request.user)
        is_waiting = state_of(found) == State.PENDING
        title, text = describe(found)
        context = {
            "title": title,
            "text": text,
            "card": card,
            "row": found,
            "is_waiting": is_waiting,
            "is_notified": is_waiting and found.notices.filter(delivered__isnull=False).exists(),
            "refresh_seconds": REFRESH_SECONDS,
            "endpoint_title": next((title_of(each) for each in servers() if each.name == endpoint), endpoint),
        }
        return page(request, "approvals/requester.html", context)


def describe(row: Approval) -> tuple[str, str]:
    """Return a title and a sentence: what the user who made a call may know of its state, and what follows from it."""
    state: str = state_of(row)
    if state == State.CONSUMED:
        state = run_of(row)
    title, text, text_of_task = STATES[state]
    return str(title), str(text if row.task_id is None else text_of_task)
