"""Models of API keys and OAuth client policies, with their admin proxies."""

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from django_mcp.models.base import Stored
from django_mcp.models.fields import IdentifierField, JSONTextField


class APIKey(Stored):
    """A key with which a program acts as a user. Create one with ``auth.api_keys.create_key``.

    Only a hash of the key is stored.
    """

    key_hash = IdentifierField(_("hash"), max_length=64, unique=True, help_text=_("SHA-256 of the key."))
    prefix = IdentifierField(_("prefix"), max_length=32, db_index=True, help_text=_("First characters of the key."))
    name = models.CharField(_("name"), max_length=100, help_text=_("Purpose of the key."))
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="mcp_api_keys", verbose_name=_("user")
    )
    endpoints = JSONTextField(_("endpoints"), default=list, help_text=_("Endpoints that accept the key."))
    scopes = JSONTextField(_("scopes"), default=list, help_text=_("Scopes of the key."))
    read_only = models.BooleanField(
        _("only tools that change nothing"),
        default=False,
        help_text=_("The key opens only read-only tools, resources and prompts."),
    )
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
    """An administrator's restrictions for an OAuth client. A client without one may do what its users consent to.

    The policies of the tools that it may use are rows of ``ToolPolicy``.
    It stores the client id, not a foreign key: django-oauth-toolkit, which owns applications, is optional.
    """

    client_id = IdentifierField(_("client id"), max_length=255, unique=True)
    blocked = models.BooleanField(_("blocked"), default=False, help_text=_("Rejects all of its tokens."))
    scopes = JSONTextField(
        _("scopes"), null=True, blank=True, default=None, help_text=_("Maximum scopes. Empty: no limit.")
    )
    tools = JSONTextField(
        _("tools"),
        null=True,
        blank=True,
        default=None,
        help_text=_("Tools that the client may use, as endpoint.tool. Empty: no limit."),
    )
    read_only = models.BooleanField(
        _("only tools that change nothing"),
        default=False,
        help_text=_("The client may use only read-only tools, resources and prompts."),
    )
    service_account = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.SET_NULL,  # what else the policy decides stays
        null=True,
        blank=True,
        default=None,
        related_name="mcp_clients",
        verbose_name=_("service account"),
        help_text=_("User whose permissions the client has when it acts for itself (client credentials grant)."),
    )

    class Meta:
        verbose_name = _("client policy")
        verbose_name_plural = _("client policies")

    def __str__(self) -> str:
        return self.client_id


class OAuthClient(ClientPolicy):
    """Admin proxy for the pages of OAuth clients, so that every admin site lists them. Has no table of its own.

    ``LogEntry`` stores a client's history under it; the object id is the client id.
    """

    class Meta:
        proxy = True
        default_permissions = ()
        verbose_name = _("OAuth client")
        verbose_name_plural = _("OAuth clients")
