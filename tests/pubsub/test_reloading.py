"""A site in development: an ``mcp.py`` that is changed is served, and clients that listen hear of it."""

import json
import logging
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from http.client import HTTPException
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from django.apps import apps
from django.db import OperationalError, connections
from django.utils.autoreload import BaseReloader, autoreload_started

from django_mcp import MCPServer
from django_mcp.models import Event
from django_mcp.pubsub import receivers
from tests.docs.test_blocks import Site
from tests.exchange import eventually
from tests.ports import free_port

TOOL = '''
from django_mcp import tool

@tool
def {name}() -> str:
    """Say so."""
    return "so"
'''


def tools(port: int) -> list[str]:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}).encode()
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    try:
        with urlopen(Request(f"http://127.0.0.1:{port}/mcp", body, headers), timeout=10) as answer:
            return [each["name"] for each in json.load(answer)["result"]["tools"]]
    except (OSError, HTTPException, ValueError):  # it is just being started, or was stopped within its answer
        return []


@pytest.fixture
def site(tmp_path: Path) -> Site:
    site = Site(tmp_path)
    site.append("library/mcp.py", TOOL.format(name="first"))
    site.append(
        "mysite/settings.py",
        'INSTALLED_APPS += ["django_mcp"]\nDJANGO_MCP = {"AUTHENTICATION": ["django_mcp.AllowAny"]}\n'
        'ALLOWED_HOSTS = ["127.0.0.1"]\n',
    )
    site.append(
        "mysite/urls.py", 'from django.urls import include\nurlpatterns += [path("", include("django_mcp.urls"))]'
    )
    site.migrate()
    return site


@pytest.fixture
def port(site: Site) -> Iterator[int]:
    """Of the site's ``runserver``."""
    port = free_port()
    environment = {key: value for key, value in os.environ.items() if not key.startswith("DJANGO_")}
    process = subprocess.Popen(
        [sys.executable, "manage.py", "runserver", f"127.0.0.1:{port}"],
        cwd=site.path,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    yield port
    os.killpg(process.pid, signal.SIGKILL)  # it has a child
    process.wait()


def changed(site: Site, port: int, name: str) -> Callable[[], bool]:
    """Change the file, and see whether that is served.

    Once more after a while: Django's reloader has its first look at files after the server has begun to answer, and
    what changed before that look is no change.
    """
    due = [0.0, 5.0, 9.0]
    begun = time.monotonic()

    def look() -> bool:
        if due and time.monotonic() >= begun + due[0]:
            del due[0]
            (site.path / "library" / "mcp.py").write_text(TOOL.format(name=name))
        return tools(port) == [name]

    return look


@pytest.mark.slow
def test_runserver_serves_a_changed_mcp_py_and_says_so(site: Site, port: int) -> None:
    def told() -> int:
        with sqlite3.connect(site.path / "db.sqlite3") as database:
            found = database.execute("SELECT count(*) FROM django_mcp_event WHERE data LIKE '%tools/list_changed%'")
            return int(found.fetchone()[0])

    eventually(lambda: tools(port) == ["first"], "it does not serve")
    before = eventually(told, "nothing is told at the start")
    eventually(changed(site, port, "another"), "the changed file is not served")
    eventually(lambda: told() > before, "nobody is told")


def test_every_list_of_every_endpoint_may_have_changed(
    server: MCPServer, open_database: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receivers, "servers", lambda: [server])
    receivers.connect_reloading()
    try:
        autoreload_started.send(sender=BaseReloader())
    finally:
        autoreload_started.disconnect(dispatch_uid="django_mcp.pubsub.reloading")
    told = [json.loads(each.data)["method"] for each in Event.objects.filter(topic="server:test")]
    assert sorted(told) == [f"notifications/{kind}/list_changed" for kind in ("prompts", "resources", "tools")]


def test_a_database_without_tables_is_no_reason_not_to_serve(
    server: MCPServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(kind: str) -> None:
        raise OperationalError("no such table: django_mcp_event")

    monkeypatch.setattr(receivers, "servers", lambda: [server])
    monkeypatch.setattr(server, "notify_list_changed", fail)
    with caplog.at_level(logging.WARNING, "django_mcp"):
        receivers._notify_reloaded()
    assert "no such table" in caplog.text


def test_a_site_that_cannot_start_says_why_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """``runserver`` empties the registry of apps then, and waits for a change."""
    monkeypatch.setattr(apps, "app_configs", {})
    monkeypatch.setattr(connections, "close_all", lambda: None)
    receivers._notify_reloaded()
