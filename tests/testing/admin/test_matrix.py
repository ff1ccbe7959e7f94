"""Each option of Django's admin, at an endpoint as in a browser."""

from types import SimpleNamespace
from typing import Any

import pytest

from django_mcp.test.admin import Browser, Endpoint, effects, walk
from tests.integrations.back_office import matrix
from tests.integrations.back_office.urls import addresses_of
from tests.lanes import at_night

pytestmark = pytest.mark.slow

ROLES = ["superuser", at_night("clerk")]


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("line", matrix.lines, ids=str)
def test_an_option_shows_the_same_at_an_endpoint(
    people: SimpleNamespace, settings: Any, line: matrix.Line, role: str
) -> None:
    settings.ROOT_URLCONF = addresses_of(line.site)
    user = getattr(people, role)
    found = walk(line.site, user, Endpoint(line.site, user), only=[line.model], links=4, rows=1)
    assert not found, str(found)
    assert sum(found.compared.values()) > 3


@pytest.mark.parametrize("line", [at_night(line) for line in matrix.lines], ids=str)
def test_an_option_saves_the_same_at_an_endpoint(people: SimpleNamespace, settings: Any, line: matrix.Line) -> None:
    settings.ROOT_URLCONF = addresses_of(line.site)
    found = effects(line.site, people.superuser, Endpoint(line.site, people.superuser), only=[line.model])
    assert not found, str(found)


def test_the_admin_of_each_option_works_in_a_browser(people: SimpleNamespace, settings: Any) -> None:
    failed = []
    for line in matrix.lines:
        settings.ROOT_URLCONF = addresses_of(line.site)
        browser = Browser(line.site, people.superuser)
        pages = (browser.changelist(line.model, None), browser.form_data(line.model, None))
        failed += [f"{line}: {page.why}" for page in pages if page.state == "failed"]
    assert not failed
