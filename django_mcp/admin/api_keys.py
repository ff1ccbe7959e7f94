"""Admin of API keys: creation, list and revocation."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext_lazy
from django.views.decorators.debug import sensitive_variables

from django_mcp.admin.base import (
    DecisionAdmin,
    DecisionForm,
    StoppableAdmin,
    UserChoiceAdmin,
    checkboxes,
    endpoint_choices,
    revocation_effects,
    scope_choices,
    user_lookups,
)
from django_mcp.admin.display import NOTHING, line
from django_mcp.auth.api_keys import (
    DAYS,
    State,
    create_key,
    find_problems,
    revoke_key,
    scopes_of_keys,
    state_of,
    takes_keys,
)
from django_mcp.auth.protected_resource import path_of, url_of
from django_mcp.client.configuration import CLIENTS, Setting, Target, Unsupported, name_for
from django_mcp.conf import settings
from django_mcp.core.permissions import declared
from django_mcp.core.principal import display_name
from django_mcp.core.server import MCPServer, servers
from django_mcp.models import APIKey

if TYPE_CHECKING:
    _ModelForm = forms.ModelForm[APIKey]
else:
    _ModelForm = forms.ModelForm

WORDS = {
    State.ACTIVE: gettext_lazy("active"),
    State.REVOKED: gettext_lazy("revoked"),
    State.EXPIRED: gettext_lazy("expired"),
    State.USER_INACTIVE: gettext_lazy("user inactive"),
}

WRITTEN = ("created", "expires", "revoked", "last_used")


class NewKeyForm(_ModelForm):
    """Form with the arguments of ``create_key``."""

    endpoints = checkboxes(
        label=gettext_lazy("Endpoints"),
        choices=endpoint_choices,
        help_text=gettext_lazy("Endpoints that accept the key."),
    )
    scopes = checkboxes(
        label=gettext_lazy("Scopes"),
        choices=lambda: [choice for choice in scope_choices() if choice[0] in scopes_of_keys()],
        required=False,
        help_text=gettext_lazy("Scopes of the key. None selected: the scopes that the endpoints require."),
    )
    days = forms.IntegerField(
        label=gettext_lazy("Days"),
        initial=lambda: min(DAYS, settings.MAX_API_KEY_DAYS),
        min_value=1,
        help_text=gettext_lazy("Days until the key expires."),
    )

    class Meta:
        model = APIKey
        fields = ("user", "name", "read_only")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["endpoints"].initial = [server.name for server in servers() if takes_keys(server)][:1]

    def clean(self) -> dict[str, Any]:
        """Add the errors that ``create_key`` would raise."""
        given = super().clean() or self.cleaned_data
        if not self.errors:
            problems = find_problems(
                given["user"], given["name"], given["endpoints"], given["scopes"] or None, given["days"]
            )
            for field, words in problems.items():
                self.add_error(field, words)
        return given


class KeyForm(DecisionForm):
    """Form to rename a key, and to limit it to tools that change nothing."""

    weakens = forms.BooleanField(
        label=gettext_lazy("Give the key more than now"), required=False, widget=forms.HiddenInput
    )
    decided = ("read_only",)

    class Meta:
        model = APIKey
        fields = ("name", "read_only")

    def find_weakened(self) -> list[str]:
        is_wider = "read_only" in self.changed and not self.cleaned_data["read_only"]
        return [_("It opens only tools that change nothing, and would open others.")] if is_wider else []


class StateFilter(admin.SimpleListFilter):
    """Filter by state."""

    title = gettext_lazy("state")
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:  # noqa: ARG002
        return [(state.value, words) for state, words in WORDS.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[APIKey]) -> QuerySet[APIKey]:  # noqa: ARG002
        # The precedence is that of state_of.
        now = timezone.now()
        unrevoked = queryset.filter(revoked=None)
        match self.value():
            case State.REVOKED.value:
                return queryset.exclude(revoked=None)
            case State.EXPIRED.value:
                return unrevoked.filter(expires__lte=now)
            case State.ACTIVE.value | State.USER_INACTIVE.value as state:
                return unrevoked.filter(expires__gt=now, user__is_active=state == State.ACTIVE.value)
        return queryset


class APIKeyAdmin(DecisionAdmin, UserChoiceAdmin, StoppableAdmin):
    """Creates API keys, which are shown once. Afterwards they can be renamed, limited to reading or revoked."""

    acts_with = "change_apikey"
    form = KeyForm
    nothing_yet = gettext_lazy("No API keys yet. A key lets a program call the endpoints as a user.")
    stop_path = "revoke"
    stop_title = ngettext_lazy("Revoke API key", "Revoke API keys")
    stop_question = gettext_lazy("Revoke the key “%s”? Requests with it fail from now on. This cannot be undone.")
    stop_many_question = ngettext_lazy(
        "Revoke %d API key? Requests with it fail from now on. This cannot be undone.",
        "Revoke %d API keys? Requests with them fail from now on. This cannot be undone.",
    )
    stop_answer = ngettext_lazy("Yes, revoke it", "Yes, revoke them")
    stopped_one = gettext_lazy("The key “%s” is revoked.")
    stopped_none = gettext_lazy("The key “%s” is already revoked.")
    stopped_many = ngettext_lazy("%d API key is revoked.", "%d API keys are revoked.")
    note = gettext_lazy("Revoked.")

    list_display = ("key", "person", "endpoint_names", "state", "expires", "last_used")
    list_filter = (StateFilter, "created")
    list_select_related = ("user",)
    ordering = ("-pk",)
    raw_id_fields = ("user",)
    user_field = "user"
    actions = ("revoke_selected",)
    readonly_fields = (*("prefix", "person", "endpoint_names", "scope_words", "state"), *WRITTEN)

    @admin.display(description=gettext_lazy("name"), ordering="name")
    def key(self, row: APIKey) -> SafeString:
        return format_html('{}<span class="mcp-quiet mcp-second-line">{}…</span>', row.name, row.prefix)

    @admin.display(description=gettext_lazy("state"))
    def state(self, row: APIKey) -> str:
        return str(WORDS[state_of(row)])

    @admin.display(description=gettext_lazy("user"), ordering="user")
    def person(self, row: APIKey) -> str:
        return line(display_name(row.user))

    @admin.display(description=gettext_lazy("endpoints"))
    def endpoint_names(self, row: APIKey) -> str:
        return ", ".join(row.endpoints)

    @admin.display(description=gettext_lazy("scopes"))
    def scope_words(self, row: APIKey) -> str:
        known = declared()
        return "; ".join(f"{known[name].text} ({name})" if name in known else name for name in row.scopes) or NOTHING

    def get_search_fields(self, request: HttpRequest) -> tuple[str, ...]:  # noqa: ARG002
        return ("name", "prefix", *user_lookups())

    def get_fields(self, request: HttpRequest, obj: APIKey | None = None) -> Any:
        new = ("user", "name", "endpoints", "scopes", "read_only", "days")
        if obj is None:
            return new
        hidden = ("shown", "weakens") if self.has_change_permission(request, obj) else ()
        return ("name", "read_only", *hidden, *self.readonly_fields)

    def get_readonly_fields(self, request: HttpRequest, obj: APIKey | None = None) -> Any:  # noqa: ARG002
        return () if obj is None else self.readonly_fields

    def get_form(self, request: HttpRequest, obj: APIKey | None = None, change: bool = False, **options: Any) -> Any:
        if obj is not None:
            return super().get_form(request, obj, change=change, **options)
        return super().get_form(request, obj, change=change, form=NewKeyForm, fields=NewKeyForm.Meta.fields)

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **options: Any) -> Any:
        # A key acts as its user.
        if getattr(request.user, "is_superuser", False):
            return super().formfield_for_foreignkey(db_field, request, **options)
        own = get_user_model()._default_manager.filter(pk__in=[request.user.pk])  # noqa: SLF001 - Django's documented API
        words = _("Only superusers can create keys for other users. Choose your own account.")
        return db_field.formfield(queryset=own, empty_label=None, error_messages={"invalid_choice": words})

    # Creation

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        return {"user": request.user.pk, **super().get_changeform_initial_data(request)}

    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        # A single save button, as the next page shows the key.
        buttons = {"show_save_and_continue": False, "show_save_and_add_another": False}
        return super().add_view(request, form_url, {**(extra_context or {}), **buttons})

    @sensitive_variables()
    def save_model(self, request: HttpRequest, obj: APIKey, form: Any, change: bool) -> None:
        if change:
            # Only what was changed: the key may have been revoked since the page was loaded.
            super().save_model(request, obj, form, change)
            return
        given = form.cleaned_data
        row, key = create_key(
            given["user"],
            given["name"],
            endpoints=given["endpoints"],
            scopes=given["scopes"] or None,
            days=given["days"],
            read_only=given["read_only"],
        )
        vars(obj).update(vars(row))
        obj.shown_once = key  # type: ignore[attr-defined] # of this one object, for response_add

    @sensitive_variables()
    def response_add(self, request: HttpRequest, obj: APIKey, post_url_continue: str | None = None) -> HttpResponse:  # noqa: ARG002
        request.current_app = self.admin_site.name
        opened = [endpoint for endpoint in servers() if endpoint.name in obj.endpoints]
        context = {
            **self.admin_site.each_context(request),
            "title": _("Your new API key"),
            "opts": self.opts,
            "row": obj,
            "person": self.person(obj),
            "key": obj.shown_once,  # type: ignore[attr-defined]
            "scope_words": self.scope_words(obj),
            "addresses": [(_url(request, endpoint), takes_keys(endpoint)) for endpoint in opened],
            "clients": [client for server in opened if takes_keys(server) for client in _clients(request, server, obj)],
        }
        # No redirect, which would have to store the key.
        answer = TemplateResponse(request, "admin/django_mcp/apikey/shown_once.html", context)
        answer.headers["Cache-Control"] = "no-store, private"
        answer.headers["Referrer-Policy"] = "no-referrer"
        return answer

    # Revocation

    def can_stop(self, row: APIKey) -> bool:
        return row.revoked is None

    def effects(self, rows: Iterable[APIKey]) -> list[str]:
        return revocation_effects(principal_kind="api_key", principal_id__in=[str(row.pk) for row in rows])

    def stop(self, row: APIKey) -> bool:
        return revoke_key(row)

    @admin.action(description=gettext_lazy("Revoke selected API keys"), permissions=["change"])
    def revoke_selected(self, request: HttpRequest, queryset: QuerySet[APIKey]) -> HttpResponse | None:
        return self.stop_all(request, queryset)


def _url(request: HttpRequest, server: MCPServer) -> str:
    return url_of(server) or request.build_absolute_uri(path_of(server))


@sensitive_variables()
def _clients(request: HttpRequest, server: MCPServer, row: Any) -> Iterator[tuple[str, list[Setting]]]:
    """Yield the title and the settings of each client that can send the key, as ``mcp_config`` prints them."""
    target = Target(name_for(server), _url(request, server), auth="key", key=row.shown_once)
    for title, make in CLIENTS.values():
        try:
            yield f"{title} – {server.name}", list(make(target))
        except Unsupported:
            continue
