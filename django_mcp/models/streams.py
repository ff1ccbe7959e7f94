"""Models of sessions, resumable calls, events and idempotency."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_mcp.models.base import Stored
from django_mcp.models.fields import IdentifierField, JSONTextField


class Session(Stored):
    """The state of a legacy client between requests. Only a hash of the session id is stored."""

    key = IdentifierField(_("key"), max_length=64, unique=True, help_text=_("SHA-256 of the session id."))
    server = IdentifierField(_("endpoint"), max_length=64)
    principal_kind = IdentifierField(_("caller type"), max_length=32)
    principal_id = IdentifierField(_("caller"), max_length=255)
    version = models.CharField(_("protocol version"), max_length=32)
    client = JSONTextField(_("client"), default=dict)
    capabilities = JSONTextField(_("client capabilities"), default=dict)
    log_level = models.CharField(_("log level"), max_length=16, default="info")
    subscriptions = JSONTextField(_("subscriptions"), default=list, help_text=_("Resource URIs."))
    # Not translated: no page shows it.
    last_event = models.BigIntegerField("last event", default=0, help_text="Position of the newest event of its topic.")
    created = models.DateTimeField(_("created"), auto_now_add=True)
    expires = models.DateTimeField(_("expires"), db_index=True)

    class Meta:
        verbose_name = _("session")
        verbose_name_plural = _("sessions")
        indexes = (
            models.Index(
                fields=["principal_kind", "principal_id", "server", "expires"], name="django_mcp_session_caller"
            ),
        )

    def __str__(self) -> str:
        return f"{self.client.get('name') or '?'} {self.version} #{self.pk}"


class Call(Stored):
    """A request whose response is a resumable stream, and which may wait for the client's input."""

    class Status(models.TextChoices):
        """Progress of a call."""

        RUNNING = "running", _("running")
        ASKING = "asking", _("waiting for the client")
        ENDED = "ended", _("ended")

    key = IdentifierField(_("key"), max_length=32, unique=True, help_text=_("Identifies its stream in event ids."))
    session = models.ForeignKey(Session, models.CASCADE, related_name="calls", verbose_name=_("session"))
    request_id = JSONTextField(_("request id"), help_text=_("JSON-RPC id sent by the client."))
    request = JSONTextField(_("request"), help_text=_("Method and params."))
    dialogue = JSONTextField(_("dialogue"), default=dict, help_text=_("Questions and answers so far."))
    status = models.CharField(_("status"), max_length=8, choices=Status.choices, default=Status.RUNNING)
    lease = models.DateTimeField(
        _("lease"), null=True, help_text=_("The process running it must renew the lease before this time.")
    )
    created = models.DateTimeField(_("created"), auto_now_add=True)
    expires = models.DateTimeField(_("expires"), db_index=True)

    class Meta:
        verbose_name = _("call")
        verbose_name_plural = _("calls")

    def __str__(self) -> str:
        return f"{self.request['method']} ({self.get_status_display()})"


class PendingRequest(Stored):
    """A request to the client, such as an elicitation, and its response."""

    call = models.ForeignKey(Call, models.CASCADE, related_name="questions", verbose_name=_("call"))
    request_id = IdentifierField(_("request id"), max_length=32, unique=True)
    key = IdentifierField(_("key"), max_length=255, help_text=_("Identifies the question within its call."))
    answer = JSONTextField(_("answer"), null=True, default=None)
    created = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        verbose_name = _("pending request")
        verbose_name_plural = _("pending requests")

    def __str__(self) -> str:
        return self.key


class Event(Stored):
    """An entry of the event log that streams are read from.

    Primary keys are given before the commit, so they become visible out of order. ``position`` is given to committed
    rows alone, under the lock of ``EventSequence``, so no event appears later before a position that was already read.
    """

    topic = IdentifierField(_("topic"), max_length=100)
    data = models.TextField(_("data"), blank=True)
    position = models.BigIntegerField(_("position"), null=True, help_text=_("Empty until a reader assigns it."))
    created = models.DateTimeField(_("created"))
    expires = models.DateTimeField(_("expires"), db_index=True)

    class Meta:
        verbose_name = _("event")
        verbose_name_plural = _("events")
        indexes = (
            models.Index(fields=["topic", "position"], name="django_mcp_event_topic"),
            models.Index(fields=["position", "id"], name="django_mcp_event_position"),
        )

    def __str__(self) -> str:
        return f"{self.topic} {self.pk}"


class EventSequence(Stored):
    """The last position given to an event: one row, whose lock puts those who give positions in turn."""

    last = models.BigIntegerField(_("last position"))

    class Meta:
        verbose_name = _("event sequence")
        verbose_name_plural = _("event sequences")

    def __str__(self) -> str:
        return str(self.last)


class Step(Stored):
    """An effect that happens once in a call, however often it runs: a ``ctx.once`` block, or the use of a state."""

    call = IdentifierField(_("call"), max_length=64)
    key = IdentifierField(_("key"), max_length=255)
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
