"""What tests of commands share."""

import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import call_command

from tests.behaviour.conftest import make_user  # noqa: F401 - a fixture


class Run:
    """What a command said."""

    def __init__(self, *arguments: str) -> None:
        out, err = io.StringIO(), io.StringIO()
        self.code = 0
        try:
            call_command(*arguments, stdout=out, stderr=err, no_color=True)
        except SystemExit as exit_:
            self.code = exit_.code
        self.out, self.err = out.getvalue(), err.getvalue()

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def run(open_database: None) -> Callable[..., Run]:
    """Runs a command, at no terminal."""
    return Run
