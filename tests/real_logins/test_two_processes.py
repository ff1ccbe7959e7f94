"""Two processes of one client hold the same refresh token, and refresh at the same moment, as Claude Code's do."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.auth_check.browser import ROOT
from tests.auth_check.site import Certificate, Demo, running
from tests.lanes import at_night
from tests.real_logins.people import PythonClient, status_of

ROUNDS = 7
"""How often they do so; each leaves one refresh token more, and a login has at most eight."""


@pytest.fixture(params=[at_night("sqlite"), pytest.param("postgresql", marks=pytest.mark.needs("DATABASE_URL"))])
def busy_demo(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, chromium: str, certificate: Certificate
) -> Iterator[Demo]:
    """The demo under a server that works on requests at once."""
    folder = tmp_path_factory.mktemp(request.param)
    with running(folder, certificate, https=True, database=request.param, server="gunicorn") as demo:
        yield demo
    print(written := demo.output())  # noqa: T201 - pytest shows it
    assert "Traceback" not in written


def test_both_get_tokens_and_both_access_tokens_are_good(
    busy_demo: Demo, certificate: Certificate, open_browser: str
) -> None:
    client = PythonClient(busy_demo, certificate, "auto", open_browser)
    assert not client.call("search_bookings").is_error
    assert client.tokens is not None
    token = client.tokens.refresh_token
    for _ in range(ROUNDS):
        answers = refresh_at_once(busy_demo, certificate, client, str(token))
        assert [answer["status"] for answer in answers] == [200, 200], answers
        assert [answer["endpoint"] for answer in answers] == [200, 200], answers
        access = {answer["body"]["access_token"] for answer in answers}
        assert len(access) == len({answer["body"]["refresh_token"] for answer in answers}) == 2
        assert {status_of(busy_demo, certificate, each) for each in access} == {200}, (
            "neither has cost the other its own"
        )
        token = answers[0]["body"]["refresh_token"]


def refresh_at_once(demo: Demo, certificate: Certificate, client: PythonClient, token: str) -> list[dict[str, Any]]:
    """What two processes got that were let go at the same moment."""
    assert client.information is not None
    form = {
        "grant_type": "refresh_token",
        "refresh_token": token,
        "client_id": client.information.client_id,
        "client_secret": client.information.client_secret or "",
        "resource": demo.endpoint,
    }
    given = {
        "token_endpoint": f"{demo.url}/o/token/",
        "endpoint": demo.endpoint,
        "authority": str(certificate.authority),
        "form": {name: value for name, value in form.items() if value},
    }
    with ExitStack() as stack:
        processes = [stack.enter_context(start(given)) for _ in range(2)]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        said = [process.communicate(timeout=120)[0] for process in processes]
    return [json.loads(each) for each in said]


def start(given: dict[str, Any]) -> "subprocess.Popen[str]":
    """A process that has read what it needs."""
    command = [sys.executable, "-m", "tests.real_logins.refresher"]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    process.stdin.write(json.dumps(given) + "\n")
    process.stdin.flush()
    return process
