"""There are no rows and users of the agency: other tests of the process may have loaded the sample data."""

import pytest
from django.contrib.auth.models import User

from tests.demo import kept


@pytest.fixture(autouse=True)
def _empty_agency(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("django_db") is not None:
        request.getfixturevalue("db")
        kept.empty()  # in the transaction of the test
        User.objects.filter(username__in=kept.NAMES).delete()
