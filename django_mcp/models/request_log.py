"""Model of the request log, with its admin proxies."""

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from django_mcp.models.base import Stored
from django_mcp.models.fields import IdentifierField, JSONTextField


class RequestLog(Stored):
    """A list, read or call, with its outcome. It refers to objects by name, so entries outlive them."""

    class Outcome(models.TextChoices):
        """Outcome of a request. A person denies; the endpoint rejects, such as a caller without access."""

        OK = "ok", _("succeeded")
        ERROR = "error", _("tool error")
        FAILED = "failed", _("protocol error")
        CRASHED = "crashed", _("crashed")
        REJECTED = "rejected", _("rejected")
        DENIED = "denied", _("denied")
        WAITING = "waiting", _("pending approval")
        ASKED = "asked", _("input requested")
        TASK = "task", _("task started")
        CANCELLED = "cancelled", _("cancelled")
        TIMED_OUT = "timed_out", _("timed out")

    started_at = models.DateTimeField(_("time"), db_index=True)
    server = IdentifierField(_("endpoint"), max_length=64)
    method = IdentifierField(_("method"), max_length=64)
    name = IdentifierField(_("name"), max_length=255, blank=True, help_text=_("The tool, prompt or resource."))
    outcome = models.CharField(_("outcome"), max_length=16, choices=Outcome.choices)
    error = models.TextField(_("error"), blank=True, help_text=_("The message sent to the client."))
    exception_type = models.CharField(
        _("exception"), max_length=255, blank=True, help_text=_("Of a crash: class of the exception.")
    )
    exception_place = models.CharField(
        _("raised at"), max_length=255, blank=True, help_text=_("Of a crash: file and line in the site's code.")
    )
    principal_kind = IdentifierField(_("caller type"), max_length=32)
    principal_id = IdentifierField(_("caller id"), max_length=255)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.SET_NULL,
        null=True,
        db_index=False,  # covered by the index with started_at
        related_name="mcp_requests",
        verbose_name=_("user"),
    )
    caller = models.CharField(_("caller"), max_length=255, blank=True, help_text=_("Username at that time."))
    credential = IdentifierField(_("credential"), max_length=64, blank=True)
    client_id = IdentifierField(_("OAuth client"), max_length=255, blank=True)
    client_name = models.CharField(_("client"), max_length=100, blank=True, help_text=_("Self-reported."))
    client_version = models.CharField(_("client version"), max_length=50, blank=True)
    protocol = models.CharField(_("protocol version"), max_length=32, blank=True)
    address = models.GenericIPAddressField(_("address"), null=True)
    arguments = JSONTextField(_("arguments"), null=True, default=None, help_text=_("Redacted and shortened."))
    result_kind = models.CharField(_("result type"), max_length=64, blank=True)
    result_size = models.PositiveIntegerField(_("result size"), null=True, help_text=_("In bytes of JSON."))
    duration = models.FloatField(_("duration"), help_text=_("In milliseconds."))
    queries = models.PositiveIntegerField(_("queries"), null=True)
    approval = IdentifierField(_("approval"), max_length=32, blank=True, help_text=_("The approval request."))
    task_id = IdentifierField(_("task id"), max_length=64, blank=True)
    history_id = IdentifierField(_("history id"), max_length=32, blank=True, help_text=_("In the entries it wrote."))
    log_entries = models.TextField(
        _("history"), blank=True, help_text=_("Keys of its entries in the admin’s history, with commas.")
    )
    trace_id = IdentifierField(_("trace id"), max_length=32, blank=True)

    class Meta:
        verbose_name = _("request log entry")
        verbose_name_plural = _("request log entries")
        # Lists show the newest first, so each filter's index ends with the time.
        indexes = (
            models.Index(fields=["server", "started_at"], name="django_mcp_requestlog_server"),
            models.Index(fields=["name", "started_at"], name="django_mcp_requestlog_name"),
            models.Index(fields=["method", "started_at"], name="django_mcp_requestlog_method"),
            models.Index(fields=["outcome", "started_at"], name="django_mcp_requestlog_outcome"),
            models.Index(fields=["user", "started_at"], name="django_mcp_requestlog_user"),
            models.Index(fields=["client_name", "started_at"], name="django_mcp_requestlog_client"),
            models.Index(fields=["client_id", "started_at"], name="django_mcp_requestlog_clientid"),
            models.Index(fields=["trace_id"], name="django_mcp_requestlog_trace"),
            models.Index(fields=["task_id"], name="django_mcp_requestlog_task"),
            models.Index(fields=["approval"], name="django_mcp_requestlog_approval"),
            models.Index(fields=["history_id"], name="django_mcp_requestlog_history"),
        )

    def __str__(self) -> str:
        return f"{self.method} {self.name}".strip()


class Overview(RequestLog):
    """Admin proxy for the dashboard. Has no table of its own."""

    class Meta:
        proxy = True
        default_permissions = ()
        verbose_name = _("overview")
        verbose_name_plural = _("overview")


class Playground(RequestLog):
    """Admin proxy for the playground. Has no table of its own."""

    class Meta:
        proxy = True
        default_permissions = ()
        permissions = (("try_tool", _("Can call tools in the playground")),)
        verbose_name = _("playground")
        verbose_name_plural = _("playground")
