"""The pages of applications: all of them, one, and one that asks whether all its access is to be taken back."""

from typing import Any
from urllib.parse import urlencode

from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.urls import URLPattern, path
from django.utils.translation import gettext as _

from django_mcp.admin.applications import facts
from django_mcp.admin.applications.changing import Changing
from django_mcp.admin.applications.lines import Choosing, Lines
from django_mcp.admin.own_pages import OwnPagesAdmin, page_queries
from django_mcp.auth.toolkit import get_application_model
from django_mcp.models import ClientPolicy
from django_mcp.oauth import consent
from django_mcp.oauth.connected_apps import acts_for_itself, name_of, people

PER_PAGE = 100


class ApplicationsAdmin(OwnPagesAdmin):
    """Whoever may see client policies sees applications, and whoever may change them takes access back."""

    folder, behind = "applications", "clientpolicy"

    def get_urls(self) -> list[URLPattern]:
        """Under the names by which admin sites link models, and histories objects."""
        view = self.admin_site.admin_view
        return [
            path("", view(self.list_view), name="django_mcp_applications_changelist"),
            path("<path:object_id>/change/", view(self.application_view), name="django_mcp_applications_change"),
            path("<path:object_id>/take-back/", view(self.take_back_view), name="django_mcp_applications_take_back"),
        ]

    # All of them

    def list_view(self, request: HttpRequest) -> HttpResponseBase:
        """Every application that the site knows.

        Raises:
            PermissionDenied: they may not see.
        """
        if not self.has_view_permission(request):
            raise PermissionDenied
        choosing = Choosing(request.GET)
        page = Paginator(Lines(choosing), PER_PAGE).get_page(request.GET.get("p"))
        context = {
            "choosing": choosing,
            "page": page,
            "page_queries": page_queries(request, page),
            "number": get_application_model().objects.count() if choosing.is_narrowed else page.paginator.count,
            "sees_calls": self.sees_calls(request),
            "rows": [(each, self.address_of(each.application.client_id)) for each in page],
        }
        return self.page(request, "list", str(self.opts.verbose_name_plural).capitalize(), context)

    # One of them

    def application_view(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        """What it is, and who let it in. By POST, take back what it has of one user, or block it.

        Raises:
            PermissionDenied: they may not see, or not change.
        """
        application = self._find(request, object_id)
        if application is None:
            return self._no_such(request, object_id)
        if request.method == "POST":
            self._change(request, application)
            return HttpResponseRedirect(request.get_full_path())
        page = Paginator(people(application), PER_PAGE).get_page(request.GET.get("p"))
        policy = ClientPolicy.objects.filter(client_id=application.client_id).select_related("acts_as").first()
        context = {
            **self._about(application),
            "origin": consent.origin(application),
            "document": facts.document_of(application),
            "hosts": facts.hosts_of(application),
            "policy_words": facts.policy_words(application, policy),
            "policy_address": self._policy_address(request, application, policy),
            "has_policy": policy is not None,
            "holders": facts.holders(application, [each["user"] for each in page]),
            "page": page,
            "page_queries": page_queries(request, page),
            "sees_calls": self.sees_calls(request),
            "calls_address": self._calls_address(application),
            "take_back_address": self.address("applications_take_back", quote(application.client_id)),
            "notes": self.notes(application.client_id),
        }
        return self.page(request, "application", name_of(application), context)

    def _change(self, request: HttpRequest, application: Any) -> None:
        if not self.has_change_permission(request):
            raise PermissionDenied
        given, changing = request.POST, Changing(self, request, application)
        if "take_back" in given:
            changing.take_back(given["take_back"])
        elif given.get("blocked") in {"yes", "no"}:
            changing.block(blocked=given["blocked"] == "yes")

    def take_back_view(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        """Ask whether all its access is to be taken back, and by POST do it.

        Raises:
            PermissionDenied: they may not.
        """
        application = self._find(request, object_id)
        if not self.has_change_permission(request):
            raise PermissionDenied
        if application is None:
            return self._no_such(request, object_id)
        if request.method == "POST":
            Changing(self, request, application).take_back_all()
            return HttpResponseRedirect(self.address_of(application.client_id))
        context = {
            **self._about(application),
            "people": people(application).count(),
            "address": self.address_of(application.client_id),
        }
        return self.page(request, "take_back", _("Take back all access"), context)

    def _find(self, request: HttpRequest, object_id: str) -> Any:
        if not self.has_view_permission(request):
            raise PermissionDenied
        return facts.find(unquote(object_id))

    def _no_such(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._get_obj_does_not_exist_redirect(request, self.opts, unquote(object_id))  # type: ignore[attr-defined, no-any-return]

    def _about(self, application: Any) -> dict[str, Any]:
        return {
            "application": application,
            "name": name_of(application),
            "acts_for_itself": acts_for_itself(application),
        }

    def _policy_address(self, request: HttpRequest, application: Any, policy: ClientPolicy | None) -> str:
        """Of the page on which its policy is changed, or made; empty for those who may not."""
        if policy is not None:
            return self.address("clientpolicy_change", policy.pk)
        address = self.address("clientpolicy_add")
        if not address or not request.user.has_perm("django_mcp.add_clientpolicy"):
            return ""
        return f"{address}?{urlencode({'client_id': application.client_id})}"

    def _calls_address(self, application: Any) -> str:
        listing = self.address("toolcall_changelist")
        return f"{listing}?{urlencode({'client_id': application.client_id})}" if listing else ""
