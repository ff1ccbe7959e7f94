"""Pages in Django's admin. They are imported when somebody asks for one, see ``deferred``."""

from typing import TYPE_CHECKING, Any

from django.apps import apps

from django_mcp import models
from django_mcp.admin.deferred import TABLE, Deferred

if TYPE_CHECKING:
    from django_mcp.admin.applications import ApplicationsAdmin as ApplicationsAdmin
    from django_mcp.admin.approvals import ApprovalAdmin as ApprovalAdmin
    from django_mcp.admin.approvals import StandingApprovalAdmin as StandingApprovalAdmin
    from django_mcp.admin.calls import ToolCallAdmin as ToolCallAdmin
    from django_mcp.admin.keys import APIKeyAdmin as APIKeyAdmin
    from django_mcp.admin.overview import OverviewAdmin as OverviewAdmin
    from django_mcp.admin.policies import ClientPolicyAdmin as ClientPolicyAdmin
    from django_mcp.admin.sessions import SessionAdmin as SessionAdmin
    from django_mcp.admin.tasks import TaskAdmin as TaskAdmin
    from django_mcp.admin.tools import ToolsAdmin as ToolsAdmin
    from django_mcp.admin.trying import TryToolAdmin as TryToolAdmin

PAGES: tuple[Deferred, ...] = (
    Deferred(
        models.Approval,
        "django_mcp.admin.approvals.pages",
        "ApprovalAdmin",
        (
            ("_waiting", "waiting/"),
            ("_waiting_one", "<int:pk>/waiting/"),
            ("_decide", "<int:pk>/decide/"),
            *TABLE,
        ),
    ),
    Deferred(
        models.StandingApproval,
        "django_mcp.admin.approvals.standing",
        "StandingApprovalAdmin",
        (("_revoke", "<int:pk>/revoke/"), *TABLE),
    ),
    Deferred(models.ToolCall, "django_mcp.admin.calls", "ToolCallAdmin", (("_export", "export.csv"), *TABLE)),
    Deferred(models.APIKey, "django_mcp.admin.keys", "APIKeyAdmin", (("_revoke", "<int:pk>/revoke/"), *TABLE)),
    Deferred(models.Overview, "django_mcp.admin.overview", "OverviewAdmin", (("_changelist", ""), ("", ""))),
    Deferred(models.ClientPolicy, "django_mcp.admin.policies", "ClientPolicyAdmin", TABLE),
    Deferred(models.Session, "django_mcp.admin.sessions", "SessionAdmin", (("_stop", "<int:pk>/stop/"), *TABLE)),
    Deferred(models.Task, "django_mcp.admin.tasks", "TaskAdmin", (("_stop", "<int:pk>/stop/"), *TABLE)),
    Deferred(
        models.Tools,
        "django_mcp.admin.tools.pages",
        "ToolsAdmin",
        (("_changelist", ""), ("_change", "<path:object_id>/change/")),
    ),
    Deferred(
        models.TryTool,
        "django_mcp.admin.trying.pages",
        "TryToolAdmin",
        (("_changelist", ""), ("_call", "call/"), ("_task", "task/")),
    ),
)
APPLICATIONS = Deferred(
    models.Applications,
    "django_mcp.admin.applications.pages",
    "ApplicationsAdmin",
    (("_changelist", ""), ("_change", "<path:object_id>/change/"), ("_take_back", "<path:object_id>/take-back/")),
)

if apps.is_installed("oauth2_provider"):
    PAGES = (*PAGES, APPLICATIONS)

for _page in PAGES:
    _page.register()

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        for page in PAGES:
            if page.name == name:
                return page.load()
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
