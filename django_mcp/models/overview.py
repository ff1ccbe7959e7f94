"""A place in the admin for the page of plots."""

from django.utils.translation import gettext_lazy as _

from django_mcp.models.calls import ToolCall


class Overview(ToolCall):
    """The log of calls as one page. It is a model so that every admin site lists it, and has no table."""

    class Meta:
        proxy = True
        default_permissions = ()
        verbose_name = _("overview")
        verbose_name_plural = _("overview")
