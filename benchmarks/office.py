"""What does a call of an admin tool cost beside the admin's own page? ``python -m benchmarks.office`` answers.

The demo's admin with a thousand hotels, in a database made for the purpose and dropped at the end. Each page is asked
for by Django's test client, each tool called through the Django view, in this process and as the same user: what is
timed is what it costs the site. A change is the page and its form's POST for a person, one call for a client.
"""

import argparse
import io
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import django

from benchmarks.million import database, post
from benchmarks.report import facts

ROWS = 1000
ROUNDS = 9
REPEATS = 5
HOTELS = "/admin/travel/hotel/"


@dataclass(frozen=True)
class Pair:
    """The same done by a person and by a client."""

    name: str
    page: Callable[[], Any]
    tool: Callable[[], Any]


@dataclass(frozen=True)
class Found:
    """Milliseconds of processor time, and queries: of the page, and of the tool."""

    name: str
    ms: tuple[float, float]
    queries: tuple[int, int]

    @property
    def ratio(self) -> float:
        """How many times as long the page takes."""
        return self.ms[0] / self.ms[1]


def pairs(user: Any) -> list[Pair]:
    """What staff do all day."""
    from django.contrib import admin  # noqa: PLC0415 - Django is set up
    from django.forms.models import model_to_dict  # noqa: PLC0415
    from django.test import Client  # noqa: PLC0415

    from demo_project.travel.models import Hotel  # noqa: PLC0415
    from django_mcp import BaseAuthentication, MCPServer, Principal, admin_tools  # noqa: PLC0415
    from django_mcp.transports.view import mcp_view  # noqa: PLC0415

    class AsTheUser(BaseAuthentication):
        blocking = False

        def authenticate(self, head: Any, server: Any) -> Principal:  # noqa: ARG002 - its signature
            return Principal(kind="user", id=str(user.pk), user=user)

    browser = Client(headers={"host": "testserver"})
    browser.force_login(user)
    server = MCPServer("office-of-the-benchmark", authentication=[AsTheUser()])
    admin_tools(admin.site, server=server, policy="allow")
    view = mcp_view(server)
    row = Hotel.objects.order_by("pk").first()
    assert row is not None

    def page(path: str) -> Any:
        answer = browser.get(HOTELS + path)
        if answer.status_code != 200:
            raise SystemExit(f"{path}: {answer.status_code} {answer.get('Location', '')}")
        return answer

    def call(name: str, **arguments: Any) -> Any:
        answer = json.loads(view(post("tools/call", {"name": name, "arguments": arguments})).content)
        if "error" in answer or answer["result"].get("isError"):
            raise SystemExit(f"{name}: {answer}")
        return answer

    def save() -> None:
        page(f"{row.pk}/change/")
        sent = {name: value for name, value in model_to_dict(row).items() if value is not False}
        answer = browser.post(f"{HOTELS}{row.pk}/change/", {**sent, "price": _price()})
        if answer.status_code != 302:
            raise SystemExit(f"the change: {answer.status_code}")

    return [
        Pair("List", lambda: page(""), lambda: call("search_hotels")),
        Pair(
            "List: searched, filtered, ordered",
            lambda: page("?q=hotel&stars__exact=4&o=-6"),
            lambda: call("search_hotels", query="hotel", filters={"stars": 4}, order_by=["-price"]),
        ),
        Pair("Row", lambda: page(f"{row.pk}/change/"), lambda: call("get_hotel", pk=str(row.pk))),
        Pair("Change", save, lambda: call("change_hotel", pk=str(row.pk), price=_price())),
        Pair(
            "History",
            lambda: page(f"{row.pk}/history/"),
            lambda: call("hotel_history", pk=str(row.pk)),
        ),
    ]


def _price() -> str:
    return str(random.randint(50, 500))


def measure(every: Sequence[Pair], rounds: int) -> list[Found]:
    """Do each of both sides in turn, several times in each round."""
    found: dict[str, tuple[list[float], list[float]]] = {pair.name: ([], []) for pair in every}
    queries = {pair.name: (_queries(pair.page), _queries(pair.tool)) for pair in every}
    for _ in range(rounds):
        for pair in every:
            for side, act in enumerate((pair.page, pair.tool)):
                found[pair.name][side].append(min(_seconds(act) for _ in range(REPEATS)))
    return [
        Found(pair.name, (median(pages) * 1000, median(tools) * 1000), queries[pair.name])
        for pair in every
        for pages, tools in [found[pair.name]]
    ]


def _queries(act: Callable[[], Any]) -> int:
    from django.db import connection  # noqa: PLC0415 - Django is set up
    from django.test.utils import CaptureQueriesContext  # noqa: PLC0415

    act()
    with CaptureQueriesContext(connection) as captured:
        act()
    return len(captured)


def _seconds(act: Callable[[], Any]) -> float:
    start = time.process_time()
    act()
    return time.process_time() - start


def markdown(found: Sequence[Found]) -> str:
    """A table."""
    lines = ["| | page | tool | ratio | queries of the page | of the tool |", "| --- | --: | --: | --: | --: | --: |"]
    for row in found:
        page, tool = row.ms
        lines.append(
            f"| {row.name} | {page:.1f} ms | {tool:.1f} ms | {row.ratio:.2f} | {row.queries[0]} | {row.queries[1]} |"
        )
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Make the rows, measure, report, and return the exit status: 1 if a tool costs more than its page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.office", description=__doc__)
    parser.add_argument("--database", help="postgres://user@host:port/name; a database beside it is used; else SQLite")
    parser.add_argument("--rows", type=int, default=ROWS, help="hotels, default %(default)s")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="default %(default)s")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as directory:
        os.environ["DATABASE_URL"] = options.database or ""
        os.environ["DEMO_DATABASE"] = str(Path(directory) / "demo.sqlite3")
        os.environ["DJANGO_SETTINGS_MODULE"] = "demo_project.settings"
        django.setup()
        from django.conf import settings  # noqa: PLC0415 - Django is set up
        from django.db import connection  # noqa: PLC0415

        settings.ALLOWED_HOSTS = ["testserver", "127.0.0.1"]
        if not options.database:
            settings.DATABASES["default"]["TEST"]["NAME"] = str(Path(directory) / "test.sqlite3")
        connection.creation.create_test_db(verbosity=0, autoclobber=True)
        try:
            return _run(options)
        finally:
            connection.creation.destroy_test_db(connection.settings_dict["NAME"], verbosity=0)


def _run(options: argparse.Namespace) -> int:
    from django.contrib.auth import get_user_model  # noqa: PLC0415 - Django is set up
    from django.core.management import call_command  # noqa: PLC0415

    from demo_project.travel.models import City, Hotel  # noqa: PLC0415

    users = get_user_model()._default_manager  # noqa: SLF001 - Django's documented API
    owner = users.create_superuser("owner-of-the-benchmark")
    call_command("load_travel", verbosity=0, stdout=io.StringIO())
    city = City.objects.first()
    Hotel.objects.bulk_create(
        Hotel(city=city, name=f"Hotel {number}", district="Centre", stars=1 + number % 5, rating=4, price=100, rooms=9)
        for number in range(options.rows)
    )
    found = measure(pairs(owner), options.rounds)
    print(f"{database()}, {options.rows:,} hotels, processor time of one process\n\n{markdown(found)}\n")
    print(f"Medians of {options.rounds} rounds. " + "; ".join(f"{name}: {value}" for name, value in facts(False)))
    slow = [row.name for row in found if row.ratio < 1]
    if slow:
        print("dearer than the page: " + ", ".join(slow))
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
