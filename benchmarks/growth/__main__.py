"""Fill tables, make calls, and see what each query of a request costs: ``python -m benchmarks.growth``.

On SQLite, and on PostgreSQL where ``DATABASE_URL`` names a server; in databases made for the purpose and dropped at the
end. The exit status is 1 where a statement reads a growing table from end to end, or takes longer the longer it is.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.growth.report import FLAT, NOISE_MS, Statement, markdown, table
from benchmarks.process import ProcessFailedError, environment
from benchmarks.report import facts

BASE = 10_000


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--base", type=int, default=BASE, help="rows of each table to begin with, default %(default)s")
    parser.add_argument("--factors", type=int, nargs="+", default=[1, 10, 100], help="default %(default)s")
    parser.add_argument("--repeats", type=int, default=30, help="of each call and statement, default %(default)s")
    parser.add_argument("--on", choices=["sqlite", "postgresql"], help="only there")
    parser.add_argument("--markdown", metavar="FILE", type=Path, help="write tables there as well")
    parser.add_argument("--plans-only", action="store_true", help="times do not count: for short tables")
    return parser.parse_args(argv)


def databases(only: str | None, directory: Path) -> Iterator[dict[str, str]]:
    """The environment of each database to be measured."""
    if only in {None, "sqlite"}:
        path = str(directory / "growth.sqlite3")
        yield {"BENCH_DATABASE": path, "BENCH_NAME": path}
    server = os.environ.get("DATABASE_URL")
    if server and only in {None, "postgresql"}:
        yield {"BENCH_DATABASE": server, "BENCH_NAME": f"benchmarks_growth_{os.getpid()}"}
    elif only == "postgresql":
        raise SystemExit("DATABASE_URL names no PostgreSQL")
    elif only is None:
        print("PostgreSQL is left out: DATABASE_URL is not set.", file=sys.stderr)


def measured(options: argparse.Namespace, extra: dict[str, str]) -> tuple[str, list[Statement]]:
    """The database's name, and the statements that were seen."""
    factors = map(str, options.factors)
    words = ["--base", str(options.base), "--repeats", str(options.repeats), "--factors", *factors]
    words += ["--plans-only"] * options.plans_only
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.growth.measure", *words],
        env=environment(extra),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ProcessFailedError(f"benchmarks.growth.measure ended with {done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found["database"], [Statement(**each) for each in found["statements"]]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, report, and return the exit status."""
    options = _options(argv)
    failed, written = [], []
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as name:
        for extra in databases(options.on, Path(name)):
            database, statements = measured(options, extra)
            print(
                f"\n{database}: {len(statements)} statements, milliseconds at {statements[0].sizes} rows of each table"
            )
            print(*table(statements), sep="\n")
            written.append(f"{database}\n\n{markdown(statements)}\n")
            for each in statements:
                problems = [f"reads all of {', '.join(each.scanned)}"] if each.scanned else []
                if problems := problems if options.plans_only else list(each.problems()):
                    failed.append(f"{database}: {'; '.join(problems)}: {each.sql}")
    print(f"\nA statement is flat where it takes at most {FLAT} times as long and {NOISE_MS} ms.")
    print("; ".join(f"{name}: {value}" for name, value in facts(pinned=False)))
    if options.markdown:
        options.markdown.write_text("\n".join(written))
    for words in failed:
        print(f"\nFAILED {words}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
