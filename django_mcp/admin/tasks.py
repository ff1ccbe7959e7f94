"""Tasks in the admin: who asked for what, how far it is, what came of it; and to stop it."""

from typing import Any

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext_lazy, ngettext_lazy

from django_mcp.admin.base import StoppableAdmin
from django_mcp.admin.display import as_json, name_of
from django_mcp.core.redaction import redacted
from django_mcp.core.server import every_server
from django_mcp.models import Task
from django_mcp.tasks import store
from django_mcp.tasks.extension import status_message
from django_mcp.tasks.worker import keeper


class TaskAdmin(StoppableAdmin):
    """Tasks, the newest first."""

    stop_title = gettext_lazy("Cancel task")
    stop_question = gettext_lazy(
        "Cancel the task “%s”? Its client is told. Whatever runs it stops where it next tells how far it is or asks "
        "something; what it wrote in its own transaction is rolled back."
    )
    stop_answer = gettext_lazy("Yes, cancel it")
    stopped_one = gettext_lazy("The task “%s” is cancelled.")
    stopped_none = gettext_lazy("The task “%s” had already ended.")
    stopped_many = ngettext_lazy("%d task is cancelled.", "%d tasks are cancelled.")

    note = gettext_lazy("Cancelled.")

    list_display = ("tool", "caller_name", "client_name", "status", "in_short", "updated")
    list_filter = ("status", "server", "tool", "created")
    list_select_related = ("user",)
    show_full_result_count = False
    ordering = ("-pk",)
    fieldsets = (
        (None, {"fields": ("tool", "server", "caller_name", "client_name", "arguments")}),
        (gettext_lazy("State"), {"fields": ("status", "said", "asked", "outcome")}),
        (gettext_lazy("Times"), {"fields": ("created", "updated", "expires")}),
        (gettext_lazy("Where it runs"), {"fields": ("task_id", "backend", "attempts", "worker", "lease")}),
    )

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:  # noqa: ARG002
        """All of it."""
        return [name for _, part in self.fieldsets for name in part["fields"]]

    def get_search_fields(self, request: HttpRequest) -> tuple[str, ...]:  # noqa: ARG002
        """The user model may have another name for names."""
        return ("task_id", "tool", "principal_id", f"user__{get_user_model().USERNAME_FIELD}")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Task]:
        """Without what a list does not show, and which may be large."""
        found: QuerySet[Task] = super().get_queryset(request)
        match = request.resolver_match
        return found if match is None or "object_id" in match.kwargs else found.defer("result", "request", "dialogue")

    def can_stop(self, row: Task) -> bool:
        """Whether it is under way."""
        return not row.is_over

    def stop(self, row: Task) -> bool:
        """Cancel it, wherever it runs."""
        if row.is_over:
            return False
        # What runs here goes first: on SQLite its transaction may hold the lock that the row needs.
        keeper.cancel(row.task_id)
        return store.cancel(row)

    @admin.display(description=gettext_lazy("caller"), ordering="user")
    def caller_name(self, row: Task) -> str:
        """Who asked for it."""
        return name_of(row) if row.user is None else str(row.user)

    @admin.display(description=gettext_lazy("client"))
    def client_name(self, row: Task) -> str:
        """Through what, as that says of itself."""
        client = row.client or {}
        return " ".join(filter(None, (client.get("title") or client.get("name"), client.get("version")))) or "–"

    @admin.display(description=gettext_lazy("says"))
    def said(self, row: Task) -> str:
        """Its last word, and how far it is."""
        return status_message(row) or "–"

    @admin.display(description=gettext_lazy("says"))
    def in_short(self, row: Task) -> str:
        """The beginning of that."""
        return Truncator(self.said(row)).chars(60)

    @admin.display(description=gettext_lazy("arguments"))
    def arguments(self, row: Task) -> SafeString:
        """As they were sent, without secrets."""
        server = next((each for each in every_server() if each.name == row.server), None)
        tool = None if server is None else server.tools.get(row.tool)
        given = row.request["params"].get("arguments") or {}
        return as_json(redacted(tool, given, longest=None, whole=None))

    @admin.display(description=gettext_lazy("waits for"))
    def asked(self, row: Task) -> SafeString | str:
        """The questions that have no answer yet."""
        questions = {each.key: each.request for each in store.questions(row)}
        return as_json(questions) if questions and not row.is_over else "–"

    @admin.display(description=gettext_lazy("outcome"))
    def outcome(self, row: Task) -> SafeString | str:
        """Result or error, as the client reads it."""
        value = row.error if row.result is None else row.result
        return "–" if value is None else as_json(value)
