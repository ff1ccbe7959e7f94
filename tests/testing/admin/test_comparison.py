"""Two sides of an admin, compared: nothing differs between two browsers, and each kind of fault is found."""

from types import SimpleNamespace

import pytest

from django_mcp.test.admin import Browser, effects, walk
from tests.integrations.back_office import matrix, models
from tests.integrations.back_office.shop import site


@pytest.mark.parametrize("role", ["superuser", "clerk", "viewer", "outsider"])
def test_two_browsers_of_one_user_see_the_same(people: SimpleNamespace, role: str) -> None:
    user = getattr(people, role)
    found = walk(site, user, Browser(site, user))
    assert not found, str(found)
    assert found.compared["refused"] > 20 or role == "superuser"
