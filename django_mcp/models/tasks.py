"""Models of background tasks and their questions."""

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from django_mcp.models.base import Stored
from django_mcp.models.fields import IdentifierField, JSONTextField


class Task(Stored):
    """A call that runs in the background (Tasks extension).

    The id is stored in plain text: it is useless without the caller's credential.
    """

    class Status(models.TextChoices):
        """Values of the protocol."""

        WORKING = "working", _("working")
        INPUT_REQUIRED = "input_required", _("waiting for the client")
        COMPLETED = "completed", _("completed")
        FAILED = "failed", _("failed")
        CANCELLED = "cancelled", _("cancelled")

    task_id = IdentifierField(_("task id"), max_length=64, unique=True)
    server = IdentifierField(_("endpoint"), max_length=64)
    tool = IdentifierField(_("tool"), max_length=64)
    principal_kind = IdentifierField(_("caller type"), max_length=32)
    principal_id = IdentifierField(_("caller"), max_length=255)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, null=True, related_name="mcp_tasks", verbose_name=_("user")
    )
    caller = JSONTextField(_("credential"), default=dict, help_text=_("Its scopes, and the origin of the request."))
    client = JSONTextField(_("client"), null=True, default=None)
    capabilities = JSONTextField(_("client capabilities"), default=dict)
    request = JSONTextField(_("request"), help_text=_("Method and params."))
    dialogue = JSONTextField(_("dialogue"), default=dict, help_text=_("Questions and answers so far."))
    status = models.CharField(_("status"), max_length=16, choices=Status.choices, default=Status.WORKING)
    message = models.TextField(_("message"), blank=True, default="")
    progress = models.FloatField(_("progress"), null=True, default=None)
    total = models.FloatField(_("total"), null=True, default=None)
    result = JSONTextField(_("result"), null=True, default=None)
    error = JSONTextField(_("error"), null=True, default=None, help_text=_("JSON-RPC error object."))
    backend = IdentifierField(_("backend"), max_length=64, help_text=_("Backend that runs it."))
    needs_approval = models.BooleanField(_("needs approval"), default=False)
    attempts = models.PositiveIntegerField(_("attempts"), default=0)
    worker = IdentifierField(_("worker"), max_length=128, blank=True, default="")
    lease = models.DateTimeField(
        _("lease"), null=True, default=None, help_text=_("The worker must renew the lease before this time.")
    )
    created = models.DateTimeField(_("created"))
    updated = models.DateTimeField(_("updated"))
    expires = models.DateTimeField(_("expires"), db_index=True)

    class Meta:
        verbose_name = _("task")
        verbose_name_plural = _("tasks")
        indexes = (
            # For a page of a caller's tasks, and for the number of unfinished ones.
            models.Index(fields=["principal_id", "principal_kind", "server", "id"], name="django_mcp_task_caller"),
            models.Index(fields=["principal_id", "principal_kind", "server", "status"], name="django_mcp_task_status"),
            models.Index(fields=["status", "lease"], name="django_mcp_task_lease"),
        )

    def __str__(self) -> str:
        return f"{self.tool} ({self.get_status_display()})"

    @property
    def is_over(self) -> bool:
        return self.status in OVER


OVER = frozenset({Task.Status.COMPLETED, Task.Status.FAILED, Task.Status.CANCELLED})


class TaskInput(Stored):
    """A question of a task, and its answer. Kept as long as the task, so that no key is reused."""

    task = models.ForeignKey(Task, models.CASCADE, related_name="inputs", verbose_name=_("task"))
    key = IdentifierField(_("key"), max_length=255, help_text=_("Identifies it to the client."))
    name = IdentifierField(_("name"), max_length=255, help_text=_("Identifies the question within its call."))
    request = JSONTextField(_("request"))
    answer = JSONTextField(_("answer"), null=True, default=None)
    created = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        verbose_name = _("task question")
        verbose_name_plural = _("task questions")
        constraints = (models.UniqueConstraint(fields=["task", "key"], name="django_mcp_taskinput_key"),)

    def __str__(self) -> str:
        return self.key
