"""Calls that go on in the background."""

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from django_mcp.models.base import Stored
from django_mcp.models.fields import JSONTextField


class Task(Stored):
    """A call whose client asks for the outcome instead of waiting for it (Tasks extension).

    Its id is stored as it is: whoever knows it has nothing of it without being its caller.
    """

    class Status(models.TextChoices):
        """As the protocol spells them."""

        WORKING = "working", _("working")
        INPUT_REQUIRED = "input_required", _("waiting for the client")
        COMPLETED = "completed", _("completed")
        FAILED = "failed", _("failed")
        CANCELLED = "cancelled", _("cancelled")

    task_id = models.CharField(_("task id"), max_length=64, unique=True)
    server = models.CharField(_("endpoint"), max_length=64)
    tool = models.CharField(_("tool"), max_length=64)
    principal_kind = models.CharField(_("kind of caller"), max_length=32)
    principal_id = models.CharField(_("caller"), max_length=255)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, null=True, related_name="mcp_tasks", verbose_name=_("user")
    )
    caller = JSONTextField(_("credential"), default=dict, help_text=_("What it allows, and how the request came."))
    client = JSONTextField(_("client"), null=True, default=None)
    capabilities = JSONTextField(_("client's capabilities"), default=dict)
    request = JSONTextField(_("request"), help_text=_("Its method and params."))
    dialogue = JSONTextField(_("dialogue"), default=dict, help_text=_("What was asked and answered so far."))
    status = models.CharField(_("status"), max_length=16, choices=Status.choices, default=Status.WORKING)
    message = models.TextField(_("message"), blank=True, default="")
    progress = models.FloatField(_("progress"), null=True, default=None)
    total = models.FloatField(_("total"), null=True, default=None)
    result = JSONTextField(_("result"), null=True, default=None)
    error = JSONTextField(_("error"), null=True, default=None, help_text=_("As JSON-RPC has it."))
    backend = models.CharField(_("backend"), max_length=64, help_text=_("What runs it."))
    needs_approval = models.BooleanField(_("needs approval"), default=False)
    attempts = models.PositiveIntegerField(_("attempts"), default=0)
    worker = models.CharField(_("worker"), max_length=128, blank=True, default="")
    lease = models.DateTimeField(_("lease"), null=True, default=None, help_text=_("Its worker is alive until then."))
    created = models.DateTimeField(_("created"))
    updated = models.DateTimeField(_("updated"))
    expires = models.DateTimeField(_("expires"), db_index=True)

    class Meta:
        verbose_name = _("task")
        verbose_name_plural = _("tasks")
        indexes = (
            # A page of a caller's tasks, and how many are under way: neither reads all they ever had.
            models.Index(fields=["principal_id", "principal_kind", "server", "id"], name="django_mcp_task_caller"),
            models.Index(fields=["principal_id", "principal_kind", "server", "status"], name="django_mcp_task_status"),
            models.Index(fields=["status", "lease"], name="django_mcp_task_lease"),
        )

    def __str__(self) -> str:
        return f"{self.tool} ({self.get_status_display()})"

    @property
    def is_over(self) -> bool:
        """Whether nothing about it changes any more."""
        return self.status in OVER


OVER = frozenset({Task.Status.COMPLETED, Task.Status.FAILED, Task.Status.CANCELLED})


class TaskInput(Stored):
    """A question of a task, and its answer. It stays as long as its task, so that no key is used twice."""

    task = models.ForeignKey(Task, models.CASCADE, related_name="inputs", verbose_name=_("task"))
    key = models.CharField(_("key"), max_length=255, help_text=_("Names it to the client."))
    name = models.CharField(_("name"), max_length=255, help_text=_("Names the question within its call."))
    request = JSONTextField(_("request"))
    answer = JSONTextField(_("answer"), null=True, default=None)
    created = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        verbose_name = _("question of a task")
        verbose_name_plural = _("questions of tasks")
        constraints = (models.UniqueConstraint(fields=["task", "key"], name="django_mcp_taskinput_key"),)

    def __str__(self) -> str:
        return self.key
