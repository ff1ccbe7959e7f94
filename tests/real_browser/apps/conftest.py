"""The host's servers and the site behind it, once in a session; the pages of a test are its own."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from benchmarks.process import HOST as ADDRESS
from tests.auth_check.browser import launched
from tests.conformance.databases import sqlite
from tests.conformance.legs import migrate, start
from tests.real_browser.apps.host import Host, Hosted, bundle, opened
from tests.real_clients.conftest import clients
from tests.real_clients.node import Clients
from tests.real_logins.conftest import chromium

__all__ = ["chromium", "clients"]

Open = Callable[..., Hosted]


@pytest.fixture(scope="package")
def browser(chromium: str) -> Iterator[Browser]:
    """Chromium, for all tests of apps."""
    with launched() as made:
        yield made


@pytest.fixture(scope="session")
def host(clients: Clients) -> Iterator[Host]:
    """The host's page and sandbox."""
    made = Host(bundle(clients))
    with made.serve():
        yield made


def uvicorn(port: int) -> list[str]:
    return ["uvicorn", "--host", ADDRESS, "--port", str(port), "tests.conformance.asgi:application"]


@pytest.fixture(scope="session")
def endpoint(host: Host, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of the site's endpoint."""
    folder: Path = tmp_path_factory.mktemp("apps")
    with ExitStack() as stack:
        environment = {
            "DJANGO_SETTINGS_MODULE": "tests.real_browser.apps.site.settings",
            "HOST_ORIGIN": host.origin,
            "FOREIGN_ORIGIN": host.foreign,
            "PYTHONUNBUFFERED": "1",
            "CONFORMANCE_REDIS_URL": "",
            **stack.enter_context(sqlite(folder)),
        }
        migrate(environment)
        server = start(uvicorn, environment, folder, set(), stack)
        yield f"http://{ADDRESS}:{server.port}/mcp"
        assert "Traceback" not in server.log(), server.log()


@pytest.fixture(scope="module")
def connect(browser: Browser, host: Host, endpoint: str) -> Iterator[Open]:
    """Opens a page of the host with a client of the site, or of the endpoint that is given."""
    with ExitStack() as stack:

        def page(endpoint: str = endpoint, **options: Any) -> Hosted:
            return stack.enter_context(opened(browser, host, endpoint, **options))

        yield page


@pytest.fixture(scope="module")
def hosted(connect: Open) -> Hosted:
    """A page of the host with a client that knows apps. What one app left is gone when the next is opened."""
    return connect()
