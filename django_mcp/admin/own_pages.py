"""Pages of what has no table of its own: a list, and a page for each, under the names of a proxy model."""

from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.admin.options import get_content_type_for_model
from django.contrib.admin.utils import quote
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.urls import NoReverseMatch, reverse

if TYPE_CHECKING:
    from django.core.paginator import Page

    _ModelAdmin = admin.ModelAdmin[Any]
else:
    _ModelAdmin = admin.ModelAdmin

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
        return request.user.has_perm("django_mcp.view_toolcall")

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
