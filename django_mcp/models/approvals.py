"""Models of tool policies, approvals and notices, with their admin proxies."""

import hashlib
import json

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from django_mcp.models.base import Stored
from django_mcp.models.fields import IdentifierField, JSONTextField, UniqueKeyField
from django_mcp.models.tasks import Task


class ToolPolicy(Stored):
    """A decision about a tool: for everyone, for a group's users or for one client.

    If several policies match a caller's groups or client, the strictest applies. Otherwise the general policy applies,
    or else the tool's default. The tools that a client is limited to are in its ``ClientPolicy``.
    """

    class Decision(models.TextChoices):
        """In order of strictness."""

        ALLOW = "allow", _("allow")
        ASK = "ask", _("require approval")
        BLOCK = "block", _("block")

    server = IdentifierField(_("endpoint"), max_length=64)
    tool = IdentifierField(_("tool"), max_length=128)
    group = models.ForeignKey(
        "auth.Group",
        models.CASCADE,
        null=True,
        blank=True,
        default=None,
        related_name="mcp_policies",
        verbose_name=_("group"),
        help_text=_("Group it applies to. Empty: all users."),
    )
    client_id = IdentifierField(
        _("client id"),
        max_length=255,
        blank=True,
        default="",
        help_text=_("Client it applies to. Empty: all clients."),
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
    unique_key = UniqueKeyField()

    class Meta:
        verbose_name = _("tool policy")
        verbose_name_plural = _("tool policies")

    def __str__(self) -> str:
        return f"{self.server} {self.tool}: {self.get_decision_display()}"

    def compute_unique_key(self) -> str:
        # NULL groups would be distinct in a constraint.
        parts = [self.server, self.tool, self.group_id, self.client_id]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


class ToolSnapshot(Stored):
    """The last approved definition of a tool, to show later changes."""

    server = IdentifierField(_("endpoint"), max_length=64)
    tool = IdentifierField(_("tool"), max_length=128)
    definition = JSONTextField(_("definition"), help_text=_("Name, description, schemas and hints."))
    digest = IdentifierField(_("digest"), max_length=64, help_text=_("SHA-256 of the definition."))
    approved = models.DateTimeField(_("approved"))
    approved_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+", verbose_name=_("approved by")
    )

    class Meta:
        verbose_name = _("tool snapshot")
        verbose_name_plural = _("tool snapshots")
        constraints = (models.UniqueConstraint(fields=["server", "tool"], name="django_mcp_toolsnapshot_once"),)

    def __str__(self) -> str:
        return f"{self.server} {self.tool}"


class Tools(ToolSnapshot):
    """The tools page's view of the table, under a name that its readers know.

    ``LogEntry`` stores a tool's history under it; the object id is ``endpoint.name``.
    """

    class Meta:
        proxy = True
        default_permissions = ()
        verbose_name = _("tool")
        verbose_name_plural = _("tools")

    def __str__(self) -> str:
        return f"{self.tool} ({self.server})"


class AutoApprovalRule(Stored):
    """Approves matching calls of one caller, up to a number of calls and a time."""

    server = IdentifierField(_("endpoint"), max_length=64)
    tool = IdentifierField(_("tool"), max_length=128)
    principal_kind = IdentifierField(_("caller type"), max_length=32)
    principal_id = IdentifierField(_("caller"), max_length=255)
    client_id = IdentifierField(_("OAuth client"), max_length=255, blank=True)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, null=True, related_name="+", verbose_name=_("user")
    )
    arguments = JSONTextField(
        _("arguments"), default=dict, help_text=_("Required values, without secrets. Others may have any value.")
    )
    pattern = JSONTextField(_("pattern"), default=dict, help_text=_("Digests of the required values."))
    version = IdentifierField(_("version"), max_length=64, help_text=_("Version of the tool and its policy."))
    remaining = models.PositiveIntegerField(_("calls left"), null=True, help_text=_("Empty for no limit."))
    created = models.DateTimeField(_("created"))
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="+", verbose_name=_("created by")
    )
    expires = models.DateTimeField(_("expires"), db_index=True)
    revoked = models.DateTimeField(_("revoked"), null=True, default=None)

    class Meta:
        verbose_name = _("auto-approval rule")
        verbose_name_plural = _("auto-approval rules")
        # With the time, as expired rules stay as long as the approval log.
        indexes = (
            models.Index(fields=["principal_id", "principal_kind", "tool", "expires"], name="django_mcp_rule_caller"),
        )

    def __str__(self) -> str:
        return f"{self.tool}: {self.principal_kind} {self.principal_id}"


class Approval(Stored):
    """An approval request: one call that a person has to approve, and its outcome.

    The public id is not a secret: a call runs because it is the same call by the same caller.
    """

    class State(models.TextChoices):
        """Only pending and approved requests change state."""

        PENDING = "pending", _("pending")
        APPROVED = "approved", _("approved")
        DENIED = "denied", _("denied")
        EXPIRED = "expired", _("expired")
        CONSUMED = "consumed", _("used")

    public_id = IdentifierField(_("approval request"), max_length=32, unique=True)
    server = IdentifierField(_("endpoint"), max_length=64)
    tool = IdentifierField(_("tool"), max_length=128)
    principal_kind = IdentifierField(_("caller type"), max_length=32)
    principal_id = IdentifierField(_("caller"), max_length=255)
    client_id = IdentifierField(_("OAuth client"), max_length=255, blank=True)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="mcp_approvals", verbose_name=_("user")
    )
    client = JSONTextField(_("client"), null=True, default=None, help_text=_("Name and version, self-reported."))
    arguments = JSONTextField(_("arguments"), help_text=_("Without secrets."))
    withheld = JSONTextField(_("withheld"), default=dict, help_text=_("Values hidden from approvers, with the reason."))
    digest = IdentifierField(_("digest"), max_length=64, help_text=_("Digest of caller, tool and arguments."))
    parts = JSONTextField(_("parts"), default=dict, help_text=_("Digest of each argument."))
    version = IdentifierField(_("version"), max_length=64, help_text=_("Version of the tool and its policy."))
    preview = JSONTextField(_("preview"), null=True, default=None, help_text=_("Changes that the call would make."))
    preview_digest = IdentifierField(_("preview digest"), max_length=64, blank=True)
    state = models.CharField(_("state"), max_length=8, choices=State.choices, default=State.PENDING)
    created = models.DateTimeField(_("created"))
    expires = models.DateTimeField(_("expires"), db_index=True)
    decided = models.DateTimeField(_("decided"), null=True, default=None)
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+", verbose_name=_("decided by")
    )
    reason = models.TextField(_("reason"), blank=True)
    rule = models.ForeignKey(
        AutoApprovalRule, models.SET_NULL, null=True, related_name="approvals", verbose_name=_("auto-approval rule")
    )
    task = models.ForeignKey(Task, models.SET_NULL, null=True, related_name="approvals", verbose_name=_("task"))
    consumed = models.DateTimeField(_("used"), null=True, default=None)
    run = IdentifierField(_("run"), max_length=64, blank=True, help_text=_("Id of the dialogue that used it."))
    rounds = models.PositiveIntegerField(_("rounds"), default=0, help_text=_("Number of rounds run."))
    outcome = models.CharField(_("outcome"), max_length=16, blank=True)
    unique_key = UniqueKeyField()

    class Meta:
        verbose_name = _("approval")
        verbose_name_plural = _("approvals")
        permissions = (("approve_tool_call", _("Can approve tool calls")),)
        constraints = (
            models.CheckConstraint(
                condition=Q(state__in=["pending", "approved"], unique_key__isnull=False)
                | (~Q(state__in=["pending", "approved"]) & Q(unique_key=None)),
                name="django_mcp_approval_live",
            ),
        )
        indexes = (
            models.Index(fields=["digest", "state"], name="django_mcp_approval_call"),
            models.Index(fields=["state", "expires"], name="django_mcp_approval_state"),
            # Includes the time, or SQLite would scan the pending requests of all callers.
            models.Index(
                fields=["principal_id", "principal_kind", "state", "expires"], name="django_mcp_approval_caller"
            ),
        )

    def __str__(self) -> str:
        return f"{self.tool} ({self.get_state_display()})"

    def compute_unique_key(self) -> str | None:
        # An identical call has one request while it is pending or approved.
        return self.digest if self.state in {self.State.PENDING, self.State.APPROVED} else None


class ApprovalEvent(Stored):
    """An event in the history of an approval request, written in the same transaction."""

    class Kind(models.TextChoices):
        """In their usual order."""

        PROPOSED = "proposed", _("requested")
        REPEATED = "repeated", _("repeated")
        SHOWN = "shown", _("viewed")
        APPROVED = "approved", _("approved")
        DENIED = "denied", _("denied")
        EXPIRED = "expired", _("expired")
        EXECUTED = "executed", _("started")
        RETURNED = "returned", _("finished")
        REJECTED = "rejected", _("rejected")

    approval = models.ForeignKey(Approval, models.CASCADE, related_name="events", verbose_name=_("approval"))
    kind = models.CharField(_("kind"), max_length=16, choices=Kind.choices)
    at = models.DateTimeField(_("time"))
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+", verbose_name=_("by"))
    note = models.TextField(_("note"), blank=True)

    class Meta:
        verbose_name = _("approval event")
        verbose_name_plural = _("approval events")

    def __str__(self) -> str:
        return f"{self.get_kind_display()} {self.at:%Y-%m-%d %H:%M:%S}"


class Notice(Stored):
    """A message to an approver about a pending call, by e-mail or webhook, retried until delivered or obsolete."""

    approval = models.ForeignKey(Approval, models.CASCADE, related_name="notices", verbose_name=_("approval"))
    kind = models.CharField(_("kind"), max_length=16, choices=[("email", _("e-mail")), ("webhook", _("webhook"))])
    target = models.CharField(_("recipient"), max_length=500)
    attempts = models.PositiveIntegerField(_("attempts"), default=0)
    next_attempt = models.DateTimeField(_("next attempt"), null=True)
    delivered = models.DateTimeField(_("delivered"), null=True, default=None)
    error = models.TextField(_("error"), blank=True)

    class Meta:
        verbose_name = _("notice")
        verbose_name_plural = _("notices")
        indexes = (models.Index(fields=["next_attempt"], name="django_mcp_notice_due"),)

    def __str__(self) -> str:
        return f"{self.kind} {self.target}"
