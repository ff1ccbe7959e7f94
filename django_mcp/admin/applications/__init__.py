"""The page of OAuth applications: which have access, in whose name, and taking it back.

It needs django-oauth-toolkit: import it where ``oauth2_provider`` is installed.
"""

from django_mcp.admin.applications.pages import ApplicationsAdmin as ApplicationsAdmin
