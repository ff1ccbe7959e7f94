"""A place in the admin for the page of tools."""

from django.utils.translation import gettext_lazy as _

from django_mcp.models.control import ToolPolicy


class Tools(ToolPolicy):
    """Every tool with what was decided about it. It is a model so that every admin site lists it, and has no table.

    The history of a tool is kept under it too: ``LogEntry`` names the tool as ``endpoint.name``.
    """

    class Meta:
        proxy = True
        default_permissions = ()
        verbose_name = _("tool")
        verbose_name_plural = _("tools")

    def __str__(self) -> str:
        return f"{self.tool} ({self.server})"
