"""Each option of Django's admin, at an endpoint as in a browser."""

from types import SimpleNamespace
from typing import Any

import pytest

from django_mcp.test.admin import Endpoint, effects, walk
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
    assert not found.compared["failed"], "the option itself is wrong: the admin fails"


@pytest.mark.parametrize("line", [at_night(line) for line in matrix.lines], ids=str)
def test_an_option_saves_the_same_at_an_endpoint(people: SimpleNamespace, settings: Any, line: matrix.Line) -> None:
    settings.ROOT_URLCONF = addresses_of(line.site)
    found = effects(line.site, people.superuser, Endpoint(line.site, people.superuser), only=[line.model])
    assert not found, str(found)
