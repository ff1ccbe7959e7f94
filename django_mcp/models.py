"""What has to outlive a request, and be seen by every worker. Each row says when it may go."""

import json
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

if TYPE_CHECKING:
    _Field = models.Field[Any, Any]
else:
    _Field = models.Field


class JSONTextField(_Field):
    """JSON as text. What clients send may hold NUL, which PostgreSQL's own type refuses; and nobody queries it."""

    def get_internal_type(self) -> str:
        """Its column is that of a ``TextField``."""
        return "TextField"

    def from_db_value(self, value: str | None, *_: Any) -> Any:
        """The value."""
        return None if value is None else json.loads(value)

    def get_prep_value(self, value: Any) -> str | None:
        """Its text; None is NULL.

        Raises:
            TypeError: it has no JSON form.
        """
        return None if value is None else json.dumps(value, separators=(",", ":"))


class Session(models.Model):
    """What a client of the protocol with a handshake said of itself, under a session id.

    The id itself is not stored, so whoever reads this table cannot speak in a session.
    """

    key = models.CharField(_("key"), max_length=64, unique=True, help_text=_("SHA-256 of the session id."))
    server = models.CharField(_("endpoint"), max_length=64)
    principal_kind = models.CharField(_("kind of caller"), max_length=32)
    principal_id = models.CharField(_("caller"), max_length=255)
    version = models.CharField(_("protocol version"), max_length=32)
    client = JSONTextField(_("client"), default=dict)
    capabilities = JSONTextField(_("client's capabilities"), default=dict)
    log_level = models.CharField(_("log level"), max_length=16, default="info")
    subscriptions = JSONTextField(_("subscriptions"), default=list, help_text=_("URIs of resources."))
    created = models.DateTimeField(_("created"), auto_now_add=True)
    expires = models.DateTimeField(_("expires"), db_index=True)

    class Meta:
        verbose_name = _("session")
        verbose_name_plural = _("sessions")

    def __str__(self) -> str:
        return f"{self.client.get('name') or '?'} {self.version} #{self.pk}"


class Call(models.Model):
    """A request whose answer is a stream that can be resumed, and which may be waiting for its client."""

    class Status(models.TextChoices):
        """How far it is."""

        RUNNING = "running", _("running")
        ASKING = "asking", _("waiting for the client")
        ENDED = "ended", _("ended")

    key = models.CharField(_("key"), max_length=32, unique=True, help_text=_("Names its stream in event ids."))
    session = models.ForeignKey(Session, models.CASCADE, related_name="calls", verbose_name=_("session"))
    request_id = JSONTextField(_("request id"), help_text=_("As the client gave it."))
    request = JSONTextField(_("request"), help_text=_("Its method and params."))
    dialogue = JSONTextField(_("dialogue"), default=dict, help_text=_("What was asked and answered so far."))
    status = models.CharField(_("status"), max_length=8, choices=Status.choices, default=Status.RUNNING)
    created = models.DateTimeField(_("created"), auto_now_add=True)
    expires = models.DateTimeField(_("expires"), db_index=True)

    class Meta:
        verbose_name = _("call")
        verbose_name_plural = _("calls")

    def __str__(self) -> str:
        return f"{self.request['method']} ({self.get_status_display()})"


class PendingRequest(models.Model):
    """A question a client was sent, and its answer."""

    call = models.ForeignKey(Call, models.CASCADE, related_name="questions", verbose_name=_("call"))
    request_id = models.CharField(_("request id"), max_length=32, unique=True)
    key = models.CharField(_("key"), max_length=255, help_text=_("Names the question within its call."))
    answer = JSONTextField(_("answer"), null=True, default=None)
    created = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        verbose_name = _("pending request")
        verbose_name_plural = _("pending requests")

    def __str__(self) -> str:
        return self.key


class Event(models.Model):
    """One entry of the log that streams are read from.

    The primary key is the order. Whoever follows a topic may see entries of different writers late, so readers look
    back a little (``live.follower``).
    """

    topic = models.CharField(_("topic"), max_length=100)
    data = models.TextField(_("data"), blank=True)
    created = models.DateTimeField(_("created"))
    expires = models.DateTimeField(_("expires"), db_index=True)

    class Meta:
        verbose_name = _("event")
        verbose_name_plural = _("events")
        indexes = (models.Index(fields=["topic", "id"], name="django_mcp_event_topic"),)

    def __str__(self) -> str:
        return f"{self.topic} {self.pk}"


class Step(models.Model):
    """Something that is done once in a call, however often the call is run: an act, or the use of a state."""

    call = models.CharField(_("call"), max_length=64)
    key = models.CharField(_("key"), max_length=255)
    done = models.BooleanField(_("done"), default=False)
    value = JSONTextField(_("value"), null=True, default=None)
    created = models.DateTimeField(_("created"), auto_now_add=True)
    expires = models.DateTimeField(_("expires"), db_index=True)

    class Meta:
        verbose_name = _("step")
        verbose_name_plural = _("steps")
        constraints = (models.UniqueConstraint(fields=["call", "key"], name="django_mcp_step_once"),)

    def __str__(self) -> str:
        return f"{self.call} {self.key}"


class Task(models.Model):
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
            models.Index(fields=["principal_id", "principal_kind", "server"], name="django_mcp_task_caller"),
            models.Index(fields=["status", "lease"], name="django_mcp_task_lease"),
        )

    def __str__(self) -> str:
        return f"{self.tool} ({self.get_status_display()})"

    @property
    def is_over(self) -> bool:
        """Whether nothing about it changes any more."""
        return self.status in OVER


OVER = frozenset({Task.Status.COMPLETED, Task.Status.FAILED, Task.Status.CANCELLED})


class TaskInput(models.Model):
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


class APIKey(models.Model):
    """A key with which a program acts as a user, without OAuth. Make one with ``auth.keys.create_key``.

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


class ClientPolicy(models.Model):
    """What the site's owner decided about an OAuth client. A client without one may do what its users agree to.

    It names the client instead of pointing to it: applications belong to django-oauth-toolkit, which a site with API
    keys alone does not install.
    """

    client_id = models.CharField(_("client id"), max_length=255, unique=True)
    blocked = models.BooleanField(_("blocked"), default=False, help_text=_("None of its tokens is accepted."))
    scopes = JSONTextField(
        _("scopes"), null=True, blank=True, default=None, help_text=_("The most it may have; empty for no limit.")
    )
    tools = JSONTextField(
        _("tools"), null=True, blank=True, default=None, help_text=_("The only tools it may use; empty for all.")
    )
    acts_as = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.CASCADE,
        null=True,
        blank=True,
        default=None,
        related_name="mcp_clients",
        verbose_name=_("acts as"),
        help_text=_("Whose rights it has where it calls for itself (client credentials)."),
    )

    class Meta:
        verbose_name = _("client policy")
        verbose_name_plural = _("client policies")

    def __str__(self) -> str:
        return self.client_id
