"""Queries of every request, put together once by Django's own compiler, so that every database is spoken to rightly.

Building a queryset and running it takes five times as long as the database needs for the answer.
"""

import datetime
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from django.conf import settings
from django.db import connections, models, router

_FAR = 9000
"""A year that no query of ours means."""


class _Statement(NamedTuple):
    """A query of one connection.

    Attributes:
        connection: for whose kind of database it was put together.
        compiler: Django's, which knows how to read what comes back.
        sql: with placeholders.
        parameters: of the statement; in place of what varies stands a ``_Hole``.
        converters: from the database's values to Python's, by column.
        own: names of the model's columns.
        related: the foreign keys, and the names of their models' columns.
        annotations: names of what is computed, which comes last.
    """

    connection: Any
    compiler: Any
    sql: str
    parameters: Sequence[Any]
    converters: Any
    own: list[str]
    related: list[tuple[Any, list[str]]]
    annotations: list[str]


class _Hole(NamedTuple):
    name: str


class Prepared:
    """Finds rows, with rows that they point to.

    Args:
        build: a queryset, from the values by name that vary. It is called once for each connection, with stand-ins.
        related: names of foreign keys of the model whose rows are brought along.
        varying: name -> type of what varies: ``str``, or ``datetime.datetime``, which is aware where ``USE_TZ`` is on.
    """

    def __init__(
        self, build: Callable[..., models.QuerySet[Any]], *, related: Sequence[str] = (), **varying: type
    ) -> None:
        self._build = build
        self._related = related
        self._varying = varying
        self._local = threading.local()

    def first(self, **values: Any) -> Any:
        """The row, or None. One query.

        Args:
            values: what varies.

        Raises:
            DatabaseError, InterfaceError: the database could not tell.
        """
        found = self.all(**values)
        return found[0] if found else None

    def all(self, **values: Any) -> list[Any]:
        """All rows. One query; see ``first``."""
        statement = self._statement()
        ops = statement.connection.ops
        given = {
            name: ops.adapt_datetimefield_value(value) if isinstance(value, datetime.datetime) else value
            for name, value in values.items()
        }
        parameters = [given[each.name] if type(each) is _Hole else each for each in statement.parameters]
        with statement.connection.cursor() as cursor:
            cursor.execute(statement.sql, parameters)
            rows = cursor.fetchall()
        if rows:
            rows = statement.compiler.apply_converters(rows, statement.converters)
        return [_instance(row, statement) for row in rows]

    def _statement(self) -> _Statement:
        """That of this thread's connection: other threads have connections of their own."""
        known: dict[str, _Statement] | None = getattr(self._local, "statements", None)
        if known is None:
            known = self._local.statements = {}
            self._local.model = self._build(**self._stand_ins()).model
        alias = router.db_for_write(self._local.model)  # a replica may lag behind
        connection = connections[alias]
        statement = known.get(alias)
        if statement is None or statement.connection is not connection:
            statement = known[alias] = self._compiled(connection)
        return statement

    def _stand_ins(self) -> dict[str, Any]:
        return {
            name: datetime.datetime(_FAR + place, 1, 1, tzinfo=datetime.UTC if settings.USE_TZ else None)
            if kind is datetime.datetime
            else f"?{name}?"
            for place, (name, kind) in enumerate(self._varying.items())
        }

    def _compiled(self, connection: Any) -> _Statement:
        stand_ins = self._stand_ins()
        queryset = self._build(**stand_ins).using(connection.alias)
        annotations = list(queryset.query.annotations)
        own = _columns(queryset.model)
        keys = [queryset.model._meta.get_field(name) for name in self._related]  # noqa: SLF001 - Django's documented API
        related = [(key, _columns(key.related_model)) for key in keys]
        theirs = [f"{key.name}__{column}" for key, columns in related for column in columns]
        queryset = queryset.values_list(*own, *theirs, *annotations)
        compiler = queryset.query.get_compiler(connection=connection)
        sql, parameters = compiler.as_sql()
        holes = [_hole(each, stand_ins, connection) for each in parameters]
        missing = stand_ins.keys() - {each.name for each in holes if type(each) is _Hole}
        if missing:
            msg = f"the query does not depend on {sorted(missing)}"
            raise RuntimeError(msg)
        selected = [column for column, _, _ in compiler.select]
        converters = compiler.get_converters(selected)
        return _Statement(connection, compiler, sql, holes, converters, own, related, annotations)


def _hole(value: Any, stand_ins: Mapping[str, Any], connection: Any) -> Any:
    for name, stand_in in stand_ins.items():
        given = stand_in
        if isinstance(stand_in, datetime.datetime):
            given = connection.ops.adapt_datetimefield_value(stand_in)
        if type(value) is type(given) and value == given:
            return _Hole(name)
    return value


def _columns(model: Any) -> list[str]:
    return [each.attname for each in model._meta.concrete_fields]  # noqa: SLF001 - Django's documented API


def _instance(values: Sequence[Any], statement: _Statement) -> Any:
    alias, end = statement.connection.alias, len(statement.own)
    found = statement.compiler.query.model.from_db(alias, statement.own, values[:end])
    for key, columns in statement.related:
        start, end = end, end + len(columns)
        is_set = getattr(found, key.attname) is not None
        other = key.related_model.from_db(alias, columns, values[start:end]) if is_set else None
        key.set_cached_value(found, other)
    for name, value in zip(statement.annotations, values[end:], strict=True):
        setattr(found, name, value)
    return found
