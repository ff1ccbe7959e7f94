"""Queries that are put together once give what the ORM gives."""

import datetime as dt
import threading
from typing import Any

import pytest
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.db import connection, connections
from django.db.models import Count, QuerySet
from django.db.models.sql.compiler import SQLCompiler
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_mcp.core.database import Prepared

SOON = dt.timedelta(hours=1)


def entries(repr_: str, now: dt.datetime) -> QuerySet[LogEntry]:
    return LogEntry.objects.filter(object_repr=repr_, action_time__lt=now, action_flag=CHANGE)


def prepared(**options: Any) -> Prepared:
    return Prepared(entries, repr_=str, now=dt.datetime, **options)


@pytest.fixture
def entry(db: None) -> LogEntry:
    user = User.objects.create_user("ann", email="ann@example.com")
    kind = ContentType.objects.get_for_model(User)
    return LogEntry.objects.create(user=user, content_type=kind, object_repr="100% ?repr_?", action_flag=CHANGE)


def test_a_row_is_what_the_orm_finds_with_the_rows_it_points_to(entry: LogEntry) -> None:
    query = prepared(related=["user", "content_type"])
    expected = entries(entry.object_repr, timezone.now() + SOON).select_related("user", "content_type").get()

    with CaptureQueriesContext(connection) as queries:
        found = query.first(repr_=entry.object_repr, now=timezone.now() + SOON)
        related = found.user, found.content_type

    assert len(queries) == 1
    for one, other in zip((found, *related), (expected, expected.user, expected.content_type), strict=True):
        assert type(one) is type(other)
        assert {**vars(one), "_state": None} == {**vars(other), "_state": None}
        assert (one._state.db, one._state.adding) == (other._state.db, other._state.adding)


def test_each_value_decides(entry: LogEntry) -> None:
    query = prepared()
    now = timezone.now() + SOON
    assert query.first(repr_=entry.object_repr, now=now) == entry
    assert query.first(repr_="another", now=now) is None
    assert query.first(repr_="", now=now) is None
    assert query.first(repr_=entry.object_repr, now=now - 2 * SOON) is None
    assert query.first(repr_=entry.object_repr, now=now) == entry


def test_a_row_that_points_to_nothing_has_none_there(entry: LogEntry) -> None:
    LogEntry.objects.update(content_type=None)
    found = prepared(related=["content_type", "user"]).first(repr_=entry.object_repr, now=timezone.now() + SOON)
    assert found.content_type is None
    assert found.user == entry.user


def test_annotations_are_attributes(entry: LogEntry) -> None:
    def counted(repr_: str) -> QuerySet[LogEntry]:
        return LogEntry.objects.filter(object_repr=repr_).annotate(groups=Count("user__groups"))

    found = Prepared(counted, related=["user"], repr_=str).first(repr_=entry.object_repr)
    assert (found.groups, found.user.username) == (0, "ann")


def test_it_is_put_together_once_for_each_connection(entry: LogEntry, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    as_sql = SQLCompiler.as_sql

    def counting(self: Any, *arguments: Any, **keywords: Any) -> Any:
        made.append(threading.current_thread().name)
        return as_sql(self, *arguments, **keywords)

    monkeypatch.setattr(SQLCompiler, "as_sql", counting)
    query = prepared()
    for _ in range(3):
        query.first(repr_="x", now=timezone.now())
    assert len(made) == 1

    before = connections["default"]
    connections["default"] = before.copy()
    try:
        compiled = query._statement()
    finally:
        connections["default"] = before
    assert len(made) == 2
    assert compiled.connection is not before


def test_a_value_that_the_query_does_not_depend_on_is_a_mistake(db: None) -> None:
    with pytest.raises(RuntimeError, match=r"does not depend on \['other'\]"):
        Prepared(lambda other: LogEntry.objects.all(), other=str).first(other="x")
