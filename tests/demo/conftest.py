"""The loaded sample data, for all tests of the demo."""

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest

from demo_project.travel.endpoints import office, open_, staff
from demo_project.travel.models import Report
from django_mcp import server as agency
from django_mcp.models import Event
from tests.clients import urls
from tests.conftest import end_tasks
from tests.demo import kept


@pytest.fixture(autouse=True)
def agencys_urlconf(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has clients meet the endpoints in the agency's own URLconf, where the views are that are tools."""
    own = [agency, staff, office, open_]
    monkeypatch.setattr("tests.clients.urls", lambda server: nullcontext() if server in own else urls(server))


@pytest.fixture
def loaded(django_db_setup: None, django_db_blocker: Any) -> None:
    """The data, which are loaded once; a test that emptied the database since costs a copy."""
    with django_db_blocker.unblock():
        if not kept.is_there() and not kept.put_back():
            kept.load()
        Event.objects.all().delete()  # what was told of the users' rights


@pytest.fixture
def travel(loaded: None, db: None) -> None:
    """The data, and a transaction that is rolled back."""


@pytest.fixture
def nothing_left(open_database: None) -> Iterator[None]:
    """Lets worker threads reach the database, and clears away what tasks leave in it."""
    yield
    end_tasks()
    Report.objects.all().delete()
