"""API keys and policies of OAuth clients, with their admin proxies."""

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from django_mcp.models.base import Stored
from django_mcp.models.fields import JSONTextField


class APIKey(Stored):
    """A key with which a program acts as a user, without OAuth. Make one with ``auth.api_keys.create_key``.

    The key itself is not stored, so whoever reads this table cannot use one.
    """

    key_hash = models.CharField(_("hash"), max_length=64, unique=True, help_text=_("SHA-256 of the key."))
    prefix = models.CharField(_("prefix"), max_length=32, db_index=True, help_text=_("How the key begins."))
    name = models.CharField(_("name"), max_length=100, help_text=_("What it is for."))
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="mcp_api_keys", verbose_name=_("user")
    )
    endpoints = JSONTextField(_("endpoints"), default=list, help_text=_("Names of the endpoints it opens."))
    scopes = JSONTextField(_("scopes"), default=list, help_text=_("What it allows."))
    created = models.DateTimeField(_("created"), auto_now_add=True)
    expires = models.DateTimeField(_("expires"), db_index=True)
    revoked = models.DateTimeField(_("revoked"), null=True, blank=True, default=None)
    last_used = models.DateTimeField(_("last used"), null=True, blank=True, default=None)

    class Meta:
        verbose_name = _("API key")
        verbose_name_plural = _("API keys")

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"


class ClientPolicy(Stored):
    """What the site's owner decided about an OAuth client. A client without one may do what its users agree to.

    It names the client instead of pointing to it: applications belong to django-oauth-toolkit, which a site with API
    keys alone does not install.
    """

    client_id = models.CharField(_("client id"), max_length=255, unique=True)
    blocked = models.BooleanField(_("blocked"), default=False, help_text=_("None of its tokens is accepted."))
    scopes = JSONTextField(
        _("scopes"), null=True, blank=True, default=None, help_text=_("Maximum scopes; empty for no limit.")
    )
    tools = JSONTextField(
        _("tools"), null=True, blank=True, default=None, help_text=_("Tools it may use; empty for all.")
    )
    service_account = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.CASCADE,
        null=True,
        blank=True,
        default=None,
        related_name="mcp_clients",
        verbose_name=_("service account"),
        help_text=_("User whose permissions it has when it calls on its own behalf (client credentials)."),
    )

    class Meta:
        verbose_name = _("client policy")
        verbose_name_plural = _("client policies")

    def __str__(self) -> str:
        return self.client_id


class OAuthClient(ClientPolicy):
    """Every OAuth application with who let it in. It is a model so that every admin site lists it, and has no table.

    The history of an application is kept under it too: ``LogEntry`` names the application by its client id.
    """

    class Meta:
        proxy = True
        default_permissions = ()
        verbose_name = _("OAuth client")
        verbose_name_plural = _("OAuth clients")
