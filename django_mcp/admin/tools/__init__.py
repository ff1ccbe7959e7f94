"""The page of tools: what each is, who may call it, what people decided about it, and what changed since."""

from django_mcp.admin.tools.pages import ToolsAdmin as ToolsAdmin
