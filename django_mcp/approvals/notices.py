"""Notify approvers by e-mail and webhook, and retry until delivered.

No redirect of a webhook is followed: what is signed is for one receiver. Of the answer nothing but the head is read.

Making an approval request only stores its notices. They are delivered in the background, by any process.
"""

import base64
import binascii
import datetime
import hashlib
import hmac
import json
import logging
import math
import os
import random
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from django.contrib.auth import get_backends
from django.core import mail
from django.core.exceptions import ImproperlyConfigured
from django.core.mail import DNS_NAME, EmailMessage
from django.db import Error as DatabaseError
from django.db import connections, router, transaction
from django.db.models import F, Q, QuerySet
from django.template.loader import render_to_string
from django.utils import timezone

from django_mcp.approvals.messages import client, page_url, requester
from django_mcp.conf import settings
from django_mcp.core import database
from django_mcp.core.redaction import as_words, bounded, one_line, redacted
from django_mcp.core.server import every_server
from django_mcp.models import Approval, Notice

logger = logging.getLogger("django_mcp")

APPROVE = "django_mcp.approve_tool_call"
"""The permission of those who decide."""


def may_approve(user: Any, server: str) -> bool:
    """Return True if a user may approve or deny calls at an endpoint. It may make queries.

    A user needs the permission ``APPROVE``, and the endpoint's ``can_approve`` has to return True, if it has one. If
    that raises, the answer is False.

    Args:
        user: a Django user.
        server: the endpoint's name.
    """
    if not user.has_perm(APPROVE):
        return False
    test = next((each.can_approve for each in every_server() if each.name == server), None)
    try:
        return test is None or bool(test(user))
    except Exception:
        logger.exception("can_approve() of %r raised, so nobody may approve its calls", server)
        return False


APPROVERS = "approvers"
"""Among the addresses: those of whoever may decide."""
MAIL_TIMEOUT = 10
"""For each answer of the mail server, where the site has no ``EMAIL_TIMEOUT``."""
LONGEST_NAME, LONGEST_TEXT, MAX_LINES = 100, 3000, 60


def approvers(approval: Approval) -> list[str]:
    """Addresses of all active users who may decide, each once. The requester's only where they may do so themselves."""
    found = {address.casefold(): address for address in map(_address, _who_may(approval)) if address}
    if approval.user is not None and not settings.SELF_APPROVAL:
        found.pop(_address(approval.user).casefold(), None)
    return list(found.values())


def _who_may(approval: Approval) -> Iterator[Any]:
    for backend in get_backends():
        for user in backend.with_perm(APPROVE) if hasattr(backend, "with_perm") else ():
            # The page is in the admin.
            is_able = getattr(user, "is_staff", True) and may_approve(user, approval.server)
            if is_able and (user.pk != approval.user_id or settings.SELF_APPROVAL):
                yield user


def _address(user: Any) -> str:
    return str(getattr(user, user.get_email_field_name(), None) or "")


def send_mail(notice: Notice) -> None:
    """Send one.

    Raises:
        Exception: whatever the site's mail backend raises.
    """
    context = _context(notice.approval)
    subject = render_to_string("django_mcp/approvals/notice_subject.txt", context)
    message = EmailMessage(
        subject=one_line(subject, 2 * LONGEST_NAME),
        body=render_to_string("django_mcp/approvals/notice.txt", context),
        to=[notice.target],
        headers={"Auto-Submitted": "auto-generated", "Message-ID": _message_id(notice)},
    )
    _connection().send_messages([message])


def _connection() -> Any:
    """To the mail server. A silent one would be waited for, for ever."""
    mailers: Any = getattr(mail, "mailers", None)  # since Django 6.1, which deprecates the other
    connection: Any = mail.get_connection() if mailers is None else mailers.default
    if getattr(connection, "timeout", MAIL_TIMEOUT) is None:
        connection.timeout = MAIL_TIMEOUT
    return connection


def _message_id(notice: Notice) -> str:
    """The same each time it is tried, so that one that comes twice is known."""
    host = urlsplit(settings.BASE_URL or "").hostname or DNS_NAME
    return f"<{notice.approval.public_id}.{notice.pk}@{host}>"


def _context(approval: Approval) -> dict[str, Any]:
    return {
        "tool": one_line(approval.tool, LONGEST_NAME),
        "endpoint": one_line(approval.server, LONGEST_NAME),
        "requester": one_line(requester(approval), LONGEST_NAME),
        "client": one_line(client(approval), LONGEST_NAME),
        "arguments": _quoted(redacted(None, approval.arguments, longest=None, whole=None)),
        "preview": _quoted(redacted(None, approval.preview, longest=None, whole=None)) if approval.preview else "",
        "expires": approval.expires,
        "approval_id": approval.public_id,
        "url": page_url(approval),
    }


def _quoted(value: Any) -> str:
    """A text or a JSON value, shortened. The mark before each line says that it came with the call."""
    text = as_words(value)
    lines = bounded(text, LONGEST_TEXT).split("\n")
    shown = [f"> {line}" for line in lines[:MAX_LINES]]
    if len(text) > LONGEST_TEXT or len(lines) > MAX_LINES:
        shown.append("> …")
    return "\n".join(shown)


POST_TIMEOUT = 10.0
"""Seconds for the whole exchange."""


class Unanswered(Exception):
    """The answer was another one than it should be."""


def post(url: str, body: bytes, headers: Mapping[str, str]) -> None:
    """Send *body*, and have it accepted.

    Args:
        url: http or https.
        body: what is sent.
        headers: those of the request.

    Raises:
        Unanswered: the status was none of 2xx.
        OSError: there was no answer, not in time, or none that is HTTP.
    """
    from django_mcp.core.http_client import send  # noqa: PLC0415 - brings urllib3

    with send("POST", url, headers, timeout=POST_TIMEOUT, body=body) as response:
        if response.status // 100 != 2:  # noqa: PLR2004
            reason = "a redirect, which is not followed" if response.status // 100 == 3 else response.reason  # noqa: PLR2004
            raise Unanswered(f"It answered {response.status}: {reason}")


KIND = "approval.requested"
PREFIX = "whsec_"
MAX_BYTES = 256 * 1024
"""Of a body. Where arguments and preview make it larger, they are on the page only."""


def send_webhook(approval: Approval) -> None:
    """Send it.

    Raises:
        ImproperlyConfigured: the settings have no address or no secret.
        Exception: it was not accepted; see ``post``.
    """
    if settings.APPROVAL_WEBHOOK is None or not settings.APPROVAL_WEBHOOK_SECRET:
        raise ImproperlyConfigured("DJANGO_MCP has no APPROVAL_WEBHOOK with an APPROVAL_WEBHOOK_SECRET.")
    body = body_of(approval)
    number = f"msg_{approval.public_id}"  # the same each time it is tried, so that receivers know it again
    now = int(time.time())
    headers = {
        "Content-Type": "application/json",
        "webhook-id": number,
        "webhook-timestamp": str(now),
        "webhook-signature": signature(key_of(settings.APPROVAL_WEBHOOK_SECRET), number, now, body),
    }
    post(settings.APPROVAL_WEBHOOK, body, headers)


def signature(key: bytes, number: str, timestamp: int, body: bytes) -> str:
    """What the header ``webhook-signature`` says."""
    digest = hmac.new(key, f"{number}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


def key_of(secret: str) -> bytes:
    """The key that a secret stands for: Base64 behind ``whsec_``, else its own bytes.

    Raises:
        ValueError: what is behind ``whsec_`` is no Base64.
    """
    if not secret.startswith(PREFIX):
        return secret.encode()
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except binascii.Error:
        key = b""
    if not key:
        raise ValueError("What is behind whsec_ is no Base64.")
    return key


def body_of(approval: Approval) -> bytes:
    """What is sent, as JSON."""
    data = {
        "approval_id": approval.public_id,
        "endpoint": approval.server,
        "tool": approval.tool,
        "requester": requester(approval),
        "client": approval.client,
        "client_id": approval.client_id or None,
        # Not what the page shows: these leave the site, and nobody decides by them alone.
        "arguments": redacted(None, approval.arguments, longest=None, whole=None),
        "preview": redacted(None, approval.preview, longest=None, whole=None),
        "url": page_url(approval) or None,
        "expires": _moment(approval.expires),
    }
    body = _encoded(approval, data)
    if len(body) > MAX_BYTES:
        body = _encoded(approval, {**data, "arguments": None, "preview": None})
    return body


def _encoded(approval: Approval, data: dict[str, Any]) -> bytes:
    message = {"type": KIND, "timestamp": _moment(approval.created), "data": data}
    return json.dumps(message, separators=(",", ":")).encode()


def _moment(value: datetime.datetime) -> str:
    return value.astimezone(datetime.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


WEBHOOK, EMAIL = "webhook", "email"
DELAYS = (5, 30, 2 * 60, 10 * 60, 60 * 60)
"""Seconds after each failure until the next attempt; the last one again and again."""
JITTER = 0.2
"""By which part of it a delay is longer or shorter, so that not all are tried at once."""
CLAIM = datetime.timedelta(minutes=2)
"""How long a notice is left alone once somebody tries it; longer than an attempt takes."""
LONGEST_ERROR = 500
_AT_ONCE = 500


class _Undelivered(Exception):
    """There is nobody to tell."""


def deliver_due() -> int:
    """Try all notices that are due; how many were delivered.

    Several processes may do so at once: each notice is tried by one of them.
    """
    _give_up()
    delivered = 0
    while (notice := _claim()) is not None:
        delivered += _try(notice)
    return delivered


def seconds_left() -> float | None:
    """In how many seconds the next notice is due; None where none is left."""
    first = _waiting().order_by("next_attempt").values_list("next_attempt", flat=True).first()
    return None if first is None else max((first - timezone.now()).total_seconds(), 0.0)


def _waiting() -> "QuerySet[Notice]":
    now = timezone.now()
    return Notice.objects.filter(
        next_attempt__isnull=False, approval__state=Approval.State.PENDING, approval__expires__gt=now
    )


def _give_up() -> None:
    """Stop delivering notices of approval requests that are no longer pending."""
    over = ~Q(approval__state=Approval.State.PENDING) | Q(approval__expires__lte=timezone.now())
    useless = Notice.objects.filter(over, next_attempt__isnull=False)
    if keys := list(useless.values_list("pk", flat=True)[:_AT_ONCE]):
        Notice.objects.filter(pk__in=keys).update(next_attempt=None)


def _claim() -> Notice | None:
    """The notice to be tried now. New ones come before those that failed."""
    while True:
        now = timezone.now()
        due = _waiting().filter(next_attempt__lte=now).select_related("approval__user")
        found = due.order_by("attempts", "-kind", "next_attempt", "pk").first()
        if found is None:
            return None
        unclaimed = Notice.objects.filter(pk=found.pk, attempts=found.attempts, next_attempt__lte=now)
        if unclaimed.update(attempts=F("attempts") + 1, next_attempt=now + CLAIM):
            found.attempts += 1
            return found


def _try(notice: Notice) -> bool:
    try:
        if notice.target == APPROVERS:
            _spread(notice)
            return False
        if notice.kind == WEBHOOK:
            send_webhook(notice.approval)
        else:
            send_mail(notice)
    except Exception as error:  # noqa: BLE001 - whatever networks, mail backends and templates raise
        _failed(notice, error)
        return False
    _only(notice).update(delivered=timezone.now(), next_attempt=None, error="")
    return True


def _spread(notice: Notice) -> None:
    """Make one notice for each of those who may decide of the one for all of them."""
    addresses = approvers(notice.approval)
    if not addresses:
        raise _Undelivered("Nobody who may approve it has an e-mail address.")
    told = {each.casefold() for each in notice.approval.notices.values_list("target", flat=True)}
    new = [each for each in addresses if each.casefold() not in told]
    with database.atomic():
        now = timezone.now()
        Notice.objects.bulk_create(
            Notice(approval=notice.approval, kind=EMAIL, target=each, next_attempt=now) for each in new
        )
        _only(notice).delete()


def _failed(notice: Notice, error: Exception) -> None:
    delay = DELAYS[min(notice.attempts, len(DELAYS)) - 1] * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - no secret
    following = timezone.now() + datetime.timedelta(seconds=delay)
    words = bounded(f"{type(error).__name__}: {error}", LONGEST_ERROR)[:LONGEST_ERROR]  # escaped characters are longer
    logger.warning("a notice of a call that waits was not delivered (%s to %s): %s", notice.kind, notice.target, words)
    # By then it is refused, where it was not decided.
    is_last = following >= notice.approval.expires
    _only(notice).filter(attempts=notice.attempts).update(next_attempt=None if is_last else following, error=words)


def _only(notice: Notice) -> "QuerySet[Notice]":
    return Notice.objects.filter(pk=notice.pk)


LOOK_SECONDS = 60.0
"""How often a process looks for notices that others left. Those it made itself it delivers at once."""
RETRY_SECONDS = 5.0
"""After how long it looks again where the database was away."""


class Sender:
    """Of one process. Its thread lives as long as there is something to deliver."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()
        self._looked = -math.inf

    def begin(self) -> None:
        """There is something to deliver. From any thread, with or without an event loop: it blocks nobody."""
        with self._lock:
            self._start()

    def look(self) -> None:
        """There may be something to deliver; the settings name who is told. Costs nothing if called a moment ago."""
        if time.monotonic() - self._looked >= LOOK_SECONDS:
            with self._lock:
                self._start()

    def _start(self) -> None:
        self._looked = time.monotonic()
        self._wake.set()
        if self._thread is None or not self._thread.is_alive():
            thread = threading.Thread(target=self._work, name="django-mcp-notices", daemon=True)
            thread.start()
            self._thread = thread

    def _work(self) -> None:
        while True:
            self._wake.clear()
            pause = self._deliver()
            connections.close_all()  # the next attempt may be an hour away
            with self._lock:
                if pause is None and not self._wake.is_set():
                    self._thread = None
                    return
            if pause is not None:
                self._wake.wait(min(pause, LOOK_SECONDS))

    def _deliver(self) -> float | None:
        """Deliver what is due; in how many seconds there is more."""
        try:
            deliver_due()
            return seconds_left()
        except DatabaseError as error:
            logger.warning("notices of calls that wait cannot be read just now, trying again: %s", error)
        except Exception:  # without this thread nobody would be told
            logger.exception("notices of calls that wait cannot be delivered")
        return RETRY_SECONDS

    def after_fork(self) -> None:
        """The parent's thread is not the child's, and its lock may have been held."""
        self._lock, self._wake, self._thread = threading.Lock(), threading.Event(), None
        self._looked = -math.inf


sender = Sender()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=sender.after_fork)


def look() -> None:
    """See ``Sender.look``."""
    sender.look()


__all__ = ["deliver_due", "make", "wake"]


def make(approval: Approval) -> None:
    """Have everybody told whom the settings name. Called in the transaction that makes the approval request.

    Args:
        approval: a new approval request, which is pending.
    """
    now = timezone.now()
    notices = [Notice(approval=approval, kind=kind, target=target, next_attempt=now) for kind, target in _targets()]
    if notices:
        Notice.objects.bulk_create(notices)
        # Robust: the approval request is there, whether or not a thread can be started.
        transaction.on_commit(sender.begin, using=router.db_for_write(Notice), robust=True)


def wake() -> None:
    """Deliver notices that ended processes left. Cheap; called wherever approval requests are looked at."""
    if _targets():
        sender.look()


def _targets() -> list[tuple[str, str]]:
    addresses = {each.casefold(): each for each in settings.APPROVAL_EMAILS}
    found = [(EMAIL, each) for each in addresses.values()]
    if settings.APPROVAL_WEBHOOK:
        found.append((WEBHOOK, _host(settings.APPROVAL_WEBHOOK)))
    return found


def _host(url: str) -> str:
    """Where it goes. The rest of such an address is a secret with many receivers, and is read from the settings."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"[:500]
