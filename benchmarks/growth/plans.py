"""How the database goes about a statement, and whether it reads a whole table for it."""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.db import connection

from benchmarks.growth.watching import Seen

_SCAN = re.compile(r"^SCAN (?:TABLE )?(\w+)(?: USING (?:COVERING )?INDEX (\w+))?")


@dataclass(frozen=True)
class Plan:
    """What EXPLAIN says.

    Attributes:
        words: short, for people.
        scanned: tables that are read from one end to the other.
    """

    words: str
    scanned: tuple[str, ...]


def explain(seen: Seen) -> Plan:
    """The plan of a statement with the parameters it had. It is not run."""
    if connection.vendor == "postgresql":
        ((found,),) = _rows(f"EXPLAIN (FORMAT JSON) {seen.sql}", seen.parameters)
        (top,) = json.loads(found) if isinstance(found, str) else found
        return of_postgresql(top["Plan"])
    lines = [str(row[-1]) for row in _rows(f"EXPLAIN QUERY PLAN {seen.sql}", seen.parameters)]
    partial = {str(row[0]) for row in _rows("SELECT name FROM sqlite_master WHERE sql LIKE '% INDEX % WHERE %'", None)}
    return of_sqlite(lines, tables_of(seen.sql), partial)


def _rows(sql: str, parameters: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())


def of_postgresql(top: Mapping[str, Any]) -> Plan:
    """From the nodes of a plan as JSON."""
    words, scanned = [], []
    for node, is_limited in _nodes(top):
        kind, table = str(node["Node Type"]), node.get("Relation Name")
        if table or kind.startswith("Bitmap Index"):
            index = node.get("Index Name")
            words.append(f"{kind} {index or table}")
        # An index without a condition is walked to its end; or, where there is a LIMIT, until enough rows were found,
        # which PostgreSQL chooses where it knows that there are many: how long that takes, the times tell.
        walks = kind.startswith("Index") and "Index Cond" not in node and "Filter" in node and not is_limited
        if table and (kind == "Seq Scan" or walks):
            scanned.append(str(table))
    return Plan("; ".join(words) or str(top["Node Type"]), tuple(scanned))


_WAITS_FOR_ALL = ("Sort", "Hash", "Aggregate", "Materialize", "Bitmap Heap Scan", "ModifyTable")


def _nodes(node: Mapping[str, Any], *, is_limited: bool = False) -> Iterator[tuple[Mapping[str, Any], bool]]:
    """Each node, and whether it is read only until a LIMIT above it has enough."""
    kind = node["Node Type"]
    is_limited = (is_limited or kind == "Limit") and kind not in _WAITS_FOR_ALL
    yield node, is_limited
    for each in node.get("Plans", ()):
        yield from _nodes(each, is_limited=is_limited)


def of_sqlite(lines: Collection[str], aliases: Mapping[str, str], partial: Collection[str] = ()) -> Plan:
    """From the lines of EXPLAIN QUERY PLAN.

    Args:
        lines: as SQLite says them.
        aliases: how the statement calls its tables -> the tables.
        partial: indexes of some rows alone, which may be read from end to end.
    """
    found = [_SCAN.match(line) for line in lines]
    scanned = tuple(aliases.get(each[1], each[1]) for each in found if each and each[2] not in partial)
    words = "; ".join(line for line in lines if line.startswith(("SCAN", "SEARCH", "MULTI")))
    return Plan(words or "; ".join(lines) or "no table is read", scanned)


_ALIASED = re.compile(r'(?:FROM|JOIN|UPDATE|INTO) "(\w+)"(?: (?:AS )?"?([A-Z]\d+)"?)?')


def tables_of(sql: str) -> dict[str, str]:
    """The tables of a statement by what it calls them."""
    return {alias or table: table for table, alias in _ALIASED.findall(sql)}
