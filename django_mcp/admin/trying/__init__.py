"""“Try a tool”: what an endpoint offers is called from a page, as whoever is logged in, and shown as models see it."""

from django_mcp.admin.trying.pages import TryToolAdmin as TryToolAdmin
