"""What nobody expected: the client gets a number, the log has the rest."""

import logging
import re

import pytest

from django_mcp.revisions.legacy import sessions
from tests.clients import Client


def test_a_fault_of_ours_is_told_by_number_under_the_requests_id(
    legacy: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("the password is swordfish")

    monkeypatch.setattr(sessions, "open_session", broken)
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    with caplog.at_level(logging.ERROR, "django_mcp"):
        answer = legacy.request("initialize", params)
    assert answer.status == 500
    assert answer.code == -32603
    assert "swordfish" not in answer.body.decode()
    reference = re.search(r"under reference ([0-9a-f]+)", answer.error["message"])
    assert reference is not None
    assert reference[1] in caplog.text
    assert "swordfish" in caplog.text
