"""The example's settings, its server's command and its health check do what they are there for."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from deploy import health
from tests.deploy.files import ROOT, command, example, services
from tests.ports import free_port

GIVEN = {
    "BASE_URL": "https://travel.example",
    "DATABASE_URL": "postgres://site:secret@database:5432/site",
    "DJANGO_SECRET_KEY": "x" * 30 + "0123456789abcdefghij",
    "REDIS_URL": "redis://redis:6379/0",
}
PATIENCE = 60.0


def environment(given: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in GIVEN and not name.startswith("COV")}
    return {**kept, **given, "DJANGO_SETTINGS_MODULE": "deploy.settings"}


def python(code: str, given: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=environment(given),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_compose_gives_what_the_settings_want() -> None:
    assert set(services()["worker-1"]["environment"]) == set(GIVEN)


def test_nothing_starts_with_the_demos_own_value_in_place_of_a_missing_one(subtests: pytest.Subtests) -> None:
    for name in GIVEN:
        with subtests.test(name):
            done = python("import deploy.settings", {key: value for key, value in GIVEN.items() if key != name})
            assert done.returncode != 0
            assert f"Set {name} in the environment; deploy/.env.example says how." in done.stderr


def test_the_address_of_the_example_is_one_the_settings_take() -> None:
    code = "import django; django.setup(); from django.core.management import call_command; call_command('check')"
    done = python(code, {**GIVEN, "BASE_URL": example()["BASE_URL"]})
    assert done.returncode == 0, done.stderr


def test_the_endpoint_has_nothing_to_warn_of_and_the_files_that_the_proxy_serves_are_collected(tmp_path: Path) -> None:
    code = (
        "import deploy.settings as settings; from django.conf import settings as given; import django\n"
        f"given.STATIC_ROOT = {str(tmp_path)!r}; django.setup()\n"
        "from django.core.management import call_command\n"
        "call_command('check', deploy=True)\n"
        "print(settings.STATIC_ROOT, given.STATIC_URL); call_command('collectstatic', interactive=False, verbosity=0)"
    )
    done = python(code, GIVEN)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"django_mcp\.\w+|oauth2_provider\.\w+", done.stderr) == []
    assert done.stdout.split() == [str(ROOT / "static"), "/static/"]
    assert {"admin/css/base.css", "django_mcp/admin.css"} <= {
        path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.css")
    }


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[tuple[str, "subprocess.Popen[bytes]"]]:
    """The Dockerfile's own command, at a port of this machine; neither database nor Redis is there."""
    port = str(free_port())
    words = [port if word == str(8000) else word.replace("0.0.0.0", "127.0.0.1") for word in command()]
    given = {**GIVEN, "DATABASE_URL": "postgres://127.0.0.1:1/site", "REDIS_URL": "redis://127.0.0.1:1/0"}
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", *words], cwd=ROOT, env=environment(given), stdout=log, stderr=log
        )  # fmt: skip
    yield f"http://127.0.0.1:{port}/open/mcp", process
    process.kill()
    process.wait(10)


def test_a_worker_says_that_it_is_well_while_it_serves_and_that_it_is_not_when_it_does_not(
    worker: tuple[str, "subprocess.Popen[bytes]"],
) -> None:
    url, process = worker
    deadline = time.monotonic() + PATIENCE
    while (problem := health.main(url)) and time.monotonic() < deadline and process.poll() is None:
        assert "does not answer a ping" in problem
        try:
            process.wait(0.1)
        except subprocess.TimeoutExpired:
            continue
    assert health.main(url) is None
    process.terminate()
    process.wait(10)
    assert "does not answer a ping" in health.main(url)


def test_what_answers_something_else_is_not_well(live_server) -> None:
    """A page of the site, or an endpoint that is not there."""
    assert "does not answer a ping" in health.main(f"{live_server.url}/accounts/login/")


def test_a_worker_that_answers_with_an_error_is_not_well(tmp_path: Path) -> None:
    answer = tmp_path / "answer.json"
    answer.write_text('{"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "No."}}')
    assert "answers a ping with" in health.main(answer.as_uri())
    answer.write_text('{"jsonrpc": "2.0", "id": 1, "result": {}}')
    assert health.main(answer.as_uri()) is None
