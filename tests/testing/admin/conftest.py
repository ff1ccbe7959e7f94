"""The shop, with rows, and the addresses of its admin."""

from types import SimpleNamespace

import pytest

from tests.integrations.back_office.rows import make_people, make_rows


@pytest.fixture
def people(db: None, settings: object) -> SimpleNamespace:
    """Users by role, in the shop with its rows."""
    settings.ROOT_URLCONF = "tests.integrations.back_office.urls"
    people = make_people()
    make_rows(people.superuser)
    return people
