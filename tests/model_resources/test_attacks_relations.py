"""Rows of related models that are hidden by their own door make no difference to any answer."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction

from django_mcp import MCPServer
from tests.model_resources import hiding
from tests.model_resources.conftest import Reader

pytestmark = pytest.mark.postgresql
MakeReader = Callable[..., Reader]


@pytest.fixture
def hidden(server: MCPServer, people: Any) -> None:
    """A library of which a part is hidden."""
    hiding.make_rows()
    hiding.reader_of_books_alone()
    hiding.declare(server)


@pytest.mark.slow
@pytest.mark.usefixtures("hidden")
@pytest.mark.parametrize(
    ("user", "changes"),
    [
        pytest.param(
            "ann",
            [hiding.change_what_is_hidden, hiding.delete_what_is_hidden],
            marks=[pytest.mark.slow, pytest.mark.nightly],
        ),
        ("cara", [hiding.change_all_but_books]),  # who may view books alone
    ],
)
def test_what_is_hidden_is_in_no_answer_and_makes_no_difference(
    reader: MakeReader, user: str, changes: list[Callable[[], None]]
) -> None:
    client, asked, uris = reader(user), list(hiding.filters()), hiding.addresses()
    before = hiding.answers(client, asked, uris)
    assert shown_or_failed(before) == set()
    for change in changes:
        with transaction.atomic():
            change()
            assert hiding.differences(before, hiding.answers(client, asked, uris)) == {}
            transaction.set_rollback(True)


def shown_or_failed(answers: dict[str, Any]) -> set[tuple[str, str]]:
    """Questions whose answers have a word of what is hidden, or of a failure, and that word."""
    found = set()
    for question, answer in answers.items():
        said = json.dumps(answer)
        # What was asked for may be named in the answer.
        found |= {(question, word) for word in hiding.HIDDEN_WORDS if word in said and word not in question}
        found |= {(question, word) for word in ("Internal server error", "-32603") if word in said}
    return found
