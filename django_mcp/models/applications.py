"""A place in the admin for the page of applications."""

from django.utils.translation import gettext_lazy as _

from django_mcp.models.access import ClientPolicy


class Applications(ClientPolicy):
    """Every OAuth application with who let it in. It is a model so that every admin site lists it, and has no table.

    The history of an application is kept under it too: ``LogEntry`` names the application by its client id.
    """

    class Meta:
        proxy = True
        default_permissions = ()
        verbose_name = _("application")
        verbose_name_plural = _("applications")
