"""Stored calls: resumable streams, and questions that wait for the client's answer.

Nothing waits in memory. A question is saved with its call, and the POST with the last answer runs the next round in
whichever worker receives it.
"""

import datetime
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from django_mcp.conf import settings
from django_mcp.core import database
from django_mcp.core.elicitation import Dialogue
from django_mcp.models import Call, PendingRequest, Session
from django_mcp.protocol.errors import InternalError
from django_mcp.protocol.jsonrpc import JSONRPC, Request, Response, encode, encode_error
from django_mcp.pubsub import event_store, once
from django_mcp.revisions.legacy.downgrade import question
from django_mcp.revisions.legacy.tasks import RESULT

END_OF_STREAM = ""
"""Last entry of a stream."""


def topic(call: Call) -> str:
    return topic_of(call.key)


def topic_of(key: str) -> str:
    return f"stream:{key}"


def new_key() -> str:
    return secrets.token_urlsafe(12)


def create_call(session: Session, request: Request, key: str, *, leased: bool = False) -> Call:
    """Create the row of a call whose stream begins; *leased* if the process renews the lease (see ``renew_leases``)."""
    return Call.objects.create(
        key=key,
        session=session,
        request_id=request.id,
        request={"method": request.method, "params": request.params},
        lease=_lease() if leased else None,
        expires=_expiry(),
    )


def append_messages(call: Call, messages: Sequence[bytes]) -> list[int]:
    return event_store.append_numbered([(topic(call), message.decode()) for message in messages])


@database.retry_conflicts
def store_questions(
    call: Call, dialogue: Dialogue, requests: Mapping[str, Any], version: str
) -> list[tuple[int, bytes]]:
    """Save questions and add them to the call's stream; return ids and messages."""
    pending = [PendingRequest(call=call, request_id=secrets.token_urlsafe(12), key=key) for key in requests]
    messages = []
    for request in pending:
        asked = question(requests[request.key], request.request_id, version)
        messages.append(encode({"jsonrpc": JSONRPC, "id": request.request_id, **asked}))
    with database.atomic():
        # Earlier answers are in the dialogue.
        call.questions.all().delete()
        PendingRequest.objects.bulk_create(pending)
        # The next round has the same progress token, and progress must increase (2025-11-25, Progress).
        saved = {**dialogue.to_json(), "progress": dialogue.progress}
        expires = _expiry()
        Call.objects.filter(pk=call.pk).update(dialogue=saved, status=Call.Status.ASKING, expires=expires)
        once.extend(dialogue.id, expires)
        return list(zip(append_messages(call, messages), messages, strict=True))


@database.retry_conflicts
def end_call(call: Call, messages: Sequence[bytes]) -> list[int]:
    """Add the last messages to the call's stream and delete open questions; return the ids."""
    with database.atomic():
        # The row first. A question is asked under its lock, so one that is being asked is committed, and then deleted.
        Call.objects.filter(pk=call.pk).update(status=Call.Status.ENDED)
        call.questions.all().delete()
        said = [(topic(call), message.decode()) for message in messages]
        return event_store.append_numbered([*said, (topic(call), END_OF_STREAM)])[:-1]


def renew_leases(running: Sequence[int]) -> None:
    """Extend the leases of running calls; they and their sessions do not expire meanwhile."""
    expires = _expiry()
    for start in range(0, len(running), event_store.CHUNK_SIZE):  # databases limit the parameters of a statement
        held = Call.objects.filter(pk__in=running[start : start + event_store.CHUNK_SIZE], status=Call.Status.RUNNING)
        held.update(lease=_lease(), expires=expires)
        # A client that waits for a long call sends nothing that would extend its session.
        Session.objects.filter(pk__in=held.values("session"), expires__lt=expires).update(expires=expires)


def is_lost(call: Call) -> bool:
    return _lost(call).exists()


@database.retry_conflicts
def fail_lost(call: Call) -> None:
    """End a lost call with an error to its client, once if several processes try."""
    words = (
        "The server process handling this call stopped before it answered. The call may have taken effect; check "
        "before retrying."
    )
    with database.atomic():
        # The lease may have been renewed meanwhile, or another process may have ended the call.
        if _lost(call).update(status=Call.Status.ENDED):
            call.questions.all().delete()
            message = encode_error(call.request_id, InternalError(words)).decode()
            event_store.append([(topic(call), message), (topic(call), END_OF_STREAM)])


def _lost(call: Call) -> "QuerySet[Call]":
    return Call.objects.filter(pk=call.pk, status=Call.Status.RUNNING, lease__lt=timezone.now())


def _lease() -> datetime.datetime:
    # Leases are renewed four times in this period.
    return timezone.now() + datetime.timedelta(seconds=2 * settings.KEEP_ALIVE_INTERVAL)


def _expiry() -> datetime.datetime:
    return timezone.now() + datetime.timedelta(seconds=settings.ELICITATION_TTL)


def store_answer(session: Session, response: Response) -> PendingRequest | None:
    """Save an answer; return the question with its call.

    Repeated, late and unsolicited answers change nothing. A repeated one is returned while its call waits, because the
    process that received it first may have died.
    """
    answer = {"error": response.error} if response.error is not None else {"result": response.result}
    # Our ids have no NUL, and PostgreSQL rejects one in a query.
    pending = PendingRequest.objects.filter(
        request_id=str(response.id).replace("\0", " "), call__session=session, call__expires__gt=timezone.now()
    )
    # Conditional: of several answers to a question the first one counts.
    answered = pending.filter(answer__isnull=True).update(answer=answer)
    found = pending.select_related("call").first()  # None if the call was withdrawn meanwhile
    if answered or found is None:
        return found
    return found if found.call.status == Call.Status.ASKING and found.call.request["method"] != RESULT else None


def claim_answered(pending: PendingRequest, *, leased: bool = False) -> Call | None:
    """Return the call if no question is open any more; only one process gets it, and must run it."""
    call = pending.call
    open_questions = PendingRequest.objects.filter(call=OuterRef("pk"), answer__isnull=True)
    asking = Call.objects.filter(pk=call.pk, status=Call.Status.ASKING).exclude(Exists(open_questions))
    # Several processes may have stored the last answers. This statement succeeds in one of them.
    return call if asking.update(status=Call.Status.RUNNING, lease=_lease() if leased else None) else None


def unclaim(call: Call) -> None:
    Call.objects.filter(pk=call.pk, status=Call.Status.RUNNING).update(status=Call.Status.ASKING, lease=None)


def restore(call: Call) -> tuple[Request, Dialogue]:
    call.refresh_from_db()
    dialogue = Dialogue(**call.dialogue)
    answers = {question.key: question.answer or {} for question in call.questions.all()}
    dialogue.answer({key: answer.get("result", answer) for key, answer in answers.items()})
    return Request(call.request_id, **call.request), dialogue


def end_cancelled(session: Session, request_id: Any) -> None:
    waiting = session.calls.filter(status=Call.Status.ASKING, request_id=request_id)
    for call in waiting:
        end_call(call, [])


def find_by_event_id(session: Session, event_id: str) -> tuple[Call, int] | None:
    """Return the call of an event id and the position to resume after."""
    key, _, position = event_id.rpartition(".")
    if not position.isdecimal() or len(position) > 18:  # noqa: PLR2004 - no key has more digits
        return None
    call = session.calls.filter(key=key, expires__gt=timezone.now()).first()
    return None if call is None else (call, int(position))
