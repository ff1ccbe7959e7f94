"""Admin of tasks: list, progress, result and cancellation."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext_lazy, ngettext_lazy

from django_mcp.admin.base import ReadOnlyStoppableAdmin, user_lookups
from django_mcp.admin.display import NOTHING, as_json, line, name_of, without_view
from django_mcp.core.principal import display_name
from django_mcp.core.redaction import redacted
from django_mcp.core.server import server_named
from django_mcp.models import Task
from django_mcp.tasks import store
from django_mcp.tasks.extension import status_message
from django_mcp.tasks.worker import heartbeat


class TaskAdmin(ReadOnlyStoppableAdmin):
    """Lists tasks, newest first."""

    acts_with = "change_task"
    nothing_yet = gettext_lazy("No tasks. A tool declared with task= runs as one if its client supports tasks.")
    stop_title = ngettext_lazy("Cancel task", "Cancel tasks")
    stop_question = gettext_lazy(
        "Cancel the task “%s”? Its client is notified. A running task stops when it next reports progress or requests "
        "input, and its transaction is rolled back."
    )
    stop_many_question = ngettext_lazy(
        "Cancel %d task? Its client is notified. A running task stops when it next reports progress or requests input, "
        "and its transaction is rolled back.",
        "Cancel %d tasks? Their clients are notified. A running task stops when it next reports progress or requests "
        "input, and its transaction is rolled back.",
    )
    stop_answer = ngettext_lazy("Yes, cancel it", "Yes, cancel them")
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
        (gettext_lazy("State"), {"fields": ("status", "status_words", "asked", "outcome")}),
        (gettext_lazy("Times"), {"fields": ("created", "updated", "expires")}),
        (gettext_lazy("Execution"), {"fields": ("task_id", "backend", "attempts", "worker", "lease")}),
    )

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:  # noqa: ARG002
        return [name for _, part in self.fieldsets for name in part["fields"]]

    def get_search_fields(self, request: HttpRequest) -> tuple[str, ...]:  # noqa: ARG002
        return ("task_id", "tool", "principal_id", *user_lookups())

    def get_queryset(self, request: HttpRequest) -> QuerySet[Task]:
        found: QuerySet[Task] = super().get_queryset(request)
        match = request.resolver_match
        return found if match is None or "object_id" in match.kwargs else found.defer("result", "request", "dialogue")

    def can_stop(self, row: Task) -> bool:
        return not row.is_over

    def stop(self, row: Task) -> bool:
        if row.is_over:
            return False
        # Local worker first: on SQLite its transaction may hold the lock that the update needs.
        heartbeat.cancel(row.task_id)
        return store.cancel(row)

    @admin.action(description=gettext_lazy("Cancel selected tasks"), permissions=["change"])
    def stop_selected(self, request: HttpRequest, queryset: QuerySet[Task]) -> HttpResponse | None:
        return self.stop_all(request, queryset)

    @admin.display(description=gettext_lazy("caller"), ordering="user")
    def caller_name(self, row: Task) -> str:
        return name_of(row) if row.user is None else line(display_name(row.user))

    @admin.display(description=gettext_lazy("client"))
    def client_name(self, row: Task) -> str:
        client = row.client or {}
        return " ".join(filter(None, (client.get("title") or client.get("name"), client.get("version")))) or NOTHING

    @admin.display(description=gettext_lazy("message"))
    def status_words(self, row: Task) -> str:
        return status_message(row) or NOTHING

    @admin.display(description=gettext_lazy("message"))
    def in_short(self, row: Task) -> str:
        return Truncator(self.status_words(row)).chars(60)

    @admin.display(description=gettext_lazy("arguments"))
    def arguments(self, row: Task) -> SafeString:
        server = server_named(row.server)
        tool = None if server is None else server.tools.get(row.tool)
        given = row.request["params"].get("arguments") or {}
        return as_json(redacted(tool, given, longest=None, whole=None))

    @admin.display(description=gettext_lazy("pending input"))
    def asked(self, row: Task) -> SafeString | str:
        questions = {question.key: question.request for question in store.questions(row)}
        return as_json(questions) if questions and not row.is_over else NOTHING

    @admin.display(description=gettext_lazy("outcome"))
    def outcome(self, row: Task) -> SafeString | str:
        value = row.error if row.result is None else without_view(row.result)
        return NOTHING if value is None else as_json(value)
