"""Pages in Django's admin: which ``ModelAdmin`` is registered for which model."""

from django.contrib import admin

from django_mcp import models
from django_mcp.admin.api_keys import APIKeyAdmin
from django_mcp.admin.approvals import ApprovalAdmin
from django_mcp.admin.auto_approvals import AutoApprovalRuleAdmin
from django_mcp.admin.client_policies import ClientPolicyAdmin
from django_mcp.admin.dashboard import OverviewAdmin
from django_mcp.admin.navigation import order_app_list
from django_mcp.admin.playground import PlaygroundAdmin
from django_mcp.admin.request_log import RequestLogAdmin
from django_mcp.admin.sessions import SessionAdmin
from django_mcp.admin.tasks import TaskAdmin
from django_mcp.admin.tools import ToolsAdmin
from django_mcp.auth.oauth import has_toolkit

admin.site.register(models.Approval, ApprovalAdmin)
admin.site.register(models.AutoApprovalRule, AutoApprovalRuleAdmin)
admin.site.register(models.RequestLog, RequestLogAdmin)
admin.site.register(models.APIKey, APIKeyAdmin)
admin.site.register(models.Overview, OverviewAdmin)
admin.site.register(models.ClientPolicy, ClientPolicyAdmin)
admin.site.register(models.Session, SessionAdmin)
admin.site.register(models.Task, TaskAdmin)
admin.site.register(models.Tools, ToolsAdmin)
admin.site.register(models.Playground, PlaygroundAdmin)

if has_toolkit():
    from django_mcp.admin.oauth_clients import OAuthClientAdmin

    admin.site.register(models.OAuthClient, OAuthClientAdmin)

order_app_list(admin.site)
