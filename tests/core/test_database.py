"""A tool's transaction on SQLite: it takes the one write lock with its first statement, and not before."""

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, connections, transaction
from django.db.backends.signals import connection_created
from django.db.backends.sqlite3.base import DatabaseWrapper

from django_mcp.core.database import Transaction, in_transaction


class Holder:
    """A context as far as it holds a transaction."""

    transaction: Transaction | None = None


@pytest.fixture
def files(tmp_path: Path, django_db_blocker: Any) -> Iterator[tuple[Any, Any]]:
    """Two connections to one file; the first is this thread's default one, whichever database the tests run on."""
    before = connections["default"]
    options = {"timeout": 0.05, "transaction_mode": "IMMEDIATE"}
    chosen = {**before.settings_dict, "NAME": str(tmp_path / "file.sqlite3"), "OPTIONS": options}
    made = [DatabaseWrapper(chosen, "default") for _ in range(2)]
    connections["default"] = made[0]
    with django_db_blocker.unblock():
        made[0].cursor().execute("CREATE TABLE note (text)")
        made[1].ensure_connection()
        yield made[0], made[1]
        for each in made:
            each.close()
    connections["default"] = before


def write(wrapper: Any, text: str) -> None:
    with wrapper.cursor() as cursor:
        cursor.execute("INSERT INTO note VALUES (%s)", [text])


def notes(wrapper: Any) -> list[str]:
    with wrapper.cursor() as cursor:
        return [text for (text,) in cursor.execute("SELECT text FROM note ORDER BY rowid").fetchall()]


@pytest.mark.parametrize("context", [None, Holder()])
def test_who_asks_nothing_keeps_nobody_from_writing(files: tuple[Any, Any], context: Any) -> None:
    ours, other = files

    def idle() -> str:
        assert ours.in_atomic_block
        write(other, "while it runs")
        return "done"

    assert in_transaction(idle, context) == "done"
    assert notes(ours) == ["while it runs"]


def test_all_it_wrote_is_taken_back_by_an_error(files: tuple[Any, Any]) -> None:
    ours, other = files

    def fail() -> None:
        write(ours, "first")
        with transaction.atomic():
            write(ours, "second")
        assert notes(other) == []
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011 - it has no words
        in_transaction(fail)
    assert notes(ours) == []


def test_a_savepoint_that_comes_first_is_inside(files: tuple[Any, Any]) -> None:
    ours, _ = files

    def undo_a_part() -> None:
        with pytest.raises(ValueError), transaction.atomic():  # noqa: PT011, PT012 - it has no words
            write(ours, "taken back")
            raise ValueError
        write(ours, "kept")

    in_transaction(undo_a_part)
    assert notes(ours) == ["kept"]


def test_from_its_first_statement_on_it_has_the_lock(files: tuple[Any, Any]) -> None:
    ours, other = files

    def look() -> None:
        notes(ours)
        with pytest.raises(OperationalError, match="locked"):
            write(other, "between")

    in_transaction(look)


def test_without_the_lock_nothing_is_written_that_could_not_be_taken_back(files: tuple[Any, Any]) -> None:
    ours, other = files

    def insist() -> None:
        with pytest.raises(OperationalError, match="locked"):
            write(ours, "too early")
        other.connection.rollback()
        write(ours, "in time")
        raise ValueError

    other.connection.execute("BEGIN IMMEDIATE")
    with pytest.raises(ValueError):  # noqa: PT011 - it has no words
        in_transaction(insist)
    assert notes(ours) == []


def test_a_site_s_own_wrapper_around_what_failed_to_begin_goes_and_ours_stays(files: tuple[Any, Any]) -> None:
    ours, other = files

    def site(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        return execute(sql, params, many, context)

    def insist() -> None:
        with ours.execute_wrapper(site), pytest.raises(OperationalError, match="locked"):
            write(ours, "too early")
        assert site not in ours.execute_wrappers
        other.connection.rollback()
        write(ours, "in time")
        raise ValueError

    other.connection.execute("BEGIN IMMEDIATE")
    with pytest.raises(ValueError):  # noqa: PT011 - it has no words
        in_transaction(insist)
    assert notes(ours) == []
    assert ours.execute_wrappers == []


def test_what_was_committed_in_between_stays(files: tuple[Any, Any]) -> None:
    ours, other = files
    holder = Holder()

    def write_twice() -> None:
        assert holder.transaction is not None
        write(ours, "stays")
        with holder.transaction.suspended():
            write(other, "of somebody else")
        write(ours, "goes")
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011 - it has no words
        in_transaction(write_twice, holder)
    assert notes(ours) == ["stays", "of somebody else"]


def test_a_transaction_is_begun_once(files: tuple[Any, Any]) -> None:
    ours, _ = files
    seen: list[str] = []
    ours.connection.set_trace_callback(seen.append)

    in_transaction(lambda: [write(ours, "one"), write(ours, "two")])
    in_transaction(lambda: "nothing")

    assert [each.partition(" ")[0] for each in seen] == ["BEGIN", "INSERT", "INSERT", "COMMIT"]


def test_what_a_site_puts_around_statements_when_a_connection_is_made_stays_and_ours_goes(
    files: tuple[Any, Any],
) -> None:
    ours, other = files
    ours.close()  # so that it is made anew when the tool's transaction begins

    def site(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        return execute(sql, params, many, context)

    def put(connection: Any, **_: Any) -> None:
        connection.execute_wrappers.append(site)

    connection_created.connect(put)
    try:
        in_transaction(lambda: write(ours, "in it"))
    finally:
        connection_created.disconnect(put)
    assert ours.execute_wrappers[-1] is site
    assert "_begin" not in {each.__name__ for each in ours.execute_wrappers}
    write(ours, "after it")
    write(other, "by another")
    assert notes(other) == ["in it", "after it", "by another"]


@pytest.mark.parametrize("writes", [True, False])
def test_what_waits_for_its_commit_is_done_after_it(files: tuple[Any, Any], writes: bool) -> None:
    ours, _ = files
    seen: list[Any] = []

    def work() -> None:
        if writes:
            write(ours, "it")
        transaction.on_commit(lambda: seen.append((ours.in_atomic_block, ours.get_autocommit(), notes(ours))))
        assert seen == []

    in_transaction(work)
    assert seen == [(False, True, ["it"] if writes else [])]


@pytest.mark.parametrize("writes", [True, False])
@pytest.mark.parametrize("marked", [True, False])
def test_what_waits_for_a_commit_that_does_not_come_is_not_done(
    files: tuple[Any, Any], writes: bool, marked: bool
) -> None:
    ours, _ = files
    seen: list[str] = []

    def fail() -> None:
        if writes:
            write(ours, "it")
        transaction.on_commit(lambda: seen.append("of the first"))
        if not marked:
            raise ValueError
        transaction.set_rollback(True)

    if marked:
        in_transaction(fail)
    else:
        with pytest.raises(ValueError):  # noqa: PT011 - it has no words
            in_transaction(fail)
    in_transaction(lambda: transaction.on_commit(lambda: seen.append("of the second")))
    assert seen == ["of the second"]
    assert notes(ours) == []
    write(ours, "on its own")
    assert notes(files[1]) == ["on its own"]


@pytest.mark.parametrize("writes", [True, False])
def test_a_connection_that_a_tool_closes_is_made_anew(files: tuple[Any, Any], writes: bool) -> None:
    ours, _ = files

    def close() -> None:
        if writes:
            write(ours, "lost with it")
        ours.close()

    in_transaction(close)
    in_transaction(lambda: write(ours, "on a new one"))
    assert notes(ours) == ["on a new one"]
    assert ours.execute_wrappers == []


def test_inside_of_another_block_it_is_a_savepoint(files: tuple[Any, Any]) -> None:
    ours, _ = files

    def fail() -> None:
        write(ours, "inner")
        raise ValueError

    with transaction.atomic():
        write(ours, "outer")
        with pytest.raises(ValueError):  # noqa: PT011 - it has no words
            in_transaction(fail)
    assert notes(ours) == ["outer"]


def test_whoever_begins_transactions_by_hand_goes_on_doing_so(files: tuple[Any, Any]) -> None:
    ours, other = files
    ours.set_autocommit(False)
    ours.cursor().execute("BEGIN")
    in_transaction(lambda: write(ours, "by hand"))
    assert not ours.get_autocommit()
    assert notes(other) == []
    ours.commit()
    ours.set_autocommit(True)
    assert notes(other) == ["by hand"]


def test_only_one_block_that_must_be_the_outermost_is_refused_inside(files: tuple[Any, Any]) -> None:
    def durable() -> None:
        with pytest.raises(RuntimeError, match="durable"), transaction.atomic(durable=True):
            raise AssertionError

    in_transaction(durable)


def test_to_all_code_within_it_is_a_block_like_any_other(files: tuple[Any, Any]) -> None:
    ours, _ = files
    state = ("in_atomic_block", "autocommit", "commit_on_exit", "needs_rollback", "savepoint_ids")

    def looked() -> list[Any]:
        return [getattr(ours, name) for name in state] + [len(ours.atomic_blocks)]

    with transaction.atomic():
        inside = looked()
    outside = looked()
    assert in_transaction(looked) == inside
    assert looked() == outside


def test_a_database_error_that_was_caught_keeps_nothing_of_later_calls_alive(files: tuple[Any, Any]) -> None:
    """The connection keeps its last error, whose traceback holds the frames of one call, and not of all since."""

    class Arguments:
        """Something that a call has in its hands."""

    alive: weakref.WeakSet[Arguments] = weakref.WeakSet()

    def work() -> None:
        held = Arguments()
        alive.add(held)
        try:
            with transaction.atomic(), transaction.mark_for_rollback_on_error():
                raise OperationalError("as get_or_create and ctx.once catch it")
        except OperationalError:
            pass

    for _ in range(20):
        in_transaction(work)
    gc.collect()
    assert len(alive) <= 1


def test_after_a_database_error_that_was_caught_nothing_is_committed_within_and_that_is_said(
    files: tuple[Any, Any],
) -> None:
    """``ctx.once`` commits: what was written before would be rolled back without a word."""
    ours, _ = files
    holder = Holder()

    def act() -> str:
        write(ours, "before")
        try:
            with transaction.mark_for_rollback_on_error():
                raise OperationalError("as a failed save() is")
        except OperationalError:
            pass
        assert holder.transaction is not None
        with holder.transaction.suspended():
            return "sent"

    with pytest.raises(transaction.TransactionManagementError, match=r"Wrap queries that may fail"):
        in_transaction(act, holder)
    assert notes(ours) == []
