"""Sessions in the admin: which clients are connected in whose name; and to end one."""

from typing import Any

from django.contrib import admin
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy, ngettext_lazy

from django_mcp.admin.base import StoppableAdmin
from django_mcp.admin.display import as_json, as_text, name_of, with_names
from django_mcp.models import Call, Session
from django_mcp.revisions.legacy.sessions import end_session


class SessionAdmin(StoppableAdmin):
    """Sessions, the newest first. Clients of the newest protocol have none."""

    stop_title = gettext_lazy("End session")
    stop_question = gettext_lazy(
        "End the session “%s”? Its streams are closed and its calls forgotten. The client may open a new one, as long "
        "as its credential is good."
    )
    stop_answer = gettext_lazy("Yes, end it")
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
        """With the calls that are not over."""
        unfinished = Count("calls", filter=~Q(calls__status=Call.Status.ENDED))
        found: QuerySet[Session] = super().get_queryset(request).annotate(unfinished=unfinished)
        return found

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """A page of rows, with the names of their callers."""
        page = super().get_changelist_instance(request)
        with_names(page.result_list)
        return page

    def can_stop(self, row: Session) -> bool:  # noqa: ARG002
        """As long as it is there."""
        return True

    def stop(self, row: Session) -> bool:
        """End it, in every process."""
        if not Session.objects.filter(pk=row.pk).exists():
            return False
        end_session(row)
        return True

    @admin.display(description=gettext_lazy("client"))
    def client_name(self, row: Session) -> str:
        """As it says of itself."""
        return " ".join(str(row.client[key]) for key in ("name", "version") if row.client.get(key)) or "–"

    @admin.display(description=gettext_lazy("caller"), ordering="principal_id")
    def caller_name(self, row: Session) -> str:
        """Who opened it."""
        person: str | None = vars(row).get("person")
        return name_of(row) if person is None else person

    @admin.display(description=gettext_lazy("calls under way"), ordering="unfinished")
    def open_calls(self, row: Any) -> int:
        """Those that run, or wait for the client."""
        count: int = row.unfinished
        return count

    @admin.display(description=gettext_lazy("declared"))
    def declared(self, row: Session) -> SafeString:
        """What the client says it can do."""
        return as_json(row.capabilities)

    @admin.display(description=gettext_lazy("subscribed to"))
    def subscribed(self, row: Session) -> SafeString | str:
        """Resources of whose changes it hears."""
        return as_text("\n".join(row.subscriptions)) if row.subscriptions else "–"
