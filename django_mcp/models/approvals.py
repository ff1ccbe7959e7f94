"""Tool policies, approvals and notices, with their admin proxies."""

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from django_mcp.models.base import Stored
from django_mcp.models.fields import JSONTextField
from django_mcp.models.tasks import Task


class ToolPolicy(Stored):
    """What is decided about a tool: for everybody, or for the users of a group or for one client.

    For a caller the strictest of those counts that are for their groups and client; where there is none, the one for
    everybody; where there is none either, what the tool says of itself.
    """

    class Decision(models.TextChoices):
        """The strictest last."""

        ALLOW = "allow", _("allow")
        ASK = "ask", _("require approval")
        BLOCK = "block", _("block")

    server = models.CharField(_("endpoint"), max_length=64)
    tool = models.CharField(_("tool"), max_length=128)
    group = models.ForeignKey(
        "auth.Group",
        models.CASCADE,
        null=True,
        blank=True,
        default=None,
        related_name="mcp_policies",
        verbose_name=_("group"),
        help_text=_("The group whose users it applies to; empty for everyone."),
    )
    client_id = models.CharField(
        _("client id"),
        max_length=255,
        blank=True,
        default="",
        help_text=_("Client id; empty for every client."),
    )
    decision = models.CharField(_("decision"), max_length=8, choices=Decision.choices)
    changed = models.DateTimeField(_("changed"), auto_now=True)
    changed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.SET_NULL,
        null=True,
        editable=False,
        related_name="+",
        verbose_name=_("changed by"),
    )

    class Meta:
        verbose_name = _("tool policy")
        verbose_name_plural = _("tool policies")
        constraints = (
            models.UniqueConstraint(
                fields=["server", "tool", "client_id"], condition=Q(group=None), name="django_mcp_toolpolicy_client"
            ),
            models.UniqueConstraint(
                fields=["server", "tool", "group", "client_id"],
                condition=Q(group__isnull=False),
                name="django_mcp_toolpolicy_group",
            ),
        )

    def __str__(self) -> str:
        return f"{self.server} {self.tool}: {self.get_decision_display()}"


class ToolSnapshot(Stored):
    """A tool as somebody accepted it. Where it became another one since, people see the difference."""

    server = models.CharField(_("endpoint"), max_length=64)
    tool = models.CharField(_("tool"), max_length=128)
    definition = JSONTextField(_("definition"), help_text=_("Name, description, schemas and hints."))
    digest = models.CharField(_("digest"), max_length=64, help_text=_("SHA-256 of the definition."))
    accepted = models.DateTimeField(_("accepted"))
    accepted_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+", verbose_name=_("accepted by")
    )

    class Meta:
        verbose_name = _("tool snapshot")
        verbose_name_plural = _("tool snapshots")
        constraints = (models.UniqueConstraint(fields=["server", "tool"], name="django_mcp_toolsnapshot_once"),)

    def __str__(self) -> str:
        return f"{self.server} {self.tool}"


class AutoApprovalRule(Stored):
    """Lets calls of one caller through that would otherwise ask: so many, or for some time."""

    server = models.CharField(_("endpoint"), max_length=64)
    tool = models.CharField(_("tool"), max_length=128)
    principal_kind = models.CharField(_("kind of caller"), max_length=32)
    principal_id = models.CharField(_("caller"), max_length=255)
    client_id = models.CharField(_("OAuth client"), max_length=255, blank=True)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, null=True, related_name="+", verbose_name=_("user")
    )
    arguments = JSONTextField(
        _("arguments"), default=dict, help_text=_("What they must be, without secrets; others may be anything.")
    )
    pattern = JSONTextField(_("pattern"), default=dict, help_text=_("Digests of what they must be."))
    version = models.CharField(_("version"), max_length=64, help_text=_("Of tool and policy."))
    remaining = models.PositiveIntegerField(_("calls left"), null=True, help_text=_("Empty for any number."))
    created = models.DateTimeField(_("created"))
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="+", verbose_name=_("created by")
    )
    expires = models.DateTimeField(_("expires"), db_index=True)
    revoked = models.DateTimeField(_("revoked"), null=True, default=None)

    class Meta:
        verbose_name = _("auto-approval rule")
        verbose_name_plural = _("auto-approval rules")
        # With the time, for those that are over stay as long as the log of approvals.
        indexes = (
            models.Index(
                fields=["principal_id", "principal_kind", "tool", "expires"], name="django_mcp_standing_caller"
            ),
        )

    def __str__(self) -> str:
        return f"{self.tool}: {self.principal_kind} {self.principal_id}"


class Approval(Stored):
    """An approval request: one call that somebody else has to approve, and what became of it.

    Its public id is no secret: it opens nothing. A call is let through because it is the same call, by the same caller.
    """

    class State(models.TextChoices):
        """Pending and approved are the only ones that anything leads out of."""

        PENDING = "pending", _("pending")
        APPROVED = "approved", _("approved")
        DENIED = "denied", _("denied")
        EXPIRED = "expired", _("expired")
        CONSUMED = "consumed", _("used")

    public_id = models.CharField(_("approval request"), max_length=32, unique=True)
    server = models.CharField(_("endpoint"), max_length=64)
    tool = models.CharField(_("tool"), max_length=128)
    principal_kind = models.CharField(_("kind of caller"), max_length=32)
    principal_id = models.CharField(_("caller"), max_length=255)
    client_id = models.CharField(_("OAuth client"), max_length=255, blank=True)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="mcp_approvals", verbose_name=_("user")
    )
    client = JSONTextField(_("client"), null=True, default=None, help_text=_("As it says of itself."))
    arguments = JSONTextField(_("arguments"), help_text=_("Without secrets."))
    withheld = JSONTextField(_("withheld"), default=dict, help_text=_("Values hidden from approvers, with the reason."))
    digest = models.CharField(_("digest"), max_length=64, help_text=_("Of the caller, the tool and the arguments."))
    parts = JSONTextField(_("parts"), default=dict, help_text=_("Digests of single arguments."))
    version = models.CharField(_("version"), max_length=64, help_text=_("Of tool and policy."))
    preview = JSONTextField(_("preview"), null=True, default=None, help_text=_("What would change."))
    preview_digest = models.CharField(_("digest of the preview"), max_length=64, blank=True)
    state = models.CharField(_("state"), max_length=8, choices=State.choices, default=State.PENDING)
    created = models.DateTimeField(_("created"))
    expires = models.DateTimeField(_("expires"), db_index=True)
    decided = models.DateTimeField(_("decided"), null=True, default=None)
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+", verbose_name=_("decided by")
    )
    reason = models.TextField(_("reason"), blank=True)
    standing = models.ForeignKey(
        AutoApprovalRule, models.SET_NULL, null=True, related_name="approvals", verbose_name=_("auto-approval rule")
    )
    task = models.ForeignKey(Task, models.SET_NULL, null=True, related_name="approvals", verbose_name=_("task"))
    consumed = models.DateTimeField(_("used"), null=True, default=None)
    run = models.CharField(_("run"), max_length=64, blank=True, help_text=_("Of the dialogue that used it."))
    rounds = models.PositiveIntegerField(_("rounds"), default=0, help_text=_("In which it ran."))
    outcome = models.CharField(_("outcome"), max_length=16, blank=True)

    class Meta:
        verbose_name = _("approval")
        verbose_name_plural = _("approvals")
        permissions = (("approve_tool_call", _("Can approve calls of tools")),)
        constraints = (
            models.UniqueConstraint(
                fields=["digest"], condition=Q(state__in=["pending", "approved"]), name="django_mcp_approval_live"
            ),
        )
        indexes = (
            models.Index(fields=["digest", "state"], name="django_mcp_approval_call"),
            models.Index(fields=["state", "expires"], name="django_mcp_approval_state"),
            # To the time, or SQLite would rather go through what waits of all callers.
            models.Index(
                fields=["principal_id", "principal_kind", "state", "expires"], name="django_mcp_approval_caller"
            ),
        )

    def __str__(self) -> str:
        return f"{self.tool} ({self.get_state_display()})"


class ApprovalEvent(Stored):
    """Something that happened to an approval request; written with it, or not at all."""

    class Kind(models.TextChoices):
        """In the order in which they usually come."""

        PROPOSED = "proposed", _("asked for")
        REPEATED = "repeated", _("asked for again")
        SHOWN = "shown", _("shown")
        APPROVED = "approved", _("approved")
        DENIED = "denied", _("denied")
        EXPIRED = "expired", _("expired")
        EXECUTED = "executed", _("run")
        RETURNED = "returned", _("answered")
        REJECTED = "rejected", _("rejected")

    approval = models.ForeignKey(Approval, models.CASCADE, related_name="events", verbose_name=_("approval"))
    kind = models.CharField(_("kind"), max_length=16, choices=Kind.choices)
    at = models.DateTimeField(_("time"))
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+", verbose_name=_("by"))
    note = models.TextField(_("note"), blank=True)

    class Meta:
        verbose_name = _("event of an approval")
        verbose_name_plural = _("events of approvals")

    def __str__(self) -> str:
        return f"{self.get_kind_display()} {self.at:%Y-%m-%d %H:%M:%S}"


class Notice(Stored):
    """Word to somebody that a call waits: an e-mail or a webhook, tried until it is delivered or no longer of use."""

    approval = models.ForeignKey(Approval, models.CASCADE, related_name="notices", verbose_name=_("approval"))
    kind = models.CharField(_("kind"), max_length=16, choices=[("email", _("e-mail")), ("webhook", _("webhook"))])
    target = models.CharField(_("to"), max_length=500)
    attempts = models.PositiveIntegerField(_("attempts"), default=0)
    next_attempt = models.DateTimeField(_("next attempt"), null=True)
    delivered = models.DateTimeField(_("delivered"), null=True, default=None)
    error = models.TextField(_("error"), blank=True)

    class Meta:
        verbose_name = _("notice")
        verbose_name_plural = _("notices")
        # Of those alone that are still to be tried. SQLite looks for no "IS NOT NULL" in an index of all.
        indexes = (
            models.Index(
                fields=["next_attempt"], condition=Q(next_attempt__isnull=False), name="django_mcp_notice_due"
            ),
        )

    def __str__(self) -> str:
        return f"{self.kind} {self.target}"


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
