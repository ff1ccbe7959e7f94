"""Very many rows of every table that grows with use, made by the database itself.

One caller, the one who calls, owns a twentieth of the rows that belong to callers: an agent that works all day, so that
what is counted for each caller shows when it is counted row by row.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from django.db import connection, models

from benchmarks import calls

PARENTS = 100
"""Rows of each table that others point to, made before the rest; filled rows point to these in turn."""
SHARE = 20
"""One row in so many is the caller's own: more than a page even of the shortest tables."""

_SERIES = {
    "sqlite": "WITH RECURSIVE series(n) AS (SELECT %s UNION ALL SELECT n + 1 FROM series WHERE n < %s) ",
    "postgresql": "WITH series AS (SELECT generate_series(%s, %s) AS n) ",
}


def time(seconds: str) -> str:
    """SQL of the time some seconds from now; *seconds* is SQL, too."""
    if connection.vendor == "postgresql":
        return f"now() + ({seconds}) * interval '1 second'"
    return f"strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now', ({seconds}) || ' seconds')"


def key(prefix: str) -> str:
    """SQL of a text of its own for each row, in no order: as keys and hashes are."""
    return f"'{prefix}' || ((n * 2654435761) %% 4294967296) || '-' || n"


def some(parents: list[int]) -> str:
    """SQL of one of the parents in turn."""
    cases = " ".join(f"WHEN {place} THEN {pk}" for place, pk in enumerate(parents))
    return f"CASE n %% {len(parents)} {cases} END"


def own(mine: str, others: str) -> str:
    """SQL of what differs between the caller's rows and all others."""
    return f"CASE WHEN n %% {SHARE} = 0 THEN {mine} ELSE {others} END"


# Not one row in a thousand is under way, and none of the caller's: n is odd there.
UNDER_WAY = "n %% 1000 = 1"
LATER = "3600 + n %% 86400"
OVER = 5
"""Of the rows of each filling one in so many has expired, the oldest: as it is where they live equally long."""


class Filling:
    """Fills all tables, some rows more at a time.

    Args:
        principal: the id of the caller's API key, which is also who it calls as.
        parents: model name -> primary keys of rows that filled ones point to.
    """

    def __init__(self, principal: int, parents: Mapping[str, list[int]]) -> None:
        self._principal = principal
        self._parents = parents
        self.rows = 0

    def grow(self, rows: int, say: Callable[[str], None]) -> None:
        """Fill each table up to that many rows."""
        for model, columns in self._tables(rows):
            say(f"  {model._meta.label}")  # noqa: SLF001 - Django's documented API
            self._insert(model, columns, rows)
        say("  django_mcp.RequestLog")
        calls.fill(rows - self.rows, self._parents["User"])
        self.rows = rows
        if connection.vendor == "postgresql":  # as autovacuum does; on SQLite nobody does it
            self._execute("VACUUM ANALYZE")

    def _tables(self, rows: int) -> list[tuple[Any, dict[str, str]]]:
        """The models with what their columns are; the rest has a value that fits its type."""
        from django.contrib.auth import get_user_model  # noqa: PLC0415 - Django is set up
        from oauth2_provider import models as toolkit  # noqa: PLC0415

        from django_mcp import models as own_models  # noqa: PLC0415

        users, principal = some(self._parents["User"]), f"'{self._principal}'"
        caller = {"principal_kind": "'api_key'", "principal_id": own(principal, "'key-' || (n %% 5000)")}
        lives = {
            "created": time("-60"),
            "expires": self._expires(rows),
        }
        server = {"server": "'default'"}
        # Not what people make one by one, and all calls read: policies of tools and clients.
        return [
            (get_user_model(), {"username": key("user-"), "is_active": "TRUE"}),
            (own_models.APIKey, {**lives, "key_hash": key("k"), "prefix": "'mcp_key_' || n", "user_id": users}),
            (toolkit.Application, {"client_id": key("client-"), "registration_source": "'manual'"}),
            (toolkit.AccessToken, self._token(lives, users)),
            (toolkit.RefreshToken, self._refresh_token(users)),
            (own_models.Session, {**caller, **server, **lives, "key": key("s"), "version": "'2025-11-25'"}),
            (
                own_models.Call,
                {**lives, "key": key("c"), "session_id": some(self._parents["Session"]), **self._ended()},
            ),
            (own_models.PendingRequest, {"call_id": some(self._parents["Call"]), "request_id": key("q")}),
            (own_models.Event, self._event(rows)),
            (own_models.Step, {**lives, "call": key("x"), "key": "'repeat'", "done": "TRUE"}),
            (own_models.Task, {**caller, **server, **lives, **self._task()}),
            (own_models.TaskInput, {"task_id": some(self._parents["Task"]), "key": key("i"), "request": "'{}'"}),
            (own_models.AutoApprovalRule, {**caller, **server, **self._rule(), "created_by_id": users}),
            (own_models.Approval, {**caller, **server, **self._approval()}),
            (own_models.ApprovalEvent, {"approval_id": some(self._parents["Approval"]), "kind": "'proposed'"}),
            (own_models.Notice, {"approval_id": some(self._parents["Approval"]), "delivered": time("-60")}),
        ]

    def _token(self, lives: Mapping[str, str], users: str) -> dict[str, str]:
        checksum = key("t")
        application = some(self._parents["Application"])
        return {**lives, "token_checksum": checksum, "token": checksum, "user_id": users, "application_id": application}

    def _refresh_token(self, users: str) -> dict[str, str]:
        application = some(self._parents["Application"])
        return {
            "token": key("r"),
            "token_checksum": key("r"),
            "user_id": users,
            "application_id": application,
            "revoked": time("-n %% 1000"),
        }

    def _ended(self) -> dict[str, str]:
        return {"status": "'ended'", "request_id": "'1'", "request": """'{"method":"tools/call","params":{}}'"""}

    def _expires(self, rows: int) -> str:
        """When rows expire of which the last one has that number."""
        last = self.rows + (rows - self.rows) // OVER
        return f"CASE WHEN n <= {last} THEN {time(f'n - {last + 60}')} ELSE {time(LATER)} END"

    def _event(self, rows: int) -> dict[str, str]:
        """Written evenly within the last hour; of twenty one is a change of the endpoint."""
        return {
            "topic": own("'server:default'", key("stream:")),
            "data": """'{"method":"notifications/resources/updated","params":{"uri":"a://b"}}'""",
            "position": "n",
            "created": time("-3600 + n %% 3600"),
            "expires": self._expires(rows),
        }

    def _task(self) -> dict[str, str]:
        return {
            "task_id": key("task-"),
            "tool": "'report'",
            "request": """'{"method":"tools/call","params":{}}'""",
            "result": "'{}'",
            "backend": "'process'",
            "status": f"CASE WHEN {UNDER_WAY} THEN 'working' ELSE 'completed' END",
            "lease": f"CASE WHEN {UNDER_WAY} THEN {time(LATER)} ELSE NULL END",
            "worker": "'worker-' || n",
        }

    def _rule(self) -> dict[str, str]:
        """All over, and kept as long as the log of approvals."""
        return {"tool": "'discard'", "created": time("-90000"), "expires": time("-n %% 86400 - 1")}

    def _approval(self) -> dict[str, str]:
        return {
            "public_id": key("a"),
            "tool": "'discard'",
            "digest": key("d"),
            "unique_key": f"CASE WHEN {UNDER_WAY} THEN {key('d')} END",
            "state": f"CASE WHEN {UNDER_WAY} THEN 'pending' ELSE 'consumed' END",
            "created": time("-60"),
            "expires": time(LATER),
        }

    def _insert(self, model: Any, columns: Mapping[str, str], rows: int) -> None:
        complete = {**_defaults(model), **columns}
        table, vendor = model._meta.db_table, connection.vendor  # noqa: SLF001 - Django's documented API
        insert = f"INSERT INTO {table} ({', '.join(map(connection.ops.quote_name, complete))}) "
        select = f"SELECT {', '.join(complete.values())} FROM series"
        series = _SERIES[vendor]
        statement = f"{series}{insert}{select}" if vendor == "postgresql" else f"{insert}{series}{select}"
        self._execute(statement, [self.rows + 1, rows])

    def _execute(self, statement: str, parameters: list[int] | None = None) -> None:
        with connection.cursor() as cursor:
            cursor.execute(statement, parameters)


_NUMBERS = (models.IntegerField, models.FloatField)


def _defaults(model: Any) -> dict[str, str]:
    """SQL of a value for each column, by what the field says of itself."""
    found = {}
    for each in model._meta.concrete_fields:  # noqa: SLF001 - Django's documented API
        if not each.primary_key:
            found[each.column] = _default(each)
    return found


def _default(field: Any) -> str:
    if field.null:
        return "NULL"
    if isinstance(field, models.JSONField):
        return f"'{json.dumps(field.get_default())}'"
    for kind, value in ((models.BooleanField, "FALSE"), (models.DateTimeField, time("-60")), (_NUMBERS, "0")):
        if isinstance(field, kind):
            return value
    if field.has_default():
        value = str(field.get_db_prep_save(field.get_default(), connection)).replace("%", "%%").replace("'", "''")
        return f"'{value}'" if isinstance(field, models.CharField | models.TextField) or value[:1] in "[{" else value
    return "''"
