"""Very many rows of the log of calls, made by the database itself."""

from django.db import connection

OUTCOMES = ("ok", "ok", "ok", "ok", "ok", "ok", "ok", "error", "denied", "failed")
METHODS = ("tools/call", "tools/call", "tools/call", "tools/list", "resources/read")

_SERIES = {
    "sqlite": "WITH RECURSIVE series(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM series WHERE n < %s) ",
    "postgresql": "WITH series AS (SELECT generate_series(1, %s) AS n) ",
}
_TIME = {
    "sqlite": "strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now', '-' || ((%s - n) * 7) || ' seconds')",
    "postgresql": "now() - ((%s - n) * 7) * interval '1 second'",
}


def fill(rows: int, users: list[int]) -> None:
    """That many calls, seven seconds apart, the last one now: 81 days for a million.

    Args:
        rows: how many.
        users: primary keys of those who made them.
    """
    vendor = connection.vendor
    columns = {
        "started_at": _TIME[vendor],
        "server": _chosen(("default", "default", "default", "booking")),
        "method": _chosen(METHODS),
        "name": "CASE WHEN n %% 99991 = 0 THEN 'rare' ELSE 'tool_' || (n %% 40) END",
        "outcome": _chosen(OUTCOMES),
        "error": "CASE WHEN n %% 10 = 7 THEN 'There is no flight ' || n ELSE '' END",
        "exception_type": "''",
        "exception_place": "''",
        "principal_kind": "'oauth'",
        "principal_id": "'' || (n %% 500)",
        "user_id": _chosen(users),
        "caller": "'user-' || (n %% 500)",
        "credential": "''",
        "client_id": "''",
        "client_name": _chosen(("Claude", "Cursor", "Inspector")),
        "client_version": "'1.0'",
        "protocol": "'2026-07-28'",
        "address": "NULL",
        "arguments": """'{"city":"Lisbon","nights":' || (n %% 9) || '}'""",
        "result_kind": "'structured'",
        "result_size": "n %% 5000",
        "duration": "(n %% 900) / 10.0",
        "queries": "n %% 7",
        "approval": "''",
        "task_id": "''",
        "history_id": "''",
        "log_entries": "''",
        "trace_id": "CASE WHEN n %% 1000 = 1 THEN 'trace-' || n ELSE '' END",
    }
    names, values = ", ".join(columns), ", ".join(columns.values())
    insert = f"INSERT INTO django_mcp_requestlog ({names}) "
    select = f"SELECT {values} FROM series"
    series = _SERIES[vendor]
    statement = f"{series}{insert}{select}" if vendor == "postgresql" else f"{insert}{series}{select}"
    parameters = [rows, rows]
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        cursor.execute("ANALYZE django_mcp_requestlog" if vendor == "postgresql" else "SELECT 1")


def _chosen(values: tuple[str, ...] | list[int]) -> str:
    cases = " ".join(f"WHEN {place} THEN {value!r}" for place, value in enumerate(values))
    return f"CASE n %% {len(values)} {cases} END"
