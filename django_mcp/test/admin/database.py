"""Two runs on the same database: what each changes in which table."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

from django.apps import apps
from django.core.cache import caches
from django.core.files.storage import Storage
from django.core.management.color import no_style
from django.db import DEFAULT_DB_ALIAS, connections, router
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils import timezone

from django_mcp.test.client import rehearsal

Rows = Counter[tuple[Any, ...]]
MOMENT = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?([+-]\d\d(:\d\d)?|Z)?")
MARGIN = timedelta(seconds=2)


@dataclass
class Changes:
    """What a run changed.

    Attributes:
        tables: rows removed and rows added, by table.
        mails: subjects of the mail that was sent.
        files: names of the files that were stored, with a digest of the content.
    """

    tables: dict[str, tuple[tuple[Any, ...], tuple[Any, ...]]] = field(default_factory=dict)
    mails: tuple[str, ...] = ()
    files: tuple[tuple[str, str], ...] = ()


@contextmanager
def trial(prepare: Callable[[], None]) -> Iterator[Changes]:
    """Run a block as on a fresh copy of the database, then roll it back. Its changes are known after the block.

    What *prepare* changes before the block, such as a session, is not among them.

    Caches are emptied, sequences set back and stored files deleted, or the second of two runs would not find what the
    first did. A file that the block deletes is gone.
    """
    changes = Changes()
    for cache in caches.all():
        cache.clear()
    with rehearsal(), files_stored() as files:
        reset_sequences()
        from django.core import mail  # noqa: PLC0415 - its outbox appears when tests are set up

        prepare()
        before = dump()
        sent = len(getattr(mail, "outbox", ()))
        began = datetime.now(UTC)
        yield changes
        after = dump()
        ended = datetime.now(UTC)
        changes.mails = tuple(message.subject for message in getattr(mail, "outbox", ())[sent:])
        changes.files = tuple(sorted((name, digest(storage, name)) for storage, name in files))
    for table in sorted({*before, *after}):
        removed = before.get(table, Rows()) - after.get(table, Rows())
        added = after.get(table, Rows()) - before.get(table, Rows())
        if removed or added:
            changes.tables[table] = (ordered(removed), ordered(without_clock(added, removed, began, ended)))


@contextmanager
def files_stored() -> Iterator[list[tuple[Storage, str]]]:
    """Collect the files that are stored in the block, and delete them after it."""
    stored: list[tuple[Storage, str]] = []
    save = Storage.save

    def noted(self: Storage, *args: Any, **kwargs: Any) -> str:
        name = save(self, *args, **kwargs)
        stored.append((self, name))
        return name

    with mock.patch.object(Storage, "save", noted):
        yield stored
    for storage, name in stored:
        storage.delete(name)


def digest(storage: Storage, name: str) -> str:
    """Return a digest of a file's content, "" if it is gone."""
    if not storage.exists(name):
        return ""
    with storage.open(name) as file:
        return hashlib.sha256(file.read()).hexdigest()[:16]


def ordered(rows: Rows) -> tuple[tuple[Any, ...], ...]:
    return tuple(sorted(rows.elements(), key=repr))


def without_clock(rows: Rows, removed: Rows, began: datetime, ended: datetime) -> Rows:
    """Return the rows with moments of the run as the same one, whoever set them.

    A moment that the rows had before is none of them, however short ago it was.
    """
    kept = {value for row in removed for value in row}

    def is_now(value: Any) -> bool:
        moment = None if value in kept else moment_of(value)
        return moment is not None and began - MARGIN <= moment <= ended + MARGIN

    return Rows(tuple("now" if is_now(value) else value for value in row) for row in rows.elements())


def left_out() -> set[str]:
    """Return tables that differ by nature: sessions, and what the endpoint keeps about its calls."""
    ours = apps.get_app_config("django_mcp").get_models(include_auto_created=True)
    return {"django_session", *(model._meta.db_table for model in ours)}  # noqa: SLF001 - Django's documented API


def dump() -> dict[str, Rows]:
    """Return the rows of all tables of models, those of other databases than the default with its alias in front."""
    wanted = {model._meta.db_table for model in apps.get_models(include_auto_created=True)} - left_out()  # noqa: SLF001 - Django's documented API
    tables: dict[str, Rows] = {}
    for connection in databases():
        before = "" if connection.alias == DEFAULT_DB_ALIAS else f"{connection.alias}."
        with connection.cursor() as cursor:
            for table in sorted(wanted.intersection(connection.introspection.table_names(cursor))):
                cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")  # noqa: S608 - its own name
                tables[before + table] = Rows(tuple(map(comparable, row)) for row in cursor.fetchall())
    return tables


def databases() -> Iterator[BaseDatabaseWrapper]:
    """Yield the databases that a rehearsal rolls back: those that the test may use."""
    return (connections[alias] for alias in connections if connections[alias].in_atomic_block)


def comparable(value: Any) -> Any:
    """Return a value as it is compared: hashable, and without the client in a history's entry."""
    if isinstance(value, memoryview):
        return bytes(value)
    if isinstance(value, list | dict):
        value = json.dumps(value, sort_keys=True)
    if isinstance(value, str) and '"mcp"' in value:
        return without_client(value)
    return value


def moment_of(value: Any) -> datetime | None:
    """Return the time of a value, also where the database has text."""
    if isinstance(value, str) and MOMENT.fullmatch(value):
        value = datetime.fromisoformat(value)
    if not isinstance(value, datetime):
        return None
    if value.tzinfo is not None:
        return value
    zone = connections[DEFAULT_DB_ALIAS].timezone or timezone.get_default_timezone()
    return value.replace(tzinfo=zone)


def without_client(text: str) -> str:
    """Return a history's message without the client, which only the endpoint names."""
    try:
        told = json.loads(text)
    except ValueError:
        return text
    if not isinstance(told, list):
        return text
    entries = [
        {key: value for key, value in entry.items() if key != "mcp"} for entry in told if isinstance(entry, dict)
    ]
    return json.dumps([entry for entry in entries if entry])


def reset_sequences() -> None:
    """Let new rows get the same keys in each run: no rollback sets a sequence of PostgreSQL back."""
    for connection in databases():
        if connection.vendor == "postgresql":
            there = [model for model in apps.get_models() if router.allow_migrate_model(connection.alias, model)]
            with connection.cursor() as cursor:
                for statement in connection.ops.sequence_reset_sql(no_style(), there):
                    cursor.execute(statement)
