"""The demo over https with people who log in to it. Servers are started once in a session, and end with it."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.auth_check.browser import ROOT, NoBrowserError, find_chromium
from tests.auth_check.site import Certificate, Demo, make_certificate, running
from tests.real_clients.conftest import clients  # noqa: F401 - a fixture
from tests.real_logins.documents import Documents

MISSING = pytest.StashKey[str]()
"""Why nobody logged in."""


@pytest.fixture(scope="session")
def chromium(request: pytest.FixtureRequest) -> str:
    """The browser. Without one the tests are skipped, and the end of the run says why; CI fails."""
    try:
        return find_chromium()
    except NoBrowserError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error), pytrace=False)
        request.config.stash[MISSING] = str(error)
        pytest.skip(str(error))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say loudly what was not done."""
    if reason := config.stash.get(MISSING, None):
        terminalreporter.write_line(f"*** Logins in a browser: NOT DONE. {reason} ***", red=True)


@pytest.fixture(scope="session")
def open_browser(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Socket of a browser in a process of its own: an event loop runs in callers, and starting one takes seconds."""
    path = str(tmp_path_factory.mktemp("browser") / "socket")
    command = [sys.executable, "-m", "tests.real_logins.open_browser", path]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield path
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """That of all servers here."""
    return make_certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="session")
def documents(certificate: Certificate) -> Iterator[Documents]:
    """A server with a client's metadata document."""
    with Documents(certificate.chain) as serving:
        yield serving


@pytest.fixture(scope="session")
def running_demo(
    tmp_path_factory: pytest.TempPathFactory, chromium: str, certificate: Certificate, documents: Documents
) -> Iterator[Demo]:
    """The demo on SQLite."""
    folder = tmp_path_factory.mktemp("demo")
    with running(folder, certificate, https=True, document_port=documents.port) as demo:
        yield demo


@pytest.fixture
def demo(running_demo: Demo) -> Iterator[Demo]:
    """The same; what it wrote during a test is shown if the test fails."""
    before = len(running_demo.output())
    yield running_demo
    written = running_demo.output()[before:]
    print(f"the demo wrote:\n{written}")  # noqa: T201 - pytest shows it
    assert "Traceback" not in written
