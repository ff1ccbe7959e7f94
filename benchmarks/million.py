"""What does a table of a million rows cost, next to one of a thousand? ``python -m benchmarks.million`` answers.

Both tables are in one database, which is made for the purpose and dropped at the end, and are asked the same in turn.
The calls go through the Django view in this process, so that what is timed is what a call costs the site: the gate, the
tool, its queries and the encoding of the answer, and no network but the one to the database.
"""

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

import django
from django.test import RequestFactory

from benchmarks.report import facts
from benchmarks.shapes import MODERN
from benchmarks.shelf.cases import CALL, CASES, IN_FULL_TEXT, LIMIT, SHORT, Case
from benchmarks.shelf.rows import RARE, fill

LONG = 1_000_000
"""Rows of the long table."""
ROUNDS = 7
ENOUGH = 0.1
"""Seconds after which a call is not repeated within a round."""
REPEATS = 20


# The endpoints


def declare(model: Any, endpoint: str) -> Any:
    """A view of an endpoint with *model* on it."""
    from django_mcp import AllowAny, MCPServer, ModelResource, register  # noqa: PLC0415 - Django is set up
    from django_mcp.transports.view import mcp_view  # noqa: PLC0415

    server = MCPServer(f"{model.__name__}-{endpoint}".lower(), authentication=[AllowAny()])

    @register(model, server=server)
    class Books(ModelResource):
        name, plural, uri = "book", "books", "shelf://books"
        fields = ("slug", "title", "published", "lent", "stars", "publisher", "publisher__name", "text")
        lookup_field, title_field = "slug", "title"
        search_fields = {"plain": ["text"], "vector": ["words"], "text": ["@text"]}[endpoint]
        search_config = "english"
        filter_only_fields = ("words",) if endpoint == "vector" else ()
        filterset_fields = ("published", "published__gte", "publisher")
        ordering_fields = ("published", "stars", "lent", "publisher")
        aggregates = {}  # noqa: RUF012
        group_by_fields = ("stars", "published__year")
        view_permission = None
        max_list_size = None

    return mcp_view(server)


@dataclass
class Table:
    """One of the two tables, and how to ask for its rows."""

    model: Any
    count: int
    views: dict[str, Any] = field(default_factory=dict)
    cursors: dict[Case, str] = field(default_factory=dict)
    expected: dict[Case, str] = field(default_factory=dict)

    def ask(self, case: Case) -> tuple[float, dict[str, Any]]:
        """The seconds that a call took, and its result, which is checked."""
        if case.endpoint not in self.views:
            self.views[case.endpoint] = declare(self.model, case.endpoint)
        params = self._at_depth(case) if case.depth else case.ask()
        request = post(case.method, params)
        start = time.perf_counter()
        content = self.views[case.endpoint](request).content
        seconds = time.perf_counter() - start
        return seconds, self._checked(case, json.loads(content))

    def _at_depth(self, case: Case) -> dict[str, Any]:
        params = case.ask()
        if case not in self.cursors:
            self._find_depth(case)
        if case.method == CALL:
            return {**params, "arguments": {**params["arguments"], "cursor": self.cursors[case]}}
        return {**params, "cursor": self.cursors[case]}

    def _find_depth(self, case: Case) -> None:
        """Have the endpoint make a cursor for a place that nobody wants to page to."""
        from django_mcp.model_resources import pagination  # noqa: PLC0415 - Django is set up

        make = pagination.encode_cursor

        def elsewhere(ctx: Any, question: Any, _: Any) -> str:
            place, self.expected[case] = self._place(ctx, case)
            return make(ctx, question, place if case.method == CALL else [self.model._meta.label, place, 0])  # noqa: SLF001

        with mock.patch.object(pagination, "encode_cursor", elsewhere):
            _, result = self.ask(Case(case.name, case.method, case.ask, endpoint=case.endpoint))
        self.cursors[case] = result.get("nextCursor") or result["structuredContent"]["next_cursor"]

    def _place(self, ctx: Any, case: Case) -> tuple[Any, str]:
        """Where the last row before a page stands, and the slug of the first one on it."""
        from django_mcp.model_resources.access import RowAccess  # noqa: PLC0415
        from django_mcp.model_resources.pagination import Sorting  # noqa: PLC0415 - Django is set up

        bound = ctx.server.model_resources[self.model]
        sorting = Sorting(bound.sortings[case.order], RowAccess(ctx), bound)
        start = int(self.count * case.depth)
        before, behind = sorting.sorted(self.model.objects.all())[start - 1 : start + 1]
        return sorting.place(before), behind.slug

    def _checked(self, case: Case, answer: dict[str, Any]) -> dict[str, Any]:
        result: dict[str, Any] = answer.get("result", {"isError": True})
        if result.get("isError"):
            raise SystemExit(f"{case.name}: {answer}")
        shown = result.get("resources") or result.get("structuredContent", {}).get("rows")
        if shown and case in self.expected and not shown[0]["uri"].endswith(self.expected[case]):
            raise SystemExit(f"{case.name}: expected {self.expected[case]}, got {shown[0]}")
        if RARE in case.name and len(shown) != LIMIT:
            raise SystemExit(f"{case.name}: {len(shown)} rows")
        return result


def post(method: str, params: dict[str, Any]) -> Any:
    meta = "io.modelcontextprotocol/"
    client = {f"{meta}clientInfo": {"name": "benchmark", "version": "1"}, f"{meta}clientCapabilities": {}}
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": method,
        "params": {**params, "_meta": {f"{meta}protocolVersion": MODERN, **client}},
    }
    headers = {"host": "127.0.0.1", "mcp-protocol-version": MODERN, "mcp-method": method}
    if named := params.get("name") or params.get("uri"):
        headers["mcp-name"] = named
    accept = "application/json, text/event-stream"
    return RequestFactory().post(
        "/mcp", json.dumps(body), content_type="application/json", headers={**headers, "accept": accept}
    )


# Measuring


@dataclass(frozen=True, slots=True)
class Found:
    """What was found out about a question: for each table the milliseconds of a call, and its queries."""

    case: Case
    ms: tuple[float, ...]
    queries: tuple[int, ...]

    @property
    def ratio(self) -> float:
        """How many times as long the long table takes."""
        return self.ms[-1] / self.ms[0]


def measure(tables: Sequence[Table], cases: Sequence[Case], rounds: int, say: Callable[[str], None]) -> list[Found]:
    """Ask everything of every table, in each round in another order.

    Of a visit the least time counts: what else the machine does makes calls slower, and none faster.
    """
    found: dict[tuple[Case, int], list[float]] = {}
    visits = [(case, at) for case in cases for at in range(len(tables))]
    queries = {(case, at): len(statements(tables[at], case)) for case, at in visits}
    for number in range(1, rounds + 1):
        say(f"round {number} of {rounds}")
        for case, at in random.Random(number).sample(visits, k=len(visits)):
            found.setdefault((case, at), []).append(min(_visit(tables[at], case)))
    return [
        Found(
            case,
            tuple(median(found[case, at]) * 1000 for at in range(len(tables))),
            tuple(queries[case, at] for at in range(len(tables))),
        )
        for case in cases
    ]


def _visit(table: Table, case: Case) -> Iterator[float]:
    left = ENOUGH
    for _ in range(REPEATS):
        seconds, _ = table.ask(case)
        yield seconds
        left -= seconds
        if left < 0:
            return


def statements(table: Table, case: Case) -> list[str]:
    """The SQL of a call."""
    from django.db import connection  # noqa: PLC0415 - Django is set up
    from django.test.utils import CaptureQueriesContext  # noqa: PLC0415

    table.ask(case)  # what is done once for all calls is done
    with CaptureQueriesContext(connection) as captured:
        table.ask(case)
    return [each["sql"] for each in captured.captured_queries]


def explained(table: Table, case: Case) -> Iterator[str]:
    """The SQL of a call, and how the database goes about it."""
    from django.db import connection  # noqa: PLC0415 - Django is set up

    explain = "EXPLAIN ANALYZE" if connection.vendor == "postgresql" else "EXPLAIN QUERY PLAN"
    for sql in statements(table, case):
        yield sql
        with connection.cursor() as cursor:
            cursor.execute(f"{explain} {sql.replace('%', '%%')}", [])
            yield from (f"    {row[-1]}" for row in cursor.fetchall())


# Reporting


def markdown(found: Sequence[Found], counts: Sequence[int]) -> str:
    """The table as Markdown; *counts* are the numbers of rows."""
    rows = " | ".join(f"{count:,} rows" for count in counts)
    lines = [f"| call | {rows} | ratio | queries |", "| --- | --: | --: | --: | --: |"]
    for each in found:
        name = each.case.name + (" (scans)" if each.case.scans else "")
        times = " | ".join(f"{ms:,.1f} ms" for ms in each.ms)
        queries = "/".join(map(str, dict.fromkeys(each.queries)))
        lines.append(f"| {name} | {times} | {each.ratio:,.1f} | {queries} |")
    return "\n".join(lines)


def database() -> str:
    """The database and its version."""
    from django.db import connection  # noqa: PLC0415 - Django is set up

    connection.ensure_connection()
    if connection.vendor == "postgresql":
        version = connection.pg_version
        return f"PostgreSQL {version // 10_000}.{version % 10_000}"
    return "SQLite {}.{}.{}".format(*connection.Database.sqlite_version_info)


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.million", description=__doc__)
    parser.add_argument(
        "--database", help="postgres://user@host:port/name, or the path of a SQLite file; a database beside it is used"
    )
    parser.add_argument("--keep", action="store_true", help="keep that database, and use the one that was kept")
    parser.add_argument("--rows", type=int, default=LONG, help="of the long table, default %(default)s")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="default %(default)s")
    parser.add_argument("-k", metavar="WORDS", default="", help="only calls with one of these words in their names")
    parser.add_argument("--explain", action="store_true", help="show the SQL of the long table and how it is done")
    return parser.parse_args(argv)


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Make the tables, measure or explain, report, and return the exit status."""
    options = _options(argv)
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as directory:
        os.environ["BENCH_DATABASE"] = options.database or str(Path(directory) / "shelf.sqlite3")
        os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.shelf.settings"
        django.setup()
        from django.db import connection  # noqa: PLC0415 - Django is set up

        connection.creation.create_test_db(verbosity=0, autoclobber=True, keepdb=options.keep)
        try:
            _run(options)
        finally:
            if not options.keep:
                connection.creation.destroy_test_db(connection.settings_dict["NAME"], verbosity=0)
    return 0


def _run(options: argparse.Namespace) -> None:
    from django.db import connection  # noqa: PLC0415 - Django is set up

    from benchmarks.shelf.models import Million, Thousand  # noqa: PLC0415

    tables = [Table(Thousand, SHORT), Table(Million, options.rows)]
    for table in tables:
        fill(table.model, table.count, _say)
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE")
    cases = (*CASES, *IN_FULL_TEXT) if connection.vendor == "postgresql" else CASES
    words = [word.strip() for word in options.k.split(",")]
    cases = tuple(case for case in cases if any(word in case.name for word in words))
    if options.explain:
        for case in cases:
            print(f"\n{case.name}", *explained(tables[-1], case), sep="\n")
        return
    found = measure(tables, cases, options.rounds, _say)
    print(f"{database()}\n\n{markdown(found, [table.count for table in tables])}\n")
    print(
        f"Medians over {options.rounds} rounds of the least of up to {REPEATS} calls. "
        + "; ".join(f"{name}: {value}" for name, value in facts(False))
    )


if __name__ == "__main__":
    sys.exit(main())
