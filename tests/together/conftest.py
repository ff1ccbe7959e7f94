"""Fixtures for features that meet."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, connections

from tests.auth.conftest import application, make_application, make_token, make_user, site, user  # noqa: F401 - fixtures
from tests.behaviour.conftest import room, rows, talk  # noqa: F401 - likewise
from tests.oauth.conftest import live_site  # noqa: F401 - likewise
from tests.tasks.conftest import _no_tasks_left, gate  # noqa: F401 - likewise


@pytest.fixture
def edge() -> str:
    """Streams are the same wherever they can be held."""
    return "asgi"


@pytest.fixture
def others_write() -> None:
    """For tests in which others write and read while a transaction is open."""
    if connection.vendor == "sqlite":
        pytest.skip("on SQLite nobody else writes while a transaction does")


def elsewhere(function: Callable[[], Any]) -> None:
    """Call *function* in another thread, with connections of its own."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            function()
        except BaseException as error:  # noqa: BLE001 - raised below
            failed.append(error)
        finally:
            connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
