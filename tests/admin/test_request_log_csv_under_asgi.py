"""The log of calls as a file, sent by an event loop: piece by piece, and whole."""

import asyncio
import csv
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth.models import User
from django.core.handlers.asgi import ASGIHandler
from django.test import Client as Browser

from benchmarks.calls import fill
from django_mcp.models import RequestLog

# Another thread reads what is sent, on a connection of its own.
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgresql]

ROWS = 2000
LONGEST = 200_000
"""Bytes of one piece. All together are half a million or so."""
Message = dict[str, Any]


class Download:
    """A request for a file, and the pieces that came of it.

    Args:
        owner: whose browser asks.
        address: path and query.
        leave_after: pieces after which the browser goes away.
        at_piece: is called when a piece has come, and waited for.
    """

    def __init__(
        self, owner: User, address: str, leave_after: int = 0, at_piece: Callable[[], None] | None = None
    ) -> None:
        browser = Browser()
        browser.force_login(owner)
        cookie = f"{settings.SESSION_COOKIE_NAME}={browser.cookies[settings.SESSION_COOKIE_NAME].value}"
        path, _, query = address.partition("?")
        self._scope = {
            "type": "http",
            "method": "GET",
            "scheme": "http",
            "path": path,
            "query_string": query.encode(),
            "headers": [(b"host", b"testserver"), (b"cookie", cookie.encode())],
        }
        self._leave_after, self._at_piece = leave_after, at_piece
        self.status, self.headers, self.pieces, self.is_whole = 0, dict[str, str](), list[bytes](), False

    def run(self) -> "Download":
        """Ask, and read until the end."""
        asyncio.run(self._converse())
        return self

    async def _converse(self) -> None:
        gone, asked = asyncio.Event(), iter([{"type": "http.request", "body": b"", "more_body": False}])

        async def receive() -> Message:
            for message in asked:
                return message
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.status = message["status"]
                self.headers = {name.decode().lower(): value.decode() for name, value in message["headers"]}
                return
            if body := message.get("body", b""):
                self.pieces.append(body)
                if self._at_piece is not None:
                    await sync_to_async(self._at_piece)()
            self.is_whole = not message.get("more_body", False)
            if len(self.pieces) == self._leave_after:
                gone.set()
                await asyncio.Event().wait()  # until the handler notices

        await ASGIHandler()(self._scope, receive, send)

    @property
    def text(self) -> str:
        return b"".join(self.pieces).decode()

    def rows(self) -> list[dict[str, Any]]:
        """What is in the file."""
        return list(csv.DictReader(self.text.splitlines(keepends=True)))


@pytest.fixture
def owner() -> User:
    made = User.objects.create_superuser("owner-of-the-site")
    fill(ROWS, [made.pk])
    return made


ADDRESS = "/admin/django_mcp/requestlog/export.csv"


def test_a_long_log_comes_in_pieces_and_is_whole(owner: User) -> None:
    """Were it collected first, Django would warn, and warnings are errors here."""
    got = Download(owner, ADDRESS).run()
    assert (got.status, got.headers["content-type"]) == (200, "text/csv; charset=utf-8")
    assert got.headers["content-disposition"] == 'attachment; filename="request-log.csv"'
    assert "content-length" not in got.headers
    assert got.is_whole
    assert len(got.pieces) > 10
    assert max(map(len, got.pieces)) < LONGEST < len(got.text)

    newest_first = RequestLog.objects.order_by("-started_at", "-pk").values_list("pk", flat=True)
    assert [int(row["id"]) for row in got.rows()] == list(newest_first)
    assert len(newest_first) == ROWS


def test_the_filters_hold_there_too_and_a_log_without_rows_is_a_file_as_well(owner: User) -> None:
    number = RequestLog.objects.filter(outcome="error", server="booking").count()
    got = Download(owner, f"{ADDRESS}?outcome=error&server=booking").run()
    assert [(row["outcome"], row["server"]) for row in got.rows()] == [("tool error", "booking")] * number
    RequestLog.objects.all().delete()
    got = Download(owner, ADDRESS).run()
    assert (got.status, got.is_whole, got.rows()) == (200, True, [])


def test_calls_that_come_while_it_is_sent_disturb_nothing(owner: User) -> None:
    """The endpoint goes on, and each piece is read when the one before has gone out."""
    before = list(RequestLog.objects.order_by("-started_at", "-pk").values_list("pk", flat=True))
    got = Download(owner, ADDRESS, at_piece=lambda: fill(1, [owner.pk])).run()
    assert RequestLog.objects.count() == ROWS + len(got.pieces)
    exported = [int(row["id"]) for row in got.rows()]
    assert [pk for pk in exported if pk in set(before)] == before
    assert len(set(exported)) == len(exported)


def test_a_browser_that_goes_away_ends_it(owner: User) -> None:
    left = Download(owner, ADDRESS, leave_after=2).run()
    assert len(left.pieces) == 2
    assert not left.is_whole
    assert len(Download(owner, ADDRESS).run().rows()) == ROWS


def test_who_may_not_look_gets_no_piece_of_it(owner: User) -> None:
    somebody = User.objects.create_user("somebody-of-the-staff", is_staff=True)
    got = Download(somebody, ADDRESS).run()
    assert got.status == 403
    assert "book_hotel" not in got.text
    assert "tool_" not in got.text
