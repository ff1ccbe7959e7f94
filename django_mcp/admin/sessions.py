"""Admin of sessions: list and ending."""

from typing import Any

from django.contrib import admin
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy, ngettext_lazy

from django_mcp.admin.base import ReadOnlyStoppableAdmin
from django_mcp.admin.display import NOTHING, as_json, as_text, name_of, with_names
from django_mcp.models import Call, Session
from django_mcp.revisions.legacy.sessions import end_session


class SessionAdmin(ReadOnlyStoppableAdmin):
    """Lists sessions of legacy clients, newest first."""

    acts_with = "change_session"
    nothing_yet = gettext_lazy(
        "No sessions. Clients of protocol 2025-11-25 and older open one when they connect; newer ones need none."
    )
    stop_title = ngettext_lazy("End session", "End sessions")
    stop_question = gettext_lazy(
        "End the session “%s”? Its streams are closed and its calls are discarded. The client may open a new session "
        "while its credential is valid."
    )
    stop_many_question = ngettext_lazy(
        "End %d session? Its streams are closed and its calls are discarded. The client may open a new session while "
        "its credential is valid.",
        "End %d sessions? Their streams are closed and their calls are discarded. The clients may open new sessions "
        "while their credentials are valid.",
    )
    stop_answer = ngettext_lazy("Yes, end it", "Yes, end them")
    stopped_one = gettext_lazy("The session “%s” has ended.")
    stopped_none = gettext_lazy("The session “%s” has already ended.")
    stopped_many = ngettext_lazy("%d session has ended.", "%d sessions have ended.")

    note = gettext_lazy("Ended.")

    list_display = ("client_name", "version", "caller_name", "open_calls", "created")
    list_filter = ("server", "version", "principal_kind", "created")
    search_fields = ("principal_id", "client")
    show_full_result_count = False
    ordering = ("-pk",)
    fields = (
        "client_name",
        "version",
        "server",
        "caller_name",
        "open_calls",
        "declared",
        "log_level",
        "subscribed",
        "created",
        "expires",
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Session]:
        unfinished = Count("calls", filter=~Q(calls__status=Call.Status.ENDED))
        found: QuerySet[Session] = super().get_queryset(request).annotate(unfinished=unfinished)
        return found

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        page = super().get_changelist_instance(request)
        with_names(page.result_list)
        return page

    def can_stop(self, row: Session) -> bool:  # noqa: ARG002
        return True

    def stop(self, row: Session) -> bool:
        if not Session.objects.filter(pk=row.pk).exists():
            return False
        end_session(row)
        return True

    @admin.action(description=gettext_lazy("End selected sessions"), permissions=["change"])
    def stop_selected(self, request: HttpRequest, queryset: QuerySet[Session]) -> HttpResponse | None:
        return self.stop_all(request, queryset)

    @admin.display(description=gettext_lazy("client"))
    def client_name(self, row: Session) -> str:
        return " ".join(str(row.client[key]) for key in ("name", "version") if row.client.get(key)) or NOTHING

    @admin.display(description=gettext_lazy("caller"), ordering="principal_id")
    def caller_name(self, row: Session) -> str:
        person: str | None = vars(row).get("person")
        return name_of(row) if person is None else person

    @admin.display(description=gettext_lazy("active calls"), ordering="unfinished")
    def open_calls(self, row: Any) -> int:
        count: int = row.unfinished
        return count

    @admin.display(description=gettext_lazy("client capabilities"))
    def declared(self, row: Session) -> SafeString:
        return as_json(row.capabilities)

    @admin.display(description=gettext_lazy("subscriptions"))
    def subscribed(self, row: Session) -> SafeString | str:
        return as_text("\n".join(row.subscriptions)) if row.subscriptions else NOTHING
