"""Base classes of the admin pages: view-only, stoppable, without a table; choices of their forms."""

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from django import forms
from django.contrib import admin, messages
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

DECIDED_STYLES = {"all": ["django_mcp/admin.css", "django_mcp/approvals.css"]}


class LookingAdmin(_ModelAdmin):
    """Whoever decides sees them, and whoever has the permission to view them."""

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Those two."""
        return request.user.has_perm(APPROVE) or super().has_view_permission(request, obj)

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002
        """Calls make them."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        """They say what happened."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Not here. The page of a user who is deleted asks too, for what goes with them."""
        match = request.resolver_match
        own = f"{self.opts.app_label}_{self.opts.model_name}_"
        if match is None or (match.url_name or "").startswith(own):
            return False
        return super().has_delete_permission(request, obj)


Choices = list[tuple[str, str]]

STYLES = {"all": ["django_mcp/admin.css"]}


def endpoint_choices() -> Choices:
    """Every endpoint, with its path."""
    return [
        (each.name, f"{each.name} ({path_of(each)})" + ("" if takes_keys(each) else _(" – takes no API keys now")))
        for each in servers()
    ]


def scope_choices() -> Choices:
    """Every scope, with its words."""
    return [(name, f"{scope.text} ({name})") for name, scope in declared().items()]


def tool_choices() -> Choices:
    """Every tool of every endpoint, by name."""
    found: dict[str, list[str]] = {}
    for server in servers():
        for name in server.tools:
            found.setdefault(name, []).append(server.name)
    return [(name, f"{name} ({', '.join(where)})") for name, where in sorted(found.items())]


def with_stored(choices: Choices, stored: Iterable[str] | None) -> Choices:
    """*choices*, and what is stored and no longer among them, so that saving does not drop it."""
    known = {name for name, _words in choices}
    return [*choices, *((name, _("%s – does not exist now") % name) for name in stored or () if name not in known)]


def checkboxes(**options: Any) -> forms.MultipleChoiceField:
    """A field of check boxes."""
    return forms.MultipleChoiceField(widget=forms.CheckboxSelectMultiple(attrs={"class": "mcp-choices"}), **options)


LAST_NOTES = 20


class OwnPagesAdmin(_ModelAdmin):
    """What such pages have in common. Whoever may see or change rows of the model behind may see or change here.

    Attributes:
        folder: of the templates.
        behind: name of the model whose permissions count.
    """

    folder: ClassVar[str]
    behind: ClassVar[str]

    # Who may

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Whoever may see the model behind."""
        return request.user.has_perm(f"django_mcp.view_{self.behind}") or self.has_change_permission(request, obj)

    has_module_permission = has_view_permission

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        """Whoever may change it."""
        return request.user.has_perm(f"django_mcp.change_{self.behind}")

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002
        """What is here is made elsewhere."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        """And deleted there."""
        return False

    def sees_calls(self, request: HttpRequest) -> bool:
        """Whether the log of calls may be shown."""
        return request.user.has_perm("django_mcp.view_requestlog")

    # Parts of a page

    def page(self, request: HttpRequest, template: str, title: str, context: dict[str, Any]) -> TemplateResponse:
        """One of the folder's templates, as a page of the admin."""
        request.current_app = self.admin_site.name
        shared = {
            **self.admin_site.each_context(request),
            "title": title,
            "opts": self.opts,
            "may_change": self.has_change_permission(request),
        }
        return TemplateResponse(request, f"admin/django_mcp/{self.folder}/{template}.html", {**shared, **context})

    def address_of(self, key: str) -> str:
        """The page of one of them."""
        return self.address(f"{self.opts.model_name}_change", quote(key))

    def address(self, name: str, *arguments: Any) -> str:
        """A page of this app; empty where the site took it out."""
        try:
            return reverse(f"admin:django_mcp_{name}", args=arguments, current_app=self.admin_site.name)
        except NoReverseMatch:
            return ""

    def notes(self, key: str) -> Any:
        """The last entries of the history of one of them."""
        kind = get_content_type_for_model(self.model())
        entries = LogEntry.objects.filter(content_type=kind, object_id=key).select_related("user")
        return entries.order_by("-action_time", "-pk")[:LAST_NOTES]


def page_queries(request: HttpRequest, page: "Page[Any]") -> list[tuple[int, str]]:
    """Number and address of each page of a list, where there are several."""
    if page.paginator.num_pages < 2:  # noqa: PLR2004 - one is none to choose
        return []
    query, found = request.GET.copy(), []
    for number in page.paginator.page_range:
        query["p"] = str(number)
        found.append((number, f"?{query.urlencode()}"))
    return found


class BoundedPaginator(Paginator):  # type: ignore[type-arg]
    """Counts so far and no further. What lies behind is found by filters.

    Attributes:
        most: rows that are counted, and paged through.
    """

    most = 10_000

    @cached_property
    def count(self) -> int:
        """How many there are, up to ``most``."""
        rows: Any = self.object_list
        found: int = rows.order_by().values("pk")[: self.most].count()
        return found


class ReadOnlyAdmin(_ModelAdmin):
    """Nobody makes, changes or deletes anything here, superusers included."""

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002
        """Nobody."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        """Nobody."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        """Nobody."""
        return False


class StoppingAdmin(_ModelAdmin):
    """Has a page, a button and an action that stop rows. Whoever may change rows may stop them.

    Attributes:
        stop_path: the last part of the page's URL, and of its name.
        stop_title: of the page that asks whether to stop one, and of the link that leads there.
        stop_question: what it asks, with ``%s`` for the row.
        stop_answer: the button that says yes.
        stopped_one: what is said afterwards, with ``%s`` for the row.
        stopped_none: what is said where there was nothing to stop any more.
        stopped_many: the same after the action, with ``%d`` for how many.
        note: what the history of the row says.
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
        """Stop it; False where that changes nothing."""
        raise NotImplementedError

    def can_stop(self, row: Any) -> bool:
        """Whether it would change something."""
        raise NotImplementedError

    def get_urls(self) -> list[URLPattern]:
        """And the page that asks whether one is to be stopped."""
        view = self.admin_site.admin_view(self.stop_view)
        return [path(f"<int:pk>/{self.stop_path}/", view, name=self._name(self.stop_path)), *super().get_urls()]

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """With a link to that page."""
        row = self.get_object(request, object_id)
        stops = row is not None and self.can_stop(row) and self.has_change_permission(request, row)
        shown = {
            "stop_title": self.stop_title,
            "stop_url": reverse(f"admin:{self._name(self.stop_path)}", args=[object_id]) if stops else None,
        }
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), **shown})

    def stop_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Ask, and by POST do it."""
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

    def stop_all(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Stop those that are not yet; for an action."""
        count = sum(self.stop_and_log(request, row) for row in queryset)
        self.message_user(request, self.stopped_many % count, messages.SUCCESS)

    def stop_and_log(self, request: HttpRequest, row: Model) -> bool:
        """Stop it, and note that in its history."""
        pk = row.pk
        if changed := self.stop(row):
            row.pk = pk
            self.log_change(request, row, str(self.note))
        return changed

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        """What depends on it finds out."""
        self.stop(obj)
        if type(obj)._default_manager.filter(pk=obj.pk).exists():  # noqa: SLF001 - Django's documented API
            super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """What depends on them finds out."""
        for row in queryset:
            self.stop(row)
        super().delete_queryset(request, queryset)

    def _name(self, view: str) -> str:
        return f"{self.opts.app_label}_{self.opts.model_name}_{view}"


class StoppableAdmin(StoppingAdmin):
    """Nothing here is made or changed by hand, only stopped."""

    actions = ("stop_selected",)

    class Media:
        """Its styles."""

        css = STYLES

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002
        """Nobody makes any here."""
        return False

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:  # noqa: ARG002
        """All of it."""
        return self.fields or ()

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """Without buttons that save, for there is nothing to."""
        buttons = {"show_save": False, "show_save_and_continue": False}
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), **buttons})

    @admin.action(description=gettext_lazy("Stop selected %(verbose_name_plural)s"), permissions=["change"])
    def stop_selected(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Stop those that are not yet."""
        self.stop_all(request, queryset)
