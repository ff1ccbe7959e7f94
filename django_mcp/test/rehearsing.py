"""A call that is made, and then was never made: so one test sees it in another version of the protocol."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from django.core import mail
from django.db import connections, transaction


@contextmanager
def rehearsal() -> Iterator[None]:
    """Undo what is done within: in all databases of the test, and mails that were sent.

    What was to be done on commit is not done. What cannot be undone is done: a request to another service, a call of a
    mock, a key in a cache.
    """
    outbox = getattr(mail, "outbox", None)
    sent = 0 if outbox is None else len(outbox)
    with ExitStack() as stack:
        for alias in connections:
            _enter(stack, alias)
        yield
    if outbox is not None:
        del outbox[sent:]


def _enter(stack: ExitStack, alias: str) -> None:
    atomic = transaction.atomic(alias)
    # As those of TestCase: what insists on a transaction of its own, such as the approval of a call, has it in here.
    atomic._from_testcase = True  # type: ignore[attr-defined] # noqa: SLF001
    try:
        stack.enter_context(atomic)
    except AssertionError:  # the test is not allowed to touch this database, and neither is what it calls
        return
    stack.callback(transaction.set_rollback, True, alias)
