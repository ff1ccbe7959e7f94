"""The command of the edge over standard input and output: whom it refuses to start for, and one run of it."""

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import override_settings

from tests.clients import MODERN
from tests.transports.pipes import Pipe


@pytest.mark.slow
def test_a_process_discovers_calls_and_ends(open_database: None, tmp_path: Path) -> None:
    """All else of it is in ``test_stdio.py``, whose sites take longer to make."""
    pipe = Pipe(Path(connection.settings_dict["NAME"]), tmp_path / "errors")
    try:
        assert MODERN in pipe.answer(pipe.request("server/discover"))["result"]["supportedVersions"]
        assert pipe.text("hurry") == "done"
        assert pipe.finish() == (0, [])
    finally:
        pipe.release()


def test_an_unknown_endpoint_is_refused_with_those_there_are() -> None:
    with pytest.raises(CommandError, match=r"no endpoint 'x'.*default"):
        call_command("mcp_stdio", server="x")


@pytest.mark.parametrize("authentication", [[], ["tests.transports.test_stdio_command.Nobody"]])
def test_an_endpoint_that_is_not_open_to_everybody_wants_a_user(authentication: list[str]) -> None:
    settings = {"AUTHENTICATION": authentication}
    with override_settings(DJANGO_MCP=settings), pytest.raises(CommandError, match="--user USERNAME"):
        call_command("mcp_stdio")


class Nobody:
    """Recognises nobody."""

    blocking = False

    def authenticate(self, headers: Any) -> None:
        """Not you."""


@pytest.mark.django_db
def test_a_user_is_found_under_the_name_they_sign_in_with() -> None:
    from django_mcp.management.base import find_principal

    user = get_user_model().objects.create_user("ada")
    found = find_principal("ada")
    assert (found.kind, found.id, found.user) == ("user", str(user.pk), user)
