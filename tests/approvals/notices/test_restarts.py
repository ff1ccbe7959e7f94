"""Notices of one process, delivered by others."""

import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from benchmarks.process import HOST, ROOT, environment
from tests.approvals.notices.receiver import Receiver
from tests.conformance.databases import postgresql, sqlite
from tests.conformance.legs import migrate, start
from tests.faults.conftest import until

pytestmark = pytest.mark.slow

ASK_AND_DIE = """
import os, signal
import django
django.setup()
from django.db import transaction
from django_mcp.approvals import notices
from tests.approvals.notices.conftest import ticket
with transaction.atomic():
    for _ in range({number}):
        made = ticket()
        print(made.public_id, flush=True)
        transaction.on_commit(lambda: os.kill(os.getpid(), signal.SIGKILL))
        notices.make(made)
"""


def served_by_uvicorn(port: int) -> list[str]:
    return ["uvicorn", "--host", HOST, "--port", str(port), "tests.conformance.asgi:application"]


def served_by_gunicorn(port: int) -> list[str]:
    return ["gunicorn", "-b", f"{HOST}:{port}", "--preload", "--workers", "2", "tests.conformance.wsgi:application"]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.needs("DATABASE_URL"))])
def site(request: pytest.FixtureRequest, tmp_path: Path, receiver: Receiver) -> Iterator[Mapping[str, str]]:
    """The environment of processes of a site."""
    with sqlite(tmp_path) if request.param == "sqlite" else postgresql() as database:
        complete = {
            "DJANGO_SETTINGS_MODULE": "tests.approvals.notices.site",
            "CONFORMANCE_REDIS_URL": "",
            "NOTICES_WEBHOOK": receiver.url,
            **database,
        }
        migrate(complete)
        yield complete


def ask_and_die(site: Mapping[str, str], number: int = 1) -> list[str]:
    """The tickets of a process that was killed before it told anybody of them."""
    command = [sys.executable, "-c", ASK_AND_DIE.format(number=number)]
    done = subprocess.run(command, cwd=ROOT, env=environment(site), capture_output=True, text=True)  # noqa: PLW1510 - asserted
    assert done.returncode == -signal.SIGKILL, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("server", [served_by_uvicorn, served_by_gunicorn])
def test_a_process_that_begins_to_serve_delivers_what_a_killed_one_left(
    site: Mapping[str, str], receiver: Receiver, tmp_path: Path, server: object
) -> None:
    (left,) = ask_and_die(site)
    assert receiver.received == []
    with ExitStack() as stack:
        port = start(server, site, tmp_path, set(), stack).port
        with urllib.request.urlopen(f"http://{HOST}:{port}/", timeout=10) as page:
            assert page.read() == b"There it is."
        until(lambda: receiver.received, "it is delivered")
    assert [each.checked()["data"]["approval_id"] for each in receiver.received] == [left]


def test_two_commands_at_once_deliver_each_notice_once(site: Mapping[str, str], receiver: Receiver) -> None:
    left = ask_and_die(site, number=20)
    command = [sys.executable, "manage.py", "mcp_notify"]
    both = [subprocess.Popen(command, cwd=ROOT, env=environment(site), stdout=-1, text=True) for _ in range(2)]
    said = [each.communicate(timeout=60)[0] for each in both]
    assert sum(int(each.split()[0]) for each in said) == 20, said
    assert sorted(receiver.ids) == sorted(f"msg_{each}" for each in left)


def test_a_command_that_goes_on_delivers_until_it_is_told_to_end(site: Mapping[str, str], receiver: Receiver) -> None:
    command = [sys.executable, "manage.py", "mcp_notify", "--forever"]
    running = subprocess.Popen(command, cwd=ROOT, env=environment(site), stdout=subprocess.PIPE, text=True)
    try:
        (first,) = ask_and_die(site)
        until(lambda: len(receiver.received) == 1, "the first is delivered")
        (second,) = ask_and_die(site)
        until(lambda: len(receiver.received) == 2, "the second is delivered")
        running.terminate()
        said, _ = running.communicate(timeout=20)
    finally:
        running.kill()
        running.wait()
    assert running.returncode == 0
    assert said == "1 notice delivered.\n" * 2
    assert receiver.ids == [f"msg_{first}", f"msg_{second}"]
