"""Time limits of functions that wait for a database."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from django.db import OperationalError, connections

from django_mcp.core.database import tools_alias
from django_mcp.core.deadlines import Deadline, DeadlineExceeded

QUERY_CANCELED = "57014"
"""PostgreSQL's code for a statement that took longer than ``statement_timeout``."""
# A limit that the site set itself stays, where it is the stricter one.
STATEMENT_TIMEOUT = """
    SELECT set_config('statement_timeout', CASE WHEN setting::int BETWEEN 1 AND %s THEN setting ELSE %s END, true)
    FROM pg_settings WHERE name = 'statement_timeout'
"""


@contextmanager
def stopped_at_queries(deadline: Deadline | None) -> Iterator[None]:
    """No query of this thread begins when the time is up.

    Raises:
        DeadlineExceeded: once, for a rollback to a savepoint is a query too.
    """
    stopped = False

    def before_query(execute: Callable[..., Any], *arguments: Any) -> Any:
        nonlocal stopped
        if deadline is not None and deadline.has_passed and not stopped:
            stopped = True
            raise DeadlineExceeded
        return execute(*arguments)

    with ExitStack() as stack:
        if deadline is not None:
            for each in connections.all():
                stack.enter_context(each.execute_wrapper(before_query))
        yield


def limit_statements(deadline: Deadline | None) -> None:
    """Let the database end what takes longer than there is time, in the transaction that has just begun.

    PostgreSQL can; of others nothing is asked.
    """
    if deadline is None:
        return
    connection = connections[tools_alias()]
    if connection.vendor != "postgresql" or not connection.in_atomic_block:
        return
    milliseconds = int(deadline.remaining * 1000) + 1
    with connection.cursor() as cursor:
        cursor.execute(STATEMENT_TIMEOUT, [milliseconds, str(milliseconds)])


def is_out_of_time(error: BaseException, deadline: Deadline | None) -> bool:
    """Whether the database ended a statement because of ``limit_statements``."""
    if not isinstance(error, OperationalError) or deadline is None or not deadline.has_passed:
        return False
    code = getattr(error.__cause__, "sqlstate", None) or getattr(error.__cause__, "pgcode", None)
    return code == QUERY_CANCELED
