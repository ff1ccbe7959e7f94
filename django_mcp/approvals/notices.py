"""Notices to approvers by e-mail and webhook, delivered in the background and retried.

Creating an approval request only stores its notices; any process may deliver them. Webhooks follow no redirects, as
the signed payload is for one receiver, and read only the head of the response.
"""

import base64
import binascii
import datetime
import hashlib
import hmac
import json
import logging
import math
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

from django_mcp.approvals.approvers import APPROVE, may_decide
from django_mcp.approvals.messages import client, page_url, requester
from django_mcp.conf import settings
from django_mcp.core import database
from django_mcp.core.after_fork import reset_after_fork
from django_mcp.core.redaction import as_words, bounded, one_line, redacted
from django_mcp.models import Approval, Notice

logger = logging.getLogger("django_mcp")

APPROVERS = "approvers"
"""Entry of ``APPROVAL_EMAILS`` that stands for all users who may approve."""
MAIL_TIMEOUT = 10
"""Seconds to wait for the mail server if the site sets no ``EMAIL_TIMEOUT``."""
LONGEST_NAME, LONGEST_TEXT, MAX_LINES = 100, 3000, 60


def approvers(approval: Approval) -> list[str]:
    """Return the e-mail addresses of all active users who may decide, without duplicates.

    The requester's address is included only if they may decide their own call.
    """
    found = {address.casefold(): address for address in map(_address, _who_may(approval)) if address}
    if approval.user is not None and not may_decide(approval, approval.user):
        found.pop(_address(approval.user).casefold(), None)  # also of another account
    return list(found.values())


def _who_may(approval: Approval) -> Iterator[Any]:
    for backend in get_backends():
        for user in backend.with_perm(APPROVE) if hasattr(backend, "with_perm") else ():
            # The approval page is in the admin.
            if getattr(user, "is_staff", True) and may_decide(approval, user):
                yield user
    requester = approval.user  # may lack the permission
    is_able = requester is not None and requester.is_active and getattr(requester, "is_staff", True)
    if is_able and may_decide(approval, requester):
        yield requester


def _address(user: Any) -> str:
    return str(getattr(user, user.get_email_field_name(), None) or "")


def send_mail(notice: Notice) -> None:
    """Send a notice by e-mail.

    Raises:
        Exception: any error of the site's mail backend.
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
    # With a timeout, so that a silent server cannot block delivery forever.
    mailers: Any = getattr(mail, "mailers", None)  # since Django 6.1, which deprecates get_connection()
    connection: Any = mail.get_connection() if mailers is None else mailers.default
    if getattr(connection, "timeout", MAIL_TIMEOUT) is None:
        connection.timeout = MAIL_TIMEOUT
    return connection


def _message_id(notice: Notice) -> str:
    # The same for each attempt, so that duplicates are recognised.
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
    text = as_words(value)
    lines = bounded(text, LONGEST_TEXT).split("\n")
    # The content is the caller's, so each line gets a quote mark.
    shown = [f"> {line}" for line in lines[:MAX_LINES]]
    if len(text) > LONGEST_TEXT or len(lines) > MAX_LINES:
        shown.append("> …")
    return "\n".join(shown)


POST_TIMEOUT = 10.0
"""Seconds for the whole exchange."""


class Unanswered(Exception):
    """The webhook's receiver did not respond with a 2xx status."""


def post(url: str, body: bytes, headers: Mapping[str, str]) -> None:
    """Send a POST request and check that it is accepted.

    Raises:
        Unanswered: the status is not 2xx.
        OSError: no valid HTTP response in time.
    """
    from django_mcp.core.http_client import send  # noqa: PLC0415 - brings urllib3

    with send("POST", url, headers, timeout=POST_TIMEOUT, body=body) as response:
        if response.status // 100 != 2:  # noqa: PLR2004
            reason = "a redirect, which is not followed" if response.status // 100 == 3 else response.reason  # noqa: PLR2004
            raise Unanswered(f"The receiver responded with status {response.status}: {reason}")


KIND = "approval.requested"
PREFIX = "whsec_"
MAX_BYTES = 256 * 1024
"""Maximum size of a body. Larger ones are sent without arguments and preview."""


def send_webhook(approval: Approval) -> None:
    """Send the webhook of a new approval request, signed as Standard Webhooks specifies.

    Raises:
        ImproperlyConfigured: the URL or the secret is not set.
        Exception: it was not accepted; see ``post``.
    """
    if settings.APPROVAL_WEBHOOK is None or not settings.APPROVAL_WEBHOOK_SECRET:
        raise ImproperlyConfigured("Set DJANGO_MCP['APPROVAL_WEBHOOK'] and DJANGO_MCP['APPROVAL_WEBHOOK_SECRET'].")
    body = body_of(approval)
    number = f"msg_{approval.public_id}"  # the same for each attempt, so that receivers recognise duplicates
    now = int(time.time())
    headers = {
        "Content-Type": "application/json",
        "webhook-id": number,
        "webhook-timestamp": str(now),
        "webhook-signature": signature(key_of(settings.APPROVAL_WEBHOOK_SECRET), number, now, body),
    }
    post(settings.APPROVAL_WEBHOOK, body, headers)


def signature(key: bytes, number: str, timestamp: int, body: bytes) -> str:
    digest = hmac.new(key, f"{number}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


def key_of(secret: str) -> bytes:
    """Return the signing key of a secret: the decoded Base64 after ``whsec_``, else the secret's bytes.

    Raises:
        ValueError: the part after ``whsec_`` is not valid Base64.
    """
    if not secret.startswith(PREFIX):
        return secret.encode()
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except binascii.Error:
        key = b""
    if not key:
        raise ValueError("The secret is not valid Base64 after 'whsec_'.")
    return key


def body_of(approval: Approval) -> bytes:
    """Return the JSON body of the webhook."""
    data = {
        "approval_id": approval.public_id,
        "endpoint": approval.server,
        "tool": approval.tool,
        "requester": requester(approval),
        "client": approval.client,
        "client_id": approval.client_id or None,
        # Redacted more than on the approval page: these values leave the site.
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
"""Seconds until the next attempt, by number of failures; the last one repeats."""
JITTER = 0.2
"""Fraction by which delays vary, so that retries spread out."""
CLAIM = datetime.timedelta(minutes=2)
"""Time that one process has for an attempt before another may try; longer than an attempt takes."""
LONGEST_ERROR = 500
_AT_ONCE = 500


class _Undelivered(Exception):
    """There is no recipient."""


def deliver_due() -> int:
    """Try all notices that are due. Return how many were delivered.

    Several processes may do so concurrently: each notice is claimed by one of them.
    """
    _give_up()
    delivered = 0
    while (notice := _claim()) is not None:
        delivered += _try(notice)
    return delivered


def seconds_left() -> float | None:
    """Return the seconds until the next notice is due, or None if none is left."""
    first = _waiting().order_by("next_attempt").values_list("next_attempt", flat=True).first()
    return None if first is None else max((first - timezone.now()).total_seconds(), 0.0)


def _waiting() -> "QuerySet[Notice]":
    return _undelivered().filter(approval__state=Approval.State.PENDING, approval__expires__gt=timezone.now())


def _undelivered() -> "QuerySet[Notice]":
    # A range, as SQLite uses no index for "IS NOT NULL".
    return Notice.objects.filter(next_attempt__gt=timezone.now() - datetime.timedelta(days=36500))


def _give_up() -> None:
    """Stop delivering notices of approval requests that are no longer pending."""
    over = ~Q(approval__state=Approval.State.PENDING) | Q(approval__expires__lte=timezone.now())
    useless = _undelivered().filter(over)
    if keys := list(useless.values_list("pk", flat=True)[:_AT_ONCE]):
        Notice.objects.filter(pk__in=keys).update(next_attempt=None)


def _claim() -> Notice | None:
    while True:
        now = timezone.now()
        due = _waiting().filter(next_attempt__lte=now).select_related("approval__user")
        found = due.order_by("attempts", "-kind", "next_attempt", "pk").first()
        if found is None:
            return None
        # Several processes may try it: only the one that raises the number of attempts has the notice.
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
    # Whatever became of the claim: the message has left, and must not be sent again.
    _only(notice).update(delivered=timezone.now(), next_attempt=None, error="")
    return True


def _spread(notice: Notice) -> None:
    """Replace the notice to all approvers with one for each address."""
    addresses = approvers(notice.approval)
    if not addresses:
        raise _Undelivered("No user who may approve this call has an e-mail address.")
    # Addresses of ``APPROVAL_EMAILS`` have a notice already. Each address gets one.
    known = {target.casefold() for target in notice.approval.notices.values_list("target", flat=True)}
    new = [address for address in addresses if address.casefold() not in known]
    with database.atomic():
        now = timezone.now()
        Notice.objects.bulk_create(
            Notice(approval=notice.approval, kind=EMAIL, target=address, next_attempt=now) for address in new
        )
        _only(notice).delete()


def _failed(notice: Notice, error: Exception) -> None:
    delay = DELAYS[min(notice.attempts, len(DELAYS)) - 1] * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - no secret
    following = timezone.now() + datetime.timedelta(seconds=delay)
    words = bounded(f"{type(error).__name__}: {error}", LONGEST_ERROR)[:LONGEST_ERROR]  # escaped characters are longer
    logger.warning("An approval notice could not be delivered (%s to %s): %s", notice.kind, notice.target, words)
    # The approval request has expired by the next attempt.
    is_last = following >= notice.approval.expires
    # Unless the claim expired while this attempt hung, and another process has made the next one.
    _only(notice).filter(attempts=notice.attempts).update(next_attempt=None if is_last else following, error=words)


def _only(notice: Notice) -> "QuerySet[Notice]":
    return Notice.objects.filter(pk=notice.pk)


LOOK_SECONDS = 60.0
"""Seconds between checks for notices of other processes. A process delivers its own at once."""
RETRY_SECONDS = 5.0
"""Seconds until the next check after a database error."""


class Sender:
    """Deliver notices in a background thread of this process, which ends when none are left."""

    def __init__(self) -> None:
        # Orders the start of the thread and its end: a notice that is stored as it ends starts another.
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()
        self._looked = -math.inf

    def begin(self) -> None:
        """Start delivery. Does not block; may be called from any thread."""
        with self._lock:
            self._start()

    def look(self) -> None:
        """Start delivery unless it was checked in the last ``LOOK_SECONDS``."""
        # Without the lock, as each read of approvals comes here. Two threads may both pass; the lock lets one start
        # it.
        if time.monotonic() - self._looked >= LOOK_SECONDS:
            with self._lock:
                self._start()

    def _start(self) -> None:
        self._looked = time.monotonic()
        self._wake.set()
        if self._thread is None or not self._thread.is_alive():
            thread = threading.Thread(target=self._work, name="django-mcp-notices", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # the limit of threads: notices wait, the call that looked does not fail
                logger.warning("%s cannot be started; notices are delivered later: %s", thread.name, error)
            else:
                self._thread = thread

    def _work(self) -> None:
        while True:
            # Before the database is read, so that a notice stored meanwhile is not missed.
            self._wake.clear()
            pause = self._deliver()
            connections.close_all()  # the next attempt may be an hour away
            with self._lock:
                # A notice stored from now on finds no thread, and starts another.
                if pause is None and not self._wake.is_set():
                    self._thread = None
                    return
            if pause is not None:
                self._wake.wait(min(pause, LOOK_SECONDS))

    def _deliver(self) -> float | None:
        """Deliver due notices. Return the seconds until the next one, or None."""
        try:
            deliver_due()
            return seconds_left()
        except DatabaseError as error:
            logger.warning("Approval notices could not be read from the database; retrying: %s", error)
        except Exception:  # the thread must survive
            logger.exception("Approval notices could not be delivered")
        return RETRY_SECONDS

    def after_fork(self) -> None:
        # A child process has no thread, and the lock may have been held.
        self._lock, self._wake, self._thread = threading.Lock(), threading.Event(), None
        self._looked = -math.inf


sender = Sender()
reset_after_fork(sender)


def look() -> None:
    sender.look()


__all__ = ["deliver_due", "make", "wake"]


def make(approval: Approval) -> None:
    """Store the notices of a new approval request. Call in the transaction that creates it."""
    now = timezone.now()
    notices = [Notice(approval=approval, kind=kind, target=target, next_attempt=now) for kind, target in _targets()]
    if notices:
        Notice.objects.bulk_create(notices)
        transaction.on_commit(sender.begin, using=router.db_for_write(Notice), robust=True)


def wake() -> None:
    # For notices that stopped processes left. Cheap: called whenever approval requests are read.
    if _targets():
        sender.look()


def _targets() -> list[tuple[str, str]]:
    addresses = {address.casefold(): address for address in settings.APPROVAL_EMAILS}
    found = [(EMAIL, address) for address in addresses.values()]
    if settings.APPROVAL_WEBHOOK:
        found.append((WEBHOOK, _host(settings.APPROVAL_WEBHOOK)))
    return found


def _host(url: str) -> str:
    # The path may be a secret, so it is only read from the settings.
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"[:500]
