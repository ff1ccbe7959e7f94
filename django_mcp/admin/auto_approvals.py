"""Admin of auto-approval rules: list and revocation."""

from typing import Any

from django.contrib import admin
from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext, ngettext_lazy

from django_mcp.admin.base import ApproverReadOnlyAdmin, ReadOnlyStoppableAdmin, user_lookups
from django_mcp.admin.display import line, names_of, shown_value, with_names
from django_mcp.approvals.approvers import APPROVE
from django_mcp.core.principal import display_name
from django_mcp.models import AutoApprovalRule


class AutoApprovalRuleAdmin(ApproverReadOnlyAdmin, ReadOnlyStoppableAdmin):
    """Lists auto-approval rules. Users who may approve calls may revoke rules."""

    acts_with = APPROVE.partition(".")[2]
    nothing_yet = gettext_lazy("No auto-approval rules. An approver adds one on the card of a pending call.")
    stop_path = "revoke"
    stop_title = ngettext_lazy("Revoke auto-approval rule", "Revoke auto-approval rules")
    stop_question = gettext_lazy("Revoke the auto-approval rule “%s”? Matching calls will require approval again.")
    stop_many_question = ngettext_lazy(
        "Revoke %d auto-approval rule? Matching calls will require approval again.",
        "Revoke %d auto-approval rules? Matching calls will require approval again.",
    )
    stop_answer = ngettext_lazy("Yes, revoke it", "Yes, revoke them")
    stopped_one = gettext_lazy("The auto-approval rule “%s” is revoked.")
    stopped_none = gettext_lazy("The auto-approval rule “%s” has already ended.")
    stopped_many = ngettext_lazy("%d auto-approval rule is revoked.", "%d auto-approval rules are revoked.")
    note = gettext_lazy("Revoked.")

    list_display = ("tool", "caller_name", "must_be", "state_and_left", "expires", "created_by")
    list_filter = ("server", "tool")
    list_select_related = ("created_by", "user")
    ordering = ("-pk",)
    fields = (
        "tool",
        "server",
        "caller_name",
        "client_id",
        "must_be",
        "left",
        "used",
        "state",
        "created",
        "created_by",
        "expires",
        "revoked",
    )

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        return request.user.has_perm(APPROVE)

    def get_search_fields(self, request: HttpRequest) -> tuple[str, ...]:  # noqa: ARG002
        return ("tool", "principal_id", *user_lookups())

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).annotate(uses=Count("approvals"))

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        page = super().get_changelist_instance(request)
        with_names(page.result_list)
        return page

    def can_stop(self, row: AutoApprovalRule) -> bool:
        return row.revoked is None and row.expires > timezone.now() and row.remaining != 0

    def stop(self, row: AutoApprovalRule) -> bool:
        # Conditional: the page may be old, and the rule used up, expired or revoked since.
        good = AutoApprovalRule.objects.filter(pk=row.pk, revoked=None, expires__gt=timezone.now())
        return bool(good.exclude(remaining=0).update(revoked=timezone.now()))

    @admin.action(description=gettext_lazy("Revoke selected auto-approval rules"), permissions=["change"])
    def stop_selected(self, request: HttpRequest, queryset: Any) -> HttpResponse | None:
        return self.stop_all(request, queryset)

    @admin.display(description=gettext_lazy("caller"), ordering="principal_id")
    def caller_name(self, row: Any) -> str:
        if row.user is not None and row.principal_kind != "api_key":
            return line(display_name(row.user))
        caller = row.principal_kind, row.principal_id
        return line(vars(row).get("person") or names_of([caller])[caller])

    @admin.display(description=gettext_lazy("same arguments"))
    def must_be(self, row: AutoApprovalRule) -> SafeString | str:
        if not (names := [name for name in row.pattern if name]):
            return _("any arguments")
        pairs = ((line(name), _given(row, name)) for name in names)
        return format_html_join("", '<div class="mcp-argument"><b>{}</b> {}</div>', pairs)

    @admin.display(description=gettext_lazy("calls left"), ordering="remaining")
    def left(self, row: AutoApprovalRule) -> str:
        return _("no limit") if row.remaining is None else str(row.remaining)

    @admin.display(description=gettext_lazy("calls made"), ordering="uses")
    def used(self, row: Any) -> int:
        count: int = row.uses
        return count

    @admin.display(description=gettext_lazy("state"))
    def state(self, row: AutoApprovalRule) -> str:
        if row.revoked is not None:
            return _("revoked")
        if row.expires <= timezone.now():
            return _("expired")
        return _("used up") if row.remaining == 0 else _("active")

    @admin.display(description=gettext_lazy("state"), ordering="remaining")
    def state_and_left(self, row: AutoApprovalRule) -> SafeString | str:
        state = self.state(row)
        if not self.can_stop(row):
            return state
        left = _("no limit")
        if row.remaining is not None:
            left = ngettext("%d call left", "%d calls left", row.remaining) % row.remaining
        return format_html('{}<span class="mcp-quiet mcp-second-line">{}</span>', state, left)


def _given(row: AutoApprovalRule, name: str) -> SafeString:
    # As on the approval's page: the tool may have a default of its own.
    if name in row.arguments:
        return shown_value(row.arguments[name])
    return format_html('<span class="mcp-quiet">{}</span>', _("not sent"))
