"""Pages in Django's admin."""

from django.apps import apps

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

if apps.is_installed("oauth2_provider"):
    from django_mcp.admin.applications import ApplicationsAdmin as ApplicationsAdmin
