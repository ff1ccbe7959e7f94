"""Pages in Django's admin."""

from django_mcp.admin.keys import APIKeyAdmin as APIKeyAdmin
from django_mcp.admin.policies import ClientPolicyAdmin as ClientPolicyAdmin
