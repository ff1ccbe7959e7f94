"""Rows of the log, written with one statement that is put together once.

A model instance for each would cost more than the database does.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import cache, partial
from typing import Any, NamedTuple

from django.db import IntegrityError, connections, models, router, transaction

from django_mcp.audit.facts import Facts
from django_mcp.models import ToolCall
from django_mcp.protocol.jsonrpc import UnencodableResult, encode

MOST_ROWS = 1000
"""In one statement."""
PLAIN = {models.CharField, models.TextField, models.FloatField, models.IntegerField, models.PositiveIntegerField}
"""Fields whose values are strings and numbers here, which every database takes as they are."""
MOST_PARAMETERS = 5000
"""In one statement, where the database does not say."""


class Statement(NamedTuple):
    """How rows are inserted.

    Attributes:
        names: of the columns, as ``Facts`` have them.
        head: the statement up to its values.
        row: placeholders of one row; empty where all rows are one parameter, a JSON array.
        prepare: what makes a value the database's own, by the places of the columns that need it.
        most: rows at once.
    """

    names: Sequence[str]
    head: str
    row: str
    prepare: Mapping[int, Callable[[Any], Any]]
    most: int


def save(calls: Sequence[Facts]) -> None:
    """Write them, each one for itself where some cannot be written together.

    Raises:
        DatabaseError: some could not be written.
    """
    alias = router.db_for_write(ToolCall)
    try:
        _insert(calls, alias)
    except IntegrityError:  # a user who was deleted meanwhile
        with transaction.atomic(using=alias):
            for call in calls:
                _insert_alone(call, alias)


def is_there() -> bool:
    """Whether there is a database to write to."""
    return _vendor(router.db_for_write(ToolCall)) != "unknown"


def check_writable(call: Facts) -> None:
    """Write a row and take it back.

    Raises:
        DatabaseError, InterfaceError: it cannot be written.
    """
    alias = router.db_for_write(ToolCall)
    connections[alias].close_if_unusable_or_obsolete()
    with transaction.atomic(using=alias):
        save([call])
        transaction.set_rollback(True, using=alias)


def _insert_alone(call: Facts, alias: str) -> None:
    try:
        with transaction.atomic(using=alias):
            _insert([call], alias)
            connections[alias].check_constraints([ToolCall._meta.db_table])  # noqa: SLF001 - documented API
    except IntegrityError:
        _insert([{**call, "user_id": None}], alias)


def _insert(calls: Sequence[Facts], alias: str) -> None:
    statement = _statement(alias)
    chunks = [calls[start : start + statement.most] for start in range(0, len(calls), statement.most)]
    with transaction.atomic(using=alias) if len(chunks) > 1 else nullcontext(), connections[alias].cursor() as cursor:
        for chunk in chunks:
            every = [_values(call, statement) for call in chunk]
            if statement.row:
                rows = ", ".join([statement.row] * len(chunk))
                cursor.execute(f"{statement.head} {rows}", [value for values in every for value in values])
            else:
                objects = [dict(zip(statement.names, values, strict=True)) for values in every]
                cursor.execute(statement.head, [encode(objects).decode()])


def _values(call: Facts, statement: Statement) -> list[Any]:
    values = [call[name] for name in statement.names]
    for place, prepare in statement.prepare.items():
        values[place] = prepare(values[place])
    return values


@cache
def _vendor(alias: str) -> str:
    return connections[alias].vendor  # on an event loop each task would make a connection of its own for the question


@cache
def _statement(alias: str) -> Statement:
    connection = connections[alias]
    quote = connection.ops.quote_name
    fields = [each for each in ToolCall._meta.concrete_fields if not each.primary_key]  # noqa: SLF001 - documented API
    table = quote(ToolCall._meta.db_table)  # noqa: SLF001 - names of the model's
    columns = ", ".join(quote(str(each.column)) for each in fields)
    head = f"INSERT INTO {table} ({columns})"
    names = [each.attname for each in fields]
    prepare = {place: make for place, field in enumerate(fields) if (make := _prepare(field, connection))}
    if connection.vendor == "postgresql":  # where it takes longer to quote each value than to do all the rest
        del prepare[names.index("address")]
        head += f" SELECT {columns} FROM json_populate_recordset(NULL::{table}, %s::json)"  # noqa: S608 - names of the model's
        return Statement(names, head, "", prepare, MOST_ROWS)
    most = (connection.features.max_query_params or MOST_PARAMETERS) // len(fields)
    if connection.vendor == "oracle":  # which has no such list of rows
        most = 1
    return Statement(names, f"{head} VALUES", f"({', '.join(['%s'] * len(fields))})", prepare, max(most, 1))


def _prepare(field: Any, connection: Any) -> Callable[[Any], Any] | None:
    """Return what the field does with a value before it is written, or None where ours need nothing of it."""
    if field.name == "arguments":
        return _text_of
    if type(field) in PLAIN:
        return None
    return partial(field.get_db_prep_save, connection=connection)


def _text_of(arguments: Any) -> str | None:
    try:
        return None if arguments is None else encode(arguments).decode()
    except UnencodableResult:  # half of a surrogate pair, for which the field has a way
        text: str | None = ToolCall._meta.get_field("arguments").get_prep_value(arguments)  # noqa: SLF001 - documented API
        return text
