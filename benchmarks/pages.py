"""What do the admin's pages cost where the log has a million calls? ``python -m benchmarks.pages`` answers.

The database is made for the purpose and dropped at the end. Pages are asked for by Django's test client in this
process, so that what is timed is what a page costs the site: its queries, and drawing it.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import django

from benchmarks.report import facts

ROWS = 1_000_000
ROUNDS = 5
ADMIN = "/admin/django_mcp/"
USERS = 100


@dataclass(frozen=True)
class Page:
    """One page.

    Attributes:
        name: what it shows.
        path: below the admin of this app.
        is_kept: what it counted is kept for a while, so that it is timed with nothing kept, too.
    """

    name: str
    path: str
    is_kept: bool = False


@dataclass(frozen=True)
class Found:
    """What was found out about a page.

    Attributes:
        ms: milliseconds with nothing kept, and with what it keeps; the same where it keeps nothing.
    """

    page: Page
    ms: tuple[float, float]
    queries: int
    size: int


def pages() -> Iterator[Page]:
    """All of them."""
    from django_mcp.core.server import servers  # noqa: PLC0415 - Django is set up
    from django_mcp.models import RequestLog  # noqa: PLC0415

    serving = next(each for each in servers() if "book_hotel" in each.tools)
    last = RequestLog.objects.order_by("-pk")[0]
    calls = "requestlog/"
    yield Page("Calls", calls)
    yield Page("Calls, page 20", f"{calls}?p=20")
    yield Page("Calls, refused", f"{calls}?outcome=not_run")
    yield Page("Calls of a rare tool", f"{calls}?name=rare")
    yield Page(
        "Calls of one day",
        f"{calls}?since={last.started_at:%Y-%m-%d}&until={last.started_at:%Y-%m-%d}",
    )
    yield Page("Calls, searched for a word", f"{calls}?q=Lisbon")
    yield Page("Calls, searched for a trace", f"{calls}?q=trace-1001")
    yield Page("One call", f"{calls}{last.pk}/change/")
    for period in ("hour", "day", "week", "month", "quarter"):
        yield Page(f"Overview, {period}", f"overview/?period={period}", is_kept=True)
    yield Page("Tools", "tools/", is_kept=True)
    yield Page("One tool", f"tools/{serving.name}.book_hotel/change/", is_kept=True)
    yield Page("Approvals", "approval/")
    yield Page("Applications", "oauthclient/")
    yield Page("Sessions", "session/")
    yield Page("Tasks", "task/")
    yield Page("API keys", "apikey/")
    yield Page("Try a tool", "playground/")


def measure(browser: Any, every: Sequence[Page], rounds: int, say: Callable[[str], None]) -> Iterator[Found]:
    """Ask for each, again and again."""
    from django.core.cache import cache  # noqa: PLC0415 - Django is set up
    from django.db import connection  # noqa: PLC0415
    from django.test.utils import CaptureQueriesContext  # noqa: PLC0415

    for page in every:
        say(page.name)
        _get(browser, page)  # what is noted at the first visit is noted
        cache.clear()
        with CaptureQueriesContext(connection) as captured:
            answer = _get(browser, page)
        queries = len(captured)  # as long as they are kept
        fresh, again = [], []
        for _ in range(rounds):
            cache.clear()
            fresh.append(_seconds(browser, page))
            again.append(_seconds(browser, page) if page.is_kept else fresh[-1])
        yield Found(page, (median(fresh) * 1000, median(again) * 1000), queries, len(answer.content))


def _seconds(browser: Any, page: Page) -> float:
    start = time.perf_counter()
    _get(browser, page)
    return time.perf_counter() - start


def _get(browser: Any, page: Page) -> Any:
    answer = browser.get(ADMIN + page.path)
    if answer.status_code != 200:
        raise SystemExit(f"{page.name}: {answer.status_code} {answer.get('Location', '')}")
    return answer


def export(browser: Any) -> tuple[float, int]:
    """The whole log as a file: how many seconds, how many bytes."""
    start, size = time.perf_counter(), 0
    for part in browser.get(f"{ADMIN}requestlog/export.csv").streaming_content:
        size += len(part)
    return time.perf_counter() - start, size


def markdown(found: Sequence[Found]) -> str:
    """A table."""
    lines = ["| page | nothing kept | again | queries | HTML |", "| --- | --: | --: | --: | --: |"]
    for each in found:
        again = f"{each.ms[1]:,.0f} ms" if each.page.is_kept else ""
        lines.append(
            f"| {each.page.name} | {each.ms[0]:,.0f} ms | {again} | {each.queries} | {each.size / 1024:,.0f} KiB |"
        )
    return "\n".join(lines)


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pages", description=__doc__)
    parser.add_argument("--database", help="postgres://user@host:port/name; a database beside it is used; else SQLite")
    parser.add_argument("--keep", action="store_true", help="keep that database, and use the one that was kept")
    parser.add_argument("--rows", type=int, default=ROWS, help="of the log, default %(default)s")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="default %(default)s")
    parser.add_argument("--without-export", action="store_true", help="which takes the longest")
    return parser.parse_args(argv)


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Make the rows, measure, report, and return the exit status."""
    options = _options(argv)
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as directory:
        os.environ["DATABASE_URL"] = options.database or ""
        os.environ["DEMO_DATABASE"] = str(Path(directory) / "demo.sqlite3")
        os.environ["DJANGO_SETTINGS_MODULE"] = "demo_project.settings"
        django.setup()
        from django.conf import settings  # noqa: PLC0415 - Django is set up
        from django.db import connection  # noqa: PLC0415

        settings.ALLOWED_HOSTS = ["testserver"]
        settings.DATABASES["default"]["TEST"]["NAME"] = (
            None if options.database else str(Path(directory) / "test.sqlite3")
        )
        connection.creation.create_test_db(verbosity=0, autoclobber=True, keepdb=options.keep)
        try:
            _run(options)
        finally:
            if not options.keep:
                connection.creation.destroy_test_db(connection.settings_dict["NAME"], verbosity=0)
    return 0


def _run(options: argparse.Namespace) -> None:
    from django.contrib.auth import get_user_model  # noqa: PLC0415 - Django is set up
    from django.db import connection  # noqa: PLC0415
    from django.test import Client  # noqa: PLC0415

    from benchmarks.calls import fill  # noqa: PLC0415
    from benchmarks.million import database  # noqa: PLC0415
    from django_mcp.models import RequestLog  # noqa: PLC0415

    users = get_user_model()._default_manager  # noqa: SLF001 - Django's documented API
    owner = users.filter(username="owner").first() or users.create_superuser("owner")
    browser = Client()
    browser.force_login(owner)
    if not RequestLog.objects.exists():
        _say(f"filling {options.rows:,} rows")
        made = users.bulk_create([get_user_model()(username=f"user-{number}") for number in range(USERS)])
        fill(options.rows, [user.pk for user in made])
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE")
    found = list(measure(browser, list(pages()), options.rounds, _say))
    print(f"{database()}, {options.rows:,} calls\n\n{markdown(found)}\n")
    if not options.without_export:
        seconds, size = export(browser)
        print(f"All of it as CSV: {seconds:,.0f} s, {size / 2**20:,.0f} MiB.")
    if slow := [each.page.name for each in found if each.queries >= 10]:
        print("Ten queries or more: " + ", ".join(slow))
    print(f"Medians of {options.rounds}. " + "; ".join(f"{name}: {value}" for name, value in facts(False)))


if __name__ == "__main__":
    sys.exit(main())
