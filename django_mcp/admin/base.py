"""Shared admin classes (read-only, stoppable, without a table) and choices of forms."""

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.models import LogEntry
from django.contrib.admin.options import get_content_type_for_model
from django.contrib.admin.utils import quote
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import NoReverseMatch, URLPattern, path, reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_mcp.approvals.notices import APPROVE
from django_mcp.auth.api_keys import takes_keys
from django_mcp.auth.protected_resource import path_of
from django_mcp.core.permissions import declared
from django_mcp.core.server import servers

if TYPE_CHECKING:
    from django.core.paginator import Page
    from django.utils.functional import _StrPromise as Words

    _ModelAdmin = admin.ModelAdmin[Any]
else:
    _ModelAdmin = admin.ModelAdmin
    Words = str

STYLES = {"all": ["django_mcp/admin.css"]}


class LookingAdmin(_ModelAdmin):
    """Read-only admin for approvers and users with the view permission."""

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Allow approvers and users with the view permission."""
        return request.user.has_perm(APPROVE) or super().has_view_permission(request, obj)

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002
        """Deny: calls create the rows."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        """Deny: rows are a record of events."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Deny on these pages. The page that deletes a user also asks, for the user's related rows."""
        match = request.resolver_match
        own = f"{self.opts.app_label}_{self.opts.model_name}_"
        if match is None or (match.url_name or "").startswith(own):
            return False
        return super().has_delete_permission(request, obj)


Choices = list[tuple[str, str]]


def endpoint_choices() -> Choices:
    """Return all endpoints with their paths."""
    return [
        (each.name, f"{each.name} ({path_of(each)})" + ("" if takes_keys(each) else _(" – does not accept API keys")))
        for each in servers()
    ]


def scope_choices() -> Choices:
    """Return all scopes with their descriptions."""
    return [(name, f"{scope.text} ({name})") for name, scope in declared().items()]


def with_stored(choices: Choices, stored: Iterable[str] | None) -> Choices:
    """Return *choices* plus stored values that no longer exist, so that saving keeps them."""
    known = {name for name, _words in choices}
    return [*choices, *((name, _("%s – no longer exists") % name) for name in stored or () if name not in known)]


def checkboxes(**options: Any) -> forms.MultipleChoiceField:
    """Return a multiple choice field with check boxes."""
    return forms.MultipleChoiceField(widget=forms.CheckboxSelectMultiple(attrs={"class": "mcp-choices"}), **options)


def address_in(site: admin.AdminSite, name: str, *arguments: Any) -> str:
    """Return the URL of a page of this app in an admin site, or "" if the site removed it."""
    try:
        return reverse(f"admin:django_mcp_{name}", args=arguments, current_app=site.name)
    except NoReverseMatch:
        return ""


def page_of(request: HttpRequest, site: admin.AdminSite, model: type[Model], key: Any) -> str:
    """Return the address of an object's page in an admin site; empty if the user may not view it or it has no page.

    Args:
        request: of the user.
        site: where the page is.
        model: of the object.
        key: of the object; None if there is no such object.
    """
    if key is None or not site.is_registered(model) or not site.get_model_admin(model).has_view_permission(request):
        return ""
    name = f"admin:{model._meta.app_label}_{model._meta.model_name}_change"  # noqa: SLF001 - Django's documented API
    try:
        return reverse(name, args=[quote(key)], current_app=site.name)
    except NoReverseMatch:
        return ""


LAST_NOTES = 20


class OwnPagesAdmin(_ModelAdmin):
    """Base of admin pages without rows, with templates in ``folder`` and the permissions of the model ``behind``."""

    folder: ClassVar[str]
    behind: ClassVar[str]

    # Permissions

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return True if the user may view or change the model."""
        return request.user.has_perm(f"django_mcp.view_{self.behind}") or self.has_change_permission(request, obj)

    has_module_permission = has_view_permission

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        """Return True if the user may change the model."""
        return request.user.has_perm(f"django_mcp.change_{self.behind}")

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002
        """Deny."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        """Deny."""
        return False

    def sees_calls(self, request: HttpRequest) -> bool:
        """Return True if the user may view the request log."""
        return request.user.has_perm("django_mcp.view_requestlog")

    # Parts of a page

    def page(self, request: HttpRequest, template: str, title: str, context: dict[str, Any]) -> TemplateResponse:
        """Return a response with a template of the folder in the admin's layout."""
        request.current_app = self.admin_site.name
        shared = {
            **self.admin_site.each_context(request),
            "title": title,
            "opts": self.opts,
            "may_change": self.has_change_permission(request),
        }
        return TemplateResponse(request, f"admin/django_mcp/{self.folder}/{template}.html", {**shared, **context})

    def address_of(self, key: str) -> str:
        """Return the URL of an object's page."""
        return self.address(f"{self.opts.model_name}_change", quote(key))

    def address(self, name: str, *arguments: Any) -> str:
        """Return the URL of an admin page of this app, or "" if the site removed it."""
        return address_in(self.admin_site, name, *arguments)

    def notes(self, key: str) -> Any:
        """Return the latest history entries of an object."""
        kind = get_content_type_for_model(self.model())
        entries = LogEntry.objects.filter(content_type=kind, object_id=key).select_related("user")
        return entries.order_by("-action_time", "-pk")[:LAST_NOTES]


def page_queries(request: HttpRequest, page: "Page[Any]") -> list[tuple[int, str]]:
    """Return number and URL of each page of a list, or nothing if there is only one page."""
    if page.paginator.num_pages < 2:  # noqa: PLR2004 - one is none to choose
        return []
    query, found = request.GET.copy(), []
    for number in page.paginator.page_range:
        query["p"] = str(number)
        found.append((number, f"?{query.urlencode()}"))
    return found


class BoundedPaginator(Paginator):  # type: ignore[type-arg]
    """Paginator that counts at most ``most`` rows; filters find the rest."""

    most = 10_000

    @cached_property
    def count(self) -> int:
        """Return the number of rows, at most ``most``."""
        rows: Any = self.object_list
        found: int = rows.order_by().values("pk")[: self.most].count()
        return found


class ReadOnlyAdmin(_ModelAdmin):
    """Denies adding, changing and deleting, also to superusers."""

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002
        """Deny."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        """Deny."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        """Deny."""
        return False


MAX_NAMED = 20
"""Rows that are named where it is asked whether to stop many."""


class StoppingAdmin(_ModelAdmin):
    """Adds a page, a button and an action that stop rows, with the change permission.

    Attributes:
        stop_path: last part of the page's URL and of its name.
        stop_title: title of the confirmation page and of the link to it.
        stop_question: question on that page; ``%s`` is the row.
        stop_answer: label of the confirming button.
        stopped_one: message on success; ``%s`` is the row.
        stopped_none: message if the row had already ended.
        stopped_many: message after the action; ``%d`` is the number of rows.
        note: entry in the row's history.
    """

    stop_path = "stop"
    stop_title: ClassVar[Words]
    stop_question: ClassVar[Words]
    stop_answer: ClassVar[Words]
    stopped_one: ClassVar[Words]
    stopped_none: ClassVar[Words]
    stopped_many: ClassVar[Words]
    note: ClassVar[Words]
    change_form_template = "admin/django_mcp/stoppable.html"

    def stop(self, row: Any) -> bool:
        """Stop a row. Return False if it had already ended."""
        raise NotImplementedError

    def can_stop(self, row: Any) -> bool:
        """Return True if the row has not ended."""
        raise NotImplementedError

    def get_urls(self) -> list[URLPattern]:
        """Add the confirmation page."""
        view = self.admin_site.admin_view(self.stop_view)
        return [path(f"<int:pk>/{self.stop_path}/", view, name=self._name(self.stop_path)), *super().get_urls()]

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """Add a link to the confirmation page."""
        row = self.get_object(request, object_id)
        stops = row is not None and self.can_stop(row) and self.has_change_permission(request, row)
        shown = {
            "stop_title": self.stop_title,
            "stop_url": reverse(f"admin:{self._name(self.stop_path)}", args=[object_id]) if stops else None,
        }
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), **shown})

    def stop_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Show the confirmation page; stop the row on POST."""
        row = self.get_object(request, str(pk))
        if row is None:
            return self._get_obj_does_not_exist_redirect(request, self.opts, str(pk))  # type: ignore[attr-defined, no-any-return]
        if not self.has_change_permission(request, row):
            raise PermissionDenied
        if request.method == "POST":
            if self.stop_and_log(request, row):
                self.message_user(request, self.stopped_one % row, messages.SUCCESS)
            else:
                self.message_user(request, self.stopped_none % row, messages.WARNING)
            listing = reverse(f"admin:{self._name('changelist')}", current_app=self.admin_site.name)
            return HttpResponseRedirect(listing)
        request.current_app = self.admin_site.name
        context = {
            **self.admin_site.each_context(request),
            "title": self.stop_title,
            "opts": self.opts,
            "row": row,
            "question": self.stop_question % row,
            "answer": self.stop_answer,
            "listing": f"admin:{self._name('changelist')}",
            "page": f"admin:{self._name('change')}",
        }
        return TemplateResponse(request, "admin/django_mcp/stop.html", context)

    def stop_all(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """Stop rows, for an action: ask first, and return the page that asks."""
        if "confirmed" in request.POST:
            count = sum(self.stop_and_log(request, row) for row in queryset)
            self.message_user(request, self.stopped_many % count, messages.SUCCESS)
            return None
        request.current_app = self.admin_site.name
        rows = list(queryset[: MAX_NAMED + 1])
        context = {
            **self.admin_site.each_context(request),
            "title": self.stop_title,
            "opts": self.opts,
            "rows": rows[:MAX_NAMED],
            "has_more": len(rows) > MAX_NAMED,
            "keys": request.POST.getlist(ACTION_CHECKBOX_NAME),
            "action": request.POST.get("action", ""),
            "across": request.POST.get("select_across", "0"),
            "answer": self.stop_answer,
            "listing": f"admin:{self._name('changelist')}",
        }
        return TemplateResponse(request, "admin/django_mcp/stop.html", context)

    def stop_and_log(self, request: HttpRequest, row: Model) -> bool:
        """Stop a row and add an entry to its history."""
        pk = row.pk
        if changed := self.stop(row):
            row.pk = pk
            self.log_change(request, row, str(self.note))
        return changed

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        """Stop the row before it is deleted, so that streams and tasks end."""
        self.stop(obj)
        if type(obj)._default_manager.filter(pk=obj.pk).exists():  # noqa: SLF001 - Django's documented API
            super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Stop the rows before they are deleted, so that streams and tasks end."""
        for row in queryset:
            self.stop(row)
        super().delete_queryset(request, queryset)

    def _name(self, view: str) -> str:
        return f"{self.opts.app_label}_{self.opts.model_name}_{view}"


class StoppableAdmin(StoppingAdmin):
    """Rows can be viewed and stopped, not edited."""

    actions = ("stop_selected",)

    class Media:
        """Stylesheets."""

        css = STYLES

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002
        """Deny."""
        return False

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:  # noqa: ARG002
        """Make all fields read-only."""
        return self.fields or ()

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """Hide the save buttons."""
        buttons = {"show_save": False, "show_save_and_continue": False}
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), **buttons})

    @admin.action(description=gettext_lazy("Stop selected %(verbose_name_plural)s"), permissions=["change"])
    def stop_selected(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """Stop the rows that can be stopped."""
        return self.stop_all(request, queryset)
