"""The loaded sample data, for all tests of the demo."""

import datetime
from typing import Any

import pytest
from django.core.management import call_command

TODAY = datetime.date(2026, 6, 15)


@pytest.fixture
def loaded(django_db_setup: None, django_db_blocker: Any) -> None:
    """Loads the data, which after the first time does nothing, unless a test has emptied the database since."""
    with django_db_blocker.unblock():
        call_command("load_travel", today=TODAY, verbosity=0)


@pytest.fixture
def travel(loaded: None, db: None) -> None:
    """The data, and a transaction that is rolled back."""
