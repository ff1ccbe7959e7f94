"""What previews write is rolled back in every database that the site has."""

from collections.abc import Iterator

import pytest
from django.db import connections, transaction

from django_mcp.core.database import rolled_back


@pytest.fixture
def audit(db: None) -> Iterator[str]:
    """A second database, with a table of notes."""
    alias = "audit_of_previews"
    settings = {**connections.settings["default"], "ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
    connections.settings[alias] = {**settings, "OPTIONS": {}, "ATOMIC_REQUESTS": False}
    connections[alias].connect()
    with connections[alias].cursor() as cursor:
        cursor.execute("CREATE TABLE note (words text)")
    yield alias
    connections[alias].close()
    del connections[alias]
    del connections.settings[alias]


def notes(alias: str) -> list[str]:
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT words FROM note")
        return [words for (words,) in cursor.fetchall()]


@pytest.mark.parametrize("has_transaction", [True, False])
def test_what_a_preview_writes_to_another_database_is_rolled_back(audit: str, has_transaction: bool) -> None:
    def write() -> list[str]:
        with connections[audit].cursor() as cursor:
            cursor.execute("INSERT INTO note VALUES ('seen')")
        return notes(audit)

    def write_in_transaction() -> list[str]:
        with transaction.atomic(using=audit):
            return write()

    assert rolled_back(write_in_transaction if has_transaction else write) == ["seen"]
    assert notes(audit) == []


def test_a_database_that_is_away_does_not_stop_a_preview_that_does_not_need_it(
    audit: str, caplog: pytest.LogCaptureFixture
) -> None:
    connections[audit].close()
    del connections[audit]
    connections.settings[audit]["NAME"] = "/no/such/folder/notes.sqlite3"
    assert rolled_back(lambda: "shown") == "shown"
    assert audit in caplog.text
    connections.settings[audit]["NAME"] = ":memory:"
