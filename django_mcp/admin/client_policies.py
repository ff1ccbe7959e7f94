"""Admin of OAuth client policies."""

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext_lazy

from django_mcp.admin.base import STYLES, checkboxes, scope_choices, tool_choices, with_stored
from django_mcp.models import ClientPolicy

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[ClientPolicy]
    _ModelForm = forms.ModelForm[ClientPolicy]
else:
    _ModelAdmin = admin.ModelAdmin
    _ModelForm = forms.ModelForm


class PolicyForm(_ModelForm):
    """Restrictions as check boxes. No selection means no limit, stored as NULL."""

    scopes = checkboxes(
        label=gettext_lazy("Scopes"),
        required=False,
        help_text=gettext_lazy("Maximum scopes. None selected: no limit."),
    )
    tools = checkboxes(
        label=gettext_lazy("Tools"),
        required=False,
        help_text=gettext_lazy("Tools it may use. None selected: all."),
    )

    class Meta:
        model = ClientPolicy
        fields = ("client_id", "blocked", "scopes", "tools", "service_account")

    class Media:
        """Stylesheets."""

        css = STYLES

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for name, choices in (("scopes", scope_choices()), ("tools", tool_choices())):
            field = self.fields[name]
            assert isinstance(field, forms.MultipleChoiceField)  # noqa: S101
            field.choices = with_stored(choices, getattr(self.instance, name))

    def clean_scopes(self) -> list[str] | None:
        """Return the selected scopes, or None for no limit."""
        return self._limit("scopes")

    def clean_tools(self) -> list[str] | None:
        """Return the selected tools, or None for no limit."""
        return self._limit("tools")

    def _limit(self, name: str) -> list[str] | None:
        if name not in self.changed_data:
            # A stored empty list allows nothing; saving the page unchanged must not turn it into "no limit".
            stored: list[str] | None = getattr(self.instance, name)
            return stored
        return self.cleaned_data[name] or None


class ClientPolicyAdmin(_ModelAdmin):
    """Blocks OAuth clients and limits their scopes and tools."""

    form = PolicyForm
    list_display = ("client_id", "blocked", "scope_limit", "tool_limit", "service_account")
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
        return _listed(row.scopes)

    @admin.display(description=gettext_lazy("tools"))
    def tool_limit(self, row: ClientPolicy) -> str:
        """Return the tools it may use."""
        return _listed(row.tools)


def _listed(limit: list[str] | None) -> str:
    return str(gettext_lazy("no limit")) if limit is None else ", ".join(limit) or str(gettext_lazy("none"))
