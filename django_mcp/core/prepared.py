"""Queries of every request, put together once by Django's own compiler, so that every database is spoken to rightly.

Building a queryset and running it takes five times as long as the database needs for the answer.
"""

import datetime
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

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
    """

    connection: Any
    compiler: Any
    sql: str
    parameters: Sequence[Any]
    converters: Any


class _Hole(NamedTuple):
    name: str


class Prepared:
    """Finds one row, with rows that it points to.

    Args:
        build: a queryset, from the values by name that vary. It is called once for each connection, with stand-ins.
        related: names of foreign keys of the model whose rows are brought along.
        varying: name -> type of what varies: ``str``, or ``datetime.datetime`` with a time zone.
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
        statement = self._statement()
        ops = statement.connection.ops
        given = {
            name: ops.adapt_datetimefield_value(value) if isinstance(value, datetime.datetime) else value
            for name, value in values.items()
        }
        parameters = [given[each.name] if type(each) is _Hole else each for each in statement.parameters]
        with statement.connection.cursor() as cursor:
            cursor.execute(statement.sql, parameters)
            row = cursor.fetchone()
        if row is None:
            return None
        (row,) = statement.compiler.apply_converters([row], statement.converters)
        return self._instance(row, statement.connection.alias)

    def _statement(self) -> _Statement:
        """That of this thread's connection: other threads have connections of their own."""
        known: dict[str, _Statement] | None = getattr(self._local, "statements", None)
        if known is None:
            known = self._local.statements = {}
            self._local.model = self._build(**self._stand_ins()).model
        alias = router.db_for_read(self._local.model)
        connection = connections[alias]
        statement = known.get(alias)
        if statement is None or statement.connection is not connection:
            statement = known[alias] = self._compiled(connection)
        return statement

    def _stand_ins(self) -> dict[str, Any]:
        return {
            name: datetime.datetime(_FAR + place, 1, 1, tzinfo=datetime.UTC)
            if kind is datetime.datetime
            else f"?{name}?"
            for place, (name, kind) in enumerate(self._varying.items())
        }

    def _compiled(self, connection: Any) -> _Statement:
        stand_ins = self._stand_ins()
        queryset = self._build(**stand_ins).using(connection.alias)
        self._local.extra = list(queryset.query.annotations)
        meta = queryset.model._meta  # noqa: SLF001 - Django's documented API
        self._local.related = [(name, meta.get_field(name)) for name in self._related]
        columns = [each.attname for each in meta.concrete_fields]
        for name, field in self._local.related:
            columns += [f"{name}__{each.attname}" for each in field.related_model._meta.concrete_fields]  # noqa: SLF001
        queryset = queryset.values_list(*columns, *self._local.extra)
        compiler = queryset.query.get_compiler(connection=connection)
        sql, parameters = compiler.as_sql()
        holes = [_hole(each, stand_ins, connection) for each in parameters]
        missing = stand_ins.keys() - {each.name for each in holes if type(each) is _Hole}
        if missing:
            msg = f"the query does not depend on {sorted(missing)}"
            raise RuntimeError(msg)
        selected = [column for column, _, _ in compiler.select]
        return _Statement(connection, compiler, sql, holes, compiler.get_converters(selected))

    def _instance(self, values: Sequence[Any], alias: str) -> Any:
        found, rest = _taken(self._local.model, values, alias)
        for _, field in self._local.related:
            other, rest = _taken(field.related_model, rest, alias)
            field.set_cached_value(found, None if getattr(found, field.attname) is None else other)
        for name, value in zip(self._local.extra, rest, strict=True):
            setattr(found, name, value)
        return found


def _hole(value: Any, stand_ins: Mapping[str, Any], connection: Any) -> Any:
    for name, stand_in in stand_ins.items():
        given = stand_in
        if isinstance(stand_in, datetime.datetime):
            given = connection.ops.adapt_datetimefield_value(stand_in)
        if type(value) is type(given) and value == given:
            return _Hole(name)
    return value


def _taken(model: Any, values: Sequence[Any], alias: str) -> tuple[Any, Sequence[Any]]:
    """An instance, made of the first of the values, and the others."""
    names = [each.attname for each in model._meta.concrete_fields]  # noqa: SLF001
    return model.from_db(alias, names, values[: len(names)]), values[len(names) :]
