"""The loaded sample data, for all tests of the demo."""

import datetime
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
from django.core.management import call_command

from demo_project.travel.endpoints import open_, staff
from demo_project.travel.models import Report
from django_mcp import server as agency
from django_mcp.models import Event
from tests.clients import urls
from tests.conftest import end_tasks

TODAY = datetime.date(2026, 6, 15)


@pytest.fixture(autouse=True)
def agencys_urlconf(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has clients meet the endpoints in the agency's own URLconf, where the views are that are tools."""
    own = [agency, staff, open_]
    monkeypatch.setattr("tests.clients.urls", lambda server: nullcontext() if server in own else urls(server))


@pytest.fixture
def loaded(django_db_setup: None, django_db_blocker: Any) -> None:
    """Loads the data, which after the first time does nothing, unless a test has emptied the database since."""
    with django_db_blocker.unblock():
        call_command("load_travel", today=TODAY, verbosity=0)
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
