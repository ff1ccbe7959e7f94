"""Rows of what people decided: to be looked at, and never made, changed or deleted by hand."""

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.http import HttpRequest

from django_mcp.approvals.notices import APPROVE

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Any]
else:
    _ModelAdmin = admin.ModelAdmin

STYLES = {"all": ["django_mcp/admin.css", "django_mcp/approvals.css"]}


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
