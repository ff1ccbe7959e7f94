"""One database, filled more and more: ``python -m benchmarks.growth.measure``, which ``benchmarks.growth`` runs."""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from statistics import median
from typing import Any

import django

from benchmarks.growth import plans, watching
from benchmarks.growth.report import GROWING, Statement

FACTORS = (1, 10, 100)


def look(watch: watching.Watch, size: int, repeats: int) -> dict[str, Any]:
    """Times and plan of each statement that was seen, by its shape."""
    found = {}
    for shape, seen in watch.seen.items():
        if not any(table in shape for table in GROWING):
            continue  # about what does not grow, or about no table
        # Of what writes the quicker ones: locks and the disk make some slower, however long the table is.
        quick = sorted(seen.seconds)[len(seen.seconds) // 4]
        typical = median(watching.again(seen, repeats)) if seen.reads else quick
        plan = plans.explain(seen)
        found[shape] = {
            "size": size,
            "ms": typical * 1000,
            "plan": plan.words,
            "scanned": [table for table in plan.scanned if table in GROWING],
            "callers": sorted(seen.callers),
            "times": len(seen.seconds),
        }
    return found


def measure(base: int, factors: Sequence[int], repeats: int) -> list[Statement]:
    """Fill, call and look, at each size."""
    from benchmarks.growth.callers import prepare, served  # noqa: PLC0415 - Django is set up
    from benchmarks.growth.tables import Filling  # noqa: PLC0415
    from benchmarks.growth.traffic import drive  # noqa: PLC0415

    watch = watching.Watch()
    watch.begin()
    filling = Filling(*prepare())
    statements: dict[str, Statement] = {}
    with served() as port:
        for factor in factors:
            rows = base * factor
            _say(f"{rows:,} rows of each table")
            filling.grow(rows, _say)
            watch.forget()
            for act in drive(watch, port, repeats, str(rows)):
                _say(f"  {act}")
            for shape, found in look(watch, rows, repeats).items():
                statements.setdefault(shape, Statement(shape)).add(**found)
    return list(statements.values())


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and print what was found as one line of JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth.measure", description=__doc__)
    parser.add_argument("--base", type=int, required=True, help="rows of each table to begin with")
    parser.add_argument("--factors", type=int, nargs="+", default=FACTORS)
    parser.add_argument("--repeats", type=int, default=30, help="of each call and statement")
    parser.add_argument("--plans-only", action="store_true", help="short tables: PostgreSQL is kept from scanning them")
    options = parser.parse_args(argv)
    os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.growth.settings"
    django.setup()
    from django.db import connection, connections  # noqa: PLC0415 - Django is set up

    from benchmarks.million import database  # noqa: PLC0415

    connection.creation.create_test_db(verbosity=0, autoclobber=True)
    if connection.vendor == "postgresql":  # what is timed is the statement, and not the disk at its commit
        with connection.cursor() as cursor:
            name = connection.settings_dict["NAME"]
            cursor.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
            # What is quick on short tables is then done only where no index would do.
            for way in ("seqscan", "mergejoin", "hashjoin") if options.plans_only else ():
                cursor.execute(f"ALTER DATABASE {name} SET enable_{way} = off")
        connection.close()
    try:
        found = measure(options.base, options.factors, options.repeats)
        name = database()
    finally:
        connections.close_all()
        if connection.vendor == "postgresql":
            _end_others(connection)
        connection.creation.destroy_test_db(connection.settings_dict["NAME"], verbosity=0)
    print(json.dumps({"database": name, "statements": [each.as_json() for each in found]}))
    return 0


def _end_others(connection: Any) -> None:
    """Threads of the server keep their connections; the database cannot be dropped as long as there are any."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


if __name__ == "__main__":
    sys.exit(main())
