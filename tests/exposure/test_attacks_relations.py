"""Rows of related models that are hidden by their own door make no difference to any answer."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from django_mcp import MCPServer
from tests.exposure import hiding
from tests.exposure.conftest import Reader

MakeReader = Callable[..., Reader]


@pytest.fixture
def hidden(server: MCPServer, people: Any) -> None:
    """A library of which a part is hidden."""
    hiding.make_rows()
    hiding.reader_of_books_alone()
    hiding.declare(server)


def ask_twice(reader: Reader, change: Callable[[], None]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Everything before and after a change."""
    asked, uris = list(hiding.filters()), hiding.addresses()
    before = hiding.answers(reader, asked, uris)
    change()
    return before, hiding.answers(reader, asked, uris)


@pytest.mark.usefixtures("hidden")
@pytest.mark.parametrize("change", [hiding.change_what_is_hidden, hiding.delete_what_is_hidden])
def test_what_is_hidden_makes_no_difference(reader: MakeReader, change: Callable[[], None]) -> None:
    before, after = ask_twice(reader("ann"), change)
    assert hiding.differences(before, after) == {}


@pytest.mark.usefixtures("hidden")
def test_models_that_may_not_be_viewed_make_no_difference(reader: MakeReader) -> None:
    before, after = ask_twice(reader("cara"), hiding.change_all_but_books)
    assert hiding.differences(before, after) == {}


@pytest.mark.usefixtures("hidden")
@pytest.mark.parametrize("user", ["ann", "cara"])
def test_no_answer_shows_what_is_hidden_or_fails(reader: MakeReader, user: str) -> None:
    found = hiding.answers(reader(user), list(hiding.filters()), hiding.addresses())
    said = {question: json.dumps(answer) for question, answer in found.items()}
    # What was asked for may be named in the answer.
    shown = {
        (question, word)
        for question, answer in said.items()
        for word in hiding.HIDDEN_WORDS
        if word in answer and word not in question
    }
    assert shown == set()
    assert [question for question, answer in said.items() if "went wrong" in answer or "-32603" in answer] == []
