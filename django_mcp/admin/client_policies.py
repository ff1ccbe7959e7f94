"""What the owner decided about OAuth clients, in the admin."""

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
    """Limits as check boxes. No box ticked is no limit, stored as NULL."""

    scopes = checkboxes(
        label=gettext_lazy("Scopes"),
        required=False,
        help_text=gettext_lazy("Maximum scopes. None ticked: no limit."),
    )
    tools = checkboxes(
        label=gettext_lazy("Tools"),
        required=False,
        help_text=gettext_lazy("Tools it may use. None ticked: all."),
    )

    class Meta:
        model = ClientPolicy
        fields = ("client_id", "blocked", "scopes", "tools", "service_account")

    class Media:
        """Its styles."""

        css = STYLES

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for name, choices in (("scopes", scope_choices()), ("tools", tool_choices())):
            field = self.fields[name]
            assert isinstance(field, forms.MultipleChoiceField)  # noqa: S101
            field.choices = with_stored(choices, getattr(self.instance, name))

    def clean_scopes(self) -> list[str] | None:
        """The limit, or None."""
        return self._limit("scopes")

    def clean_tools(self) -> list[str] | None:
        """The limit, or None."""
        return self._limit("tools")

    def _limit(self, name: str) -> list[str] | None:
        if name not in self.changed_data:
            # An empty list, which some code may have stored, is "nothing"; saving the page must not make it "all".
            stored: list[str] | None = getattr(self.instance, name)
            return stored
        return self.cleaned_data[name] or None


class ClientPolicyAdmin(_ModelAdmin):
    """Blocks clients, and limits what they may do."""

    form = PolicyForm
    list_display = ("client_id", "blocked", "scope_limit", "tool_limit", "service_account")
    list_filter = ("blocked",)
    list_select_related = ("service_account",)
    search_fields = ("client_id",)
    ordering = ("client_id",)
    raw_id_fields = ("service_account",)

    def get_readonly_fields(self, request: HttpRequest, obj: ClientPolicy | None = None) -> Any:
        """The client does not change; in whose name it acts by itself, only superusers say, as of API keys."""
        decided = () if getattr(request.user, "is_superuser", False) else ("service_account",)
        return decided if obj is None else ("client_id", *decided)

    @admin.display(description=gettext_lazy("scopes"))
    def scope_limit(self, row: ClientPolicy) -> str:
        """The most it may have."""
        return _listed(row.scopes)

    @admin.display(description=gettext_lazy("tools"))
    def tool_limit(self, row: ClientPolicy) -> str:
        """The only ones it may use."""
        return _listed(row.tools)


def _listed(limit: list[str] | None) -> str:
    return str(gettext_lazy("no limit")) if limit is None else ", ".join(limit) or str(gettext_lazy("nothing"))
