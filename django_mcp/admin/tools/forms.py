"""What the page of a tool asks for."""

from collections.abc import Iterable
from typing import Any

from django import forms
from django.apps import apps
from django.contrib.auth.models import Group
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_mcp.models import ClientPolicy, ToolPolicy

MOST_CLIENTS = 500
"""That are offered. Any other can be written."""
CLIENTS = "mcp-clients"


class OverrideForm(forms.Form):
    """A decision for the users of a group, for a client, or for both together."""

    group = forms.ModelChoiceField(
        label=gettext_lazy("Group"),
        queryset=Group.objects.order_by("name"),
        required=False,
        empty_label=gettext_lazy("every group"),
    )
    client_id = forms.CharField(
        label=gettext_lazy("OAuth client"),
        required=False,
        max_length=255,
        widget=forms.TextInput(attrs={"list": CLIENTS, "autocomplete": "off", "class": "vTextField"}),
        help_text=gettext_lazy("Its client id; empty for every client."),
    )
    decision = forms.ChoiceField(label=gettext_lazy("Decision"), choices=ToolPolicy.Decision.choices, initial="ask")

    def clean(self) -> dict[str, Any]:
        """Somebody in particular."""
        given = super().clean() or self.cleaned_data
        if not self.errors and not given.get("group") and not given.get("client_id"):
            raise forms.ValidationError(_("Choose a group or a client; for everybody, decide above."))
        return given


def client_list() -> SafeString:
    """Clients to choose from, for the browser to offer while somebody types."""
    options = format_html_join("", '<option value="{}">{}</option>', _clients())
    return format_html('<datalist id="{}">{}</datalist>', CLIENTS, options)


def _clients() -> Iterable[tuple[str, str]]:
    if apps.is_installed("oauth2_provider"):
        from django_mcp.auth.toolkit import get_application_model  # noqa: PLC0415 - where it is installed

        rows = get_application_model().objects.order_by("name").values_list("client_id", "name")
        return list(rows[:MOST_CLIENTS])
    return [(client_id, "") for client_id in ClientPolicy.objects.values_list("client_id", flat=True)[:MOST_CLIENTS]]
