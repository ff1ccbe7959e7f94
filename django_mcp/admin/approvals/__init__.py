"""Calls that somebody has to approve, in the admin: those that wait, what became of others, and standing approvals."""

from django_mcp.admin.approvals.pages import ApprovalAdmin as ApprovalAdmin
