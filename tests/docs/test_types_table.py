"""The page on types says what the endpoint says."""

import pytest

from tests.types_table import write


@pytest.mark.django_db
def test_the_page_on_types_is_what_the_cases_give() -> None:
    assert write.PAGE.read_text() == write.page(), "run: python -m tests.types_table.write"
