"""Admin of OAuth client policies."""

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.contrib.admin.widgets import FilteredSelectMultiple
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_mcp.admin.base import STYLES, Choices, checkboxes, scope_choices, with_stored
from django_mcp.approvals.tool_policies import limit_of, tools_of
from django_mcp.core.server import servers
from django_mcp.models import ClientPolicy

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[ClientPolicy]
    _ModelForm = forms.ModelForm[ClientPolicy]
else:
    _ModelAdmin = admin.ModelAdmin
    _ModelForm = forms.ModelForm


class PolicyForm(_ModelForm):
    """A limit of scopes, switched on by a check box. No limit is stored as NULL."""

    limits_scopes = forms.BooleanField(
        label=gettext_lazy("Limit scopes"),
        required=False,
        help_text=gettext_lazy("If ticked, the client gets at most the scopes below; none chosen means no scopes."),
    )
    scopes = checkboxes(
        label=gettext_lazy("Scopes"),
        required=False,
    )

    class Meta:
        model = ClientPolicy
        fields: tuple[str, ...] = ("client_id", "blocked", "limits_scopes", "scopes", "service_account")

    class Media:
        """Stylesheets."""

        css = STYLES

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

    def clean(self) -> dict[str, Any]:
        """Return limits as lists, or None for no limit. What is chosen without its limit is an error."""
        given = super().clean() or self.cleaned_data
        for name in ("scopes", "tools"):
            if name not in self.fields or given.get(f"limits_{name}"):
                continue
            if given.get(name) and name in self.changed_data:
                limit = self.fields[f"limits_{name}"].label
                self.add_error(name, _("Tick “%s” as well, or choose none.") % limit)
            given[name] = None
        return given


class ClientLimitsForm(PolicyForm):
    """The limits of scopes and of tools, for the page of an OAuth client.

    Args:
        limits_tools: False leaves out the tools, whose policies the user may not change.
    """

    limits_tools = forms.BooleanField(
        label=gettext_lazy("Limit tools"),
        required=False,
        help_text=gettext_lazy("If ticked, the client may use only the tools below; none chosen means no tools."),
    )
    tools = forms.MultipleChoiceField(
        label=gettext_lazy("Tools"), required=False, widget=FilteredSelectMultiple(gettext_lazy("tools"), False)
    )

    class Meta(PolicyForm.Meta):
        fields = ("limits_scopes", "scopes")

    def __init__(self, *args: Any, limits_tools: bool, **options: Any) -> None:
        super().__init__(*args, **options)
        if limits_tools:
            chosen = limit_of(self.instance.client_id)
            stored = None if chosen is None else sorted(f"{server}.{tool}" for server, tool in chosen)
            self.set_limit("tools", tool_choices(), stored)
        else:
            del self.fields["limits_tools"], self.fields["tools"]


def tool_choices() -> Choices:
    """Return all tools by endpoint and key, sorted by name."""
    found = sorted((tool.key, server.name) for server in servers() for tool in tools_of(server))
    return [(f"{where}.{key}", f"{key} ({where})") for key, where in found]


class ClientPolicyAdmin(_ModelAdmin):
    """Blocks OAuth clients and limits their scopes. Their tools are limited on the pages of the clients."""

    form = PolicyForm
    list_display = ("client_id", "blocked", "scope_limit", "service_account")
    list_filter = ("blocked",)
    list_select_related = ("service_account",)
    search_fields = ("client_id",)
    ordering = ("client_id",)
    raw_id_fields = ("service_account",)

    def get_readonly_fields(self, request: HttpRequest, obj: ClientPolicy | None = None) -> Any:
        """Make the client id read-only. Only superusers set the service account, as for API keys of others."""
        decided = () if getattr(request.user, "is_superuser", False) else ("service_account",)
        return decided if obj is None else ("client_id", *decided)

    @admin.display(description=gettext_lazy("scopes"))
    def scope_limit(self, row: ClientPolicy) -> str:
        """Return the maximum scopes."""
        if row.scopes is None:
            return _("no limit")
        return ", ".join(row.scopes) or _("none")
