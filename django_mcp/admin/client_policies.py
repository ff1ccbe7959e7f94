"""Admin of OAuth client policies."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.widgets import FilteredSelectMultiple
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_mcp.admin.base import (
    Choices,
    ClientField,
    DecisionAdmin,
    DecisionForm,
    StrictFiltersAdmin,
    UserChoiceAdmin,
    checkboxes,
    client_list,
    scope_choices,
    with_stored,
)
from django_mcp.admin.display import NOTHING, client_names
from django_mcp.approvals.tool_definitions import tools_of
from django_mcp.approvals.unmatched_policies import unknown_clients
from django_mcp.core import database
from django_mcp.core.server import servers
from django_mcp.models import ClientPolicy


class PolicyForm(DecisionForm):
    """A client's policy. A limit of scopes is switched on by a check box. No limit is stored as NULL."""

    client_id = ClientField(label=gettext_lazy("OAuth client"), help_text=gettext_lazy("Name or id of the client."))
    limits_scopes = forms.BooleanField(
        label=gettext_lazy("Limit scopes"),
        required=False,
        help_text=gettext_lazy("If ticked, the client gets at most the scopes below; none chosen means no scopes."),
    )
    scopes = checkboxes(
        label=gettext_lazy("Scopes"),
        required=False,
    )
    weakens = forms.BooleanField(
        label=gettext_lazy("Give the client more than now"), required=False, widget=forms.HiddenInput
    )

    decided: ClassVar[tuple[str, ...]] = ("blocked", "read_only", "scopes", "service_account")

    class Meta:
        model = ClientPolicy
        fields: tuple[str, ...] = (
            "client_id",
            "blocked",
            "read_only",
            "limits_scopes",
            "scopes",
            "service_account",
        )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.set_limit("scopes", scope_choices(), self.instance.scopes)

    def set_limit(self, name: str, choices: Choices, stored: list[str] | None) -> None:
        """Set choices and initial values of a limit and its check box."""
        field = self.fields[name]
        assert isinstance(field, forms.MultipleChoiceField)  # noqa: S101
        field.choices = with_stored(choices, stored)
        self.initial[name] = stored or []
        self.fields[f"limits_{name}"].initial = stored is not None

    def prepare(self, given: dict[str, Any]) -> None:
        """Make limits lists, or None for no limit. What is chosen without its limit is an error."""
        for name in ("scopes", "tools"):
            if name not in self.fields or given.get(f"limits_{name}"):
                continue
            if given.get(name) and name in self.changed_data:
                limit = self.fields[f"limits_{name}"].label
                self.add_error(name, _("Tick “%s” as well, or choose none.") % limit)
            given[name] = None

    def find_weakened(self) -> list[str]:
        """Return sentences about what a valid form gives to the client."""
        found = []
        if "blocked" in self.changed and not self.cleaned_data["blocked"]:
            found.append(_("It is blocked now, and would not be."))
        if "read_only" in self.changed and not self.cleaned_data["read_only"]:
            found.append(_("It may use only tools that change nothing, and could use others."))
        if "scopes" in self.changed and is_wider(self.before["scopes"], self.cleaned_data["scopes"]):
            found.append(_("It would get more scopes."))
        return found


def is_wider(before: Sequence[str] | None, after: Sequence[str] | None) -> bool:
    # None is no limit.
    return before is not None and (after is None or not set(after) <= set(before))


class ClientLimitsForm(PolicyForm):
    """The limits of scopes and of tools, for the page of an OAuth client.

    Args:
        limits_tools: False leaves out the tools, whose policies the user may not change.
    """

    client_id = None  # type: ignore[assignment]
    weakens = None  # type: ignore[assignment]
    limits_tools = forms.BooleanField(
        label=gettext_lazy("Limit tools"),
        required=False,
        help_text=gettext_lazy("If ticked, the client may use only the tools below; none chosen means no tools."),
    )
    tools = forms.MultipleChoiceField(
        label=gettext_lazy("Tools"), required=False, widget=FilteredSelectMultiple(gettext_lazy("tools"), False)
    )
    decided = ("scopes", "tools")

    class Meta(PolicyForm.Meta):
        fields = ("limits_scopes", "scopes")

    def __init__(self, *args: Any, limits_tools: bool, **options: Any) -> None:
        super().__init__(*args, **options)
        if limits_tools:
            self.set_limit("tools", tool_choices(), self.instance.tools)
        else:
            del self.fields["limits_tools"], self.fields["tools"]


def tool_choices() -> Choices:
    found = sorted((tool.key, server.name) for server in servers() for tool in tools_of(server))
    return [(f"{where}.{key}", f"{key} ({where})") for key, where in found]


class ChangedSince(Exception):
    """Policies are not the ones that a page showed."""


def ends_with(row: ClientPolicy) -> str:
    """Return sentences about what a client gets if its policy is deleted."""
    found = [
        (row.blocked, _("It is blocked now, and would not be.")),
        (row.read_only, _("It may use only tools that change nothing, and could use others.")),
        (row.scopes is not None, _("It would get more scopes.")),
        (row.tools is not None, _("It would get more tools.")),
        (row.service_account_id is not None, _("It would have no service account.")),
    ]
    return " ".join(words for is_so, words in found if is_so)


def state_of(row: ClientPolicy) -> str:
    # A digest, to notice that the policy has changed since a page showed it.
    parts = [row.pk, row.client_id, row.blocked, row.read_only, row.scopes, row.tools, row.service_account_id]
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()[:32]


class ClientPolicyAdmin(DecisionAdmin, UserChoiceAdmin, StrictFiltersAdmin):
    """Blocks OAuth clients and limits their scopes. Their tools are limited on the pages of the clients."""

    acts_with = "change_clientpolicy"
    nothing_yet = gettext_lazy("No client policies. A client without one may do what its users consent to.")
    form = PolicyForm
    delete_confirmation_template = "admin/django_mcp/clientpolicy/delete_confirmation.html"
    delete_selected_confirmation_template = delete_confirmation_template
    list_display = ("client_id", "client", "access", "read_only", "scope_limit", "service_account")
    change_form_template = "admin/django_mcp/clientpolicy/change_form.html"
    list_filter = ("blocked",)
    list_select_related = ("service_account",)
    search_fields = ("client_id",)
    ordering = ("client_id",)
    raw_id_fields = ("service_account",)
    user_field = "service_account"

    def get_readonly_fields(self, request: HttpRequest, obj: ClientPolicy | None = None) -> Any:
        # Only superusers set the service account, as for API keys of others.
        decided = () if getattr(request.user, "is_superuser", False) else ("service_account",)
        return decided if obj is None else ("client_id", *decided)

    def get_fields(self, request: HttpRequest, obj: ClientPolicy | None = None) -> Any:
        if obj is None or self.has_change_permission(request, obj):
            return super().get_fields(request, obj)
        return ("client_id", "access", "read_only", "scope_limit", "service_account")

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Say what deleting policies gives to clients.

        Raises:
            ChangedSince: it was confirmed, but for other policies than these.
        """
        is_sure = "post" in request.POST
        if is_sure and isinstance(objs, QuerySet) and database.own_connection().in_atomic_block:
            # Locked, so that what was compared with the page is what is deleted.
            objs = objs.select_related(None).select_for_update()  # PostgreSQL locks no outer join
        rows = list(objs)
        if is_sure and {*request.POST.getlist("shown")} != {state_of(row) for row in rows}:
            raise ChangedSince
        words = '{}. {}<input type="hidden" name="shown" value="{}">'
        return [format_html(words, row, ends_with(row), state_of(row)) for row in rows], *super().get_deleted_objects(
            rows, request
        )[1:]

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        try:
            return super().delete_view(request, object_id, extra_context)
        except ChangedSince:
            return self._refuse(request)

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        try:
            with database.atomic():
                return super().changelist_view(request, extra_context)
        except ChangedSince:
            return self._refuse(request)

    def _refuse(self, request: HttpRequest) -> HttpResponse:
        words = _("Nothing was deleted: this was changed since the page was shown.")
        self.message_user(request, words, messages.ERROR)
        return HttpResponseRedirect(request.get_full_path())

    def changeform_view(
        self, request: HttpRequest, object_id: str | None = None, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        return super().changeform_view(
            request, object_id, form_url, {**(extra_context or {}), "clients": client_list()}
        )

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        page = super().get_changelist_instance(request)
        ids = [row.client_id for row in page.result_list]
        names, unknown = client_names(ids), unknown_clients(ids)
        for row in page.result_list:
            row.mcp_name, row.mcp_is_unknown = names.get(row.client_id, ""), row.client_id in unknown
        return page

    @admin.display(description=gettext_lazy("client"))
    def client(self, row: Any) -> SafeString | str:
        if row.mcp_is_unknown:
            words = _("matches nobody: no client has this id")
            return format_html('<strong class="mcp-tag mcp-danger">{}</strong>', words)
        return str(row.mcp_name or NOTHING)

    @admin.display(description=gettext_lazy("access"), ordering="blocked")
    def access(self, row: ClientPolicy) -> SafeString | str:
        if not row.blocked:
            return _("not blocked")
        return format_html('<strong class="mcp-decision mcp-block">{}</strong>', _("blocked"))

    @admin.display(description=gettext_lazy("scopes"))
    def scope_limit(self, row: ClientPolicy) -> str:
        if row.scopes is None:
            return _("no limit")
        return ", ".join(row.scopes) or _("none")
