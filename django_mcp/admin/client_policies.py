"""Admin of OAuth client policies."""

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.contrib.admin.widgets import FilteredSelectMultiple
from django.http import HttpRequest
from django.utils.translation import gettext as _
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
    """Limits of scopes and tools, each switched on by a check box. No limit is stored as NULL."""

    limits_scopes = forms.BooleanField(
        label=gettext_lazy("Limit scopes"),
        required=False,
        help_text=gettext_lazy("If ticked, the client gets at most the scopes below; none chosen means no scopes."),
    )
    limits_tools = forms.BooleanField(
        label=gettext_lazy("Limit tools"),
        required=False,
        help_text=gettext_lazy("If ticked, the client may use only the tools below; none chosen means no tools."),
    )

    scopes = checkboxes(
        label=gettext_lazy("Scopes"),
        required=False,
    )
    tools = forms.MultipleChoiceField(
        label=gettext_lazy("Tools"), required=False, widget=FilteredSelectMultiple(gettext_lazy("tools"), False)
    )

    class Meta:
        model = ClientPolicy
        fields: tuple[str, ...] = (
            "client_id",
            "blocked",
            "limits_scopes",
            "scopes",
            "limits_tools",
            "tools",
            "service_account",
        )

    class Media:
        """Stylesheets."""

        css = STYLES

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for name, choices in (("scopes", scope_choices()), ("tools", tool_choices())):
            field = self.fields[name]
            assert isinstance(field, forms.MultipleChoiceField)  # noqa: S101
            stored = getattr(self.instance, name)
            field.choices = with_stored(choices, stored)
            self.fields[f"limits_{name}"].initial = stored is not None

    def clean(self) -> dict[str, Any]:
        """Return scopes and tools as lists, or None for no limit. What is chosen without its limit is an error."""
        given = super().clean() or self.cleaned_data
        for name in ("scopes", "tools"):
            if given.get(f"limits_{name}"):
                continue
            if given.get(name) and name in self.changed_data:
                limit = self.fields[f"limits_{name}"].label
                self.add_error(name, _("Tick “%s” as well, or choose none.") % limit)
            given[name] = None
        return given


class ClientLimitsForm(PolicyForm):
    """The limits alone, for the page of an OAuth client."""

    class Meta(PolicyForm.Meta):
        fields = ("limits_scopes", "scopes", "limits_tools", "tools")


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
