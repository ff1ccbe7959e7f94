"""Pages of what runs by itself: to be looked at, and stopped."""

from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext_lazy

from django_mcp.admin.choices import STYLES

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Any]
    _Rows = QuerySet[Any]
    from django.utils.functional import _StrPromise as Words
else:
    _ModelAdmin = admin.ModelAdmin
    _Rows = QuerySet
    Words = str


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

    def stop_all(self, request: HttpRequest, queryset: _Rows) -> None:
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

    def delete_queryset(self, request: HttpRequest, queryset: _Rows) -> None:
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
    def stop_selected(self, request: HttpRequest, queryset: _Rows) -> None:
        """Stop those that are not yet."""
        self.stop_all(request, queryset)
