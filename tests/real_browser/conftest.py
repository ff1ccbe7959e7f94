"""The site as two server processes on one database, and a browser in which people are signed in."""

import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from benchmarks.process import HOST, RunningServer, run_to_end
from tests.auth_check.browser import launched
from tests.conformance.databases import postgresql, sqlite
from tests.conformance.legs import migrate, start
from tests.faults.conftest import Workers, closed_connections
from tests.lanes import at_night
from tests.real_browser.people import APPROVERS, CALLERS
from tests.real_logins.conftest import chromium

__all__ = ["chromium", "closed_connections"]

LIST = "/admin/django_mcp/approval/"
PATIENCE = 15_000
"""Milliseconds within which something comes up on a page."""
SOON = 3_500
"""The same for what comes up by itself, on a machine that has other things to do."""
HASTE = """
const later = window.setTimeout.bind(window);
window.setTimeout = (run, milliseconds = 0, ...given) =>
    later(run, milliseconds < 1000 ? milliseconds : milliseconds / 5, ...given);
"""
"""On pages seconds are fifths of seconds: they ask every other second."""


def uvicorn(port: int) -> list[str]:
    return ["uvicorn", "--host", HOST, "--port", str(port), "tests.real_browser.site.asgi:application"]


class Site(Workers):
    """The site's processes."""

    def start(self, extra: Mapping[str, str] | None = None) -> RunningServer:
        return start(uvicorn, {**self.environment, **(extra or {})}, self.folder, self.taken, self.stack)

    def restart(self, index: int) -> None:
        """Start a dead process anew, at the port where it was."""
        port = self[index]
        server = RunningServer(uvicorn(port), port, None, self.environment, self.folder)
        self.stack.callback(server.end)
        server.wait_until_ready()
        self.servers[index] = server

    def let_time_be_up(self, key: str) -> None:
        """Let a ticket have expired."""
        given = "import django; django.setup(); from django.utils.timezone import now; from django_mcp.models import *"
        code = f"{given}\nApproval.objects.filter(pk={key}).update(expires=now())"
        run_to_end("-c", code, environment=self.environment)

    def url(self, index: int, path: str = LIST) -> str:
        return f"http://{HOST}:{self[index]}{path}"


@contextmanager
def site_in(folder: Path, database: Mapping[str, str]) -> Iterator[Site]:
    """Two processes, and people in their database."""
    environment = {
        "DJANGO_SETTINGS_MODULE": "tests.real_browser.site.settings",
        "PYTHONUNBUFFERED": "1",
        "CONFORMANCE_REDIS_URL": "",
        "FAULTS_JOURNAL": str(folder / "journal"),
        **database,
    }
    migrate(environment)
    run_to_end("-m", "tests.real_browser.people", environment=environment)
    with ExitStack() as stack:
        made = Site(environment, folder, stack)
        made.servers = [made.start(), made.start()]
        yield made
        for index in range(len(made.servers)):
            assert "Traceback" not in made.log(index), made.log(index)


@pytest.fixture(scope="module", params=["sqlite", at_night("postgresql", pytest.mark.needs("DATABASE_URL"))])
def running_site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, chromium: str
) -> Iterator[Site]:
    """On each database."""
    folder = tmp_path_factory.mktemp(f"browser-{request.param}")
    made = sqlite(folder) if request.param == "sqlite" else postgresql()
    with made as database, site_in(folder, database) as site:
        yield site


@pytest.fixture
def site(running_site: Site) -> Site:
    """Both processes alive."""
    running_site.replace_dead()
    return running_site


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, for the tests of a module."""
    with launched() as opened:
        yield opened


@pytest.fixture(scope="module")
def sessions(running_site: Site, browser: Browser) -> Mapping[str, Any]:
    """What the browsers of people keep who signed in. Cookies are for all ports of a host, so for both processes."""
    found: dict[str, Any] = {}
    for name in (*CALLERS, *APPROVERS):
        context = browser.new_context()
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(running_site.url(1))
        page.fill("input[name=username]", name)
        page.fill("input[name=password]", name)
        page.press("input[name=password]", "Enter")
        page.wait_for_url(f"**{LIST}")
        found[name] = context.storage_state()
        context.close()
    return found


@pytest.fixture
def signed_in(browser: Browser, sessions: Mapping[str, Any]) -> Iterator[Callable[..., BrowserContext]]:
    """Opens a browser in which somebody is signed in. Nothing may be wrong on its pages."""
    complaints: list[str] = []
    contexts: list[BrowserContext] = []

    def open_for(name: str, **options: Any) -> BrowserContext:
        context = browser.new_context(storage_state=sessions[name], **options)
        context.set_default_timeout(PATIENCE)
        context.add_init_script(HASTE)
        context.on("console", lambda said: said.type == "error" and complaints.append(said.text))
        context.on("weberror", lambda error: complaints.append(str(error.error)))
        contexts.append(context)
        return context

    yield open_for
    for context in contexts:
        context.close()
    # A test that has the network fail, or is refused, knows of it.
    assert [each for each in complaints if "Failed to load resource" not in each] == []


@pytest.fixture
def at_list(site: Site, signed_in: Callable[..., BrowserContext]) -> Callable[..., Page]:
    """Opens the list for somebody, at the second process."""

    def open_for(name: str, **options: Any) -> Page:
        page = signed_in(name, **options).new_page()
        page.goto(site.url(1))
        page.evaluate("window.stayed = true")
        return page

    return open_for


_numbers = itertools.count(os.getpid() % 1000 * 100)


@pytest.fixture
def amount() -> int:
    """That no other test pays."""
    return next(_numbers)
