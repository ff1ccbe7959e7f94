"""Each option of Django's admin, at an endpoint as in a browser."""

from types import SimpleNamespace
from typing import Any

import pytest

from django_mcp.test.admin import Endpoint, effects, walk
from tests.integrations.back_office import matrix
from tests.integrations.back_office.urls import addresses_of
from tests.lanes import at_night
from tests.testing.admin.reasons import unexplained

pytestmark = pytest.mark.slow

REASONS: dict[str, set[tuple[str, str]]] = {
    # A person finds no link to such a model, and reaches its pages by their addresses alone. It has no tools.
    "no has_module_permission": {
        ("changelist", "page"),
        ("add", "page"),
        *((f"{page} 1", "page") for page in ("change", "delete", "history")),
    },
    # As those of django-solo: the tool finds the only row, which the page is of. Actions say that there is no list to
    # run it on.
    "a list that is a form": {
        *(("changelist", what) for what in ("rows", "number of rows", "column 1 of 1")),
        ("actions", "names"),
        ("actions", "title of delete_selected"),
    },
    # Django 6.1 shortens the list in its template; an approver sees up to fifty rows.
    "delete_confirmation_max_display": {("delete 2", "objects")},
}
"""Differences that are meant, or known, by name of the line: page and what differs."""

ROLES = ["superuser", at_night("clerk"), at_night("viewer"), at_night("outsider")]
LINES = [line if number % 36 == 0 else at_night(line) for number, line in enumerate(matrix.lines)]
"""All of them, every 36th for each change: the whole matrix takes minutes."""


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("line", LINES, ids=str)
def test_an_option_shows_the_same_at_an_endpoint(
    people: SimpleNamespace, settings: Any, line: matrix.Line, role: str
) -> None:
    settings.ROOT_URLCONF = addresses_of(line.site)
    user = getattr(people, role)
    found = walk(line.site, user, Endpoint(line.site, user), only=[line.model], links=4, rows=1)
    known = REASONS.get(line.name, ())
    unknown = [str(difference) for difference in found if (difference.page, difference.what) not in known]
    assert not unknown, "\n".join(unknown)
    assert {(difference.page, difference.what) for difference in found} == {*known} or role != "superuser"
    assert sum(found.compared.values()) > 3
    assert not found.compared["failed"], "the option itself is wrong: the admin fails"


@pytest.mark.parametrize("role", ["superuser", "clerk"])
@pytest.mark.parametrize("line", [at_night(line) for line in matrix.lines], ids=str)
def test_an_option_saves_the_same_at_an_endpoint(
    people: SimpleNamespace, settings: Any, line: matrix.Line, role: str
) -> None:
    settings.ROOT_URLCONF = addresses_of(line.site)
    user = getattr(people, role)
    found = effects(line.site, user, Endpoint(line.site, user), only=[line.model])
    assert not unexplained(found)
