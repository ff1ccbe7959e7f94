"""Pages in Django's admin."""

from django_mcp.admin.keys import APIKeyAdmin as APIKeyAdmin
from django_mcp.admin.policies import ClientPolicyAdmin as ClientPolicyAdmin
from django_mcp.admin.sessions import SessionAdmin as SessionAdmin
from django_mcp.admin.tasks import TaskAdmin as TaskAdmin
