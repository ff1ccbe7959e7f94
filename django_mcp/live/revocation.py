"""Open streams end with the credential they were opened with: when it expires, and when somebody takes it back."""

from functools import partial

from django_mcp.core import database
from django_mcp.core.principal import Principal
from django_mcp.core.signals import access_ended
from django_mcp.live import log

REVOKED = "revoked"
ACCOUNT = "account"
"""In place of ``Principal.kind``: all callers who are one user."""


def topic(kind: str, id: str) -> str:  # noqa: A002 - as ``Principal`` has it
    """Under which is logged what concerns a caller."""
    return f"caller:{kind}:{id}"


def user_topic(pk: object) -> str:
    """What stands for all callers who are one user. Nothing is logged under it; changes name it (``live.changes``)."""
    return f"user:{pk}"


def topics_of(principal: Principal) -> tuple[str, ...]:
    """Return the topics of which any entry ends a caller's streams: the caller's own, and that of the user."""
    pk = getattr(principal.user, "pk", None)
    return (topic_of(principal),) if pk is None else (topic_of(principal), topic(ACCOUNT, str(pk)))


def end_streams_of_user(pk: object) -> None:
    """End the open streams of a user, whatever credential they were opened with, as ``end_streams`` does."""
    end_streams(ACCOUNT, str(pk))


def end_streams(kind: str, id: str) -> None:  # noqa: A002
    """End a caller's open streams, in every process, once the transaction is committed.

    It is logged in the transaction, so that nothing is seen of the one without the other, and once more behind it: the
    log is read only a little back, and while a long transaction is open others write much behind what it wrote.

    Args:
        kind: ``Principal.kind``.
        id: ``Principal.id``.
    """
    tell = partial(log.append, [(topic(kind, id), REVOKED)])
    if database.own_connection().in_atomic_block:
        tell()
    database.on_commit(tell)


def end_access(kind: str, id: str) -> None:  # noqa: A002
    """A credential was taken back: its streams end, and what still runs for its caller.

    Args:
        kind: ``Principal.kind``.
        id: ``Principal.id``.
    """
    end_streams(kind, id)
    access_ended.send(sender=None, kind=kind, id=id)


def topic_of(principal: Principal) -> str:
    """The topic of a caller."""
    return topic(principal.kind, principal.id)
