"""A place in the admin for the page where tools are tried."""

from django.utils.translation import gettext_lazy as _

from django_mcp.models.calls import ToolCall


class TryTool(ToolCall):
    """What an endpoint offers, to be called from a page. It is a model so that every admin site lists it."""

    class Meta:
        proxy = True
        default_permissions = ()
        permissions = (("try_tool", _("Can call tools as oneself on the page “Try a tool”")),)
        verbose_name = _("try a tool")
        verbose_name_plural = _("try a tool")
