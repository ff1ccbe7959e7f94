"""What a site does not use is not imported when it starts."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

import django_mcp
from tests.design.sources import ROOT

MAX_MODULES = 136
SITE = """
import asyncio, json, sys
from django.urls import get_resolver
from benchmarks.shapes import SHAPES
from benchmarks.startup.application import application

def own():
    return sorted(sys.modules)

started = own()
(request,) = SHAPES["modern-add"].requests(1, "127.0.0.1")
head, _, body = request.encoded.partition(b"\\r\\n\\r\\n")
first, *lines = head.split(b"\\r\\n")
headers = [(name.strip().lower(), value.strip()) for name, _, value in (line.partition(b":") for line in lines)]
path = first.split()[1].decode()
scope = {"type": "http", "method": "POST", "path": path, "headers": headers, "query_string": b""}
sent = []

messages = iter([{"type": "http.request", "body": body}])

async def receive():
    for message in messages:
        return message
    await asyncio.Future()  # the client waits for the answer

async def send(message):
    sent.append(message)

asyncio.run(application(scope, receive, send))
found = {"started": started, "called": own(), "answer": sent[-1]["body"].decode()}
print(json.dumps({**found, "has_reversed": get_resolver()._populated}))
"""

UNUSED = (
    "django_mcp.integrations",
    "django_mcp.admin",
    "django_mcp.client",
    "django_mcp.contrib",
    "django_mcp.doctor",
    "django_mcp.management",
    "django_mcp.oauth",
    "channels",
    "docstring_parser",
    "jwcrypto",
    "oauth2_provider",
    "opentelemetry",
    "sse_starlette",
    "urllib3",
    "yaml",
)
"""Of these nothing is imported for a site with a few plain tools and without the admin."""
STARTING = {
    "approvals": {"receivers", "tool_definitions", "tool_policies"},
    "listing": {"documents"},
    "model_resources": {"receivers"},
    "skills": {"declaration", "receivers", "skill"},
}
"""Packages of which these modules are imported, and no others."""
UNUSED_BY_THE_ADMIN = {"django.test", "unittest", "jinja2", "jsonschema", "markdownify", "requests", "urllib3", "yaml"}
"""A site with the admin imports nothing of these when it starts: pages import what they need on demand."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The modules of the benchmarked site without the admin when it has started, and after a call."""
    database = tmp_path_factory.mktemp("start") / "site.sqlite3"
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("OTEL_")},
        "DJANGO_SETTINGS_MODULE": "tests.design.plain_site",
        "BENCH_DATABASE": str(database),
    }

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=ROOT.parent,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("-m", "django", "migrate", "--verbosity", "0")
    found = json.loads(run("-c", SITE))
    assert '"result":{' in found["answer"]
    return found


@pytest.mark.slow
def test_a_site_with_a_few_plain_tools_imports_few_modules(site: Any) -> None:
    own = [name for name in site["started"] if name.partition(".")[0] == "django_mcp"]
    assert len(own) <= MAX_MODULES, own


@pytest.mark.slow
def test_what_such_a_site_does_not_use_is_not_imported(site: Any) -> None:
    assert [
        each for each in site["called"] if any(each == name or each.startswith(f"{name}.") for name in UNUSED)
    ] == []


@pytest.mark.slow
def test_what_pages_of_the_admin_need_is_not_imported_before_somebody_asks_for_them() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import json, sys, benchmarks.startup.application; print(json.dumps(sorted(sys.modules)))",
        ],
        cwd=ROOT.parent,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "benchmarks.startup.endpoint"},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "django_mcp.admin.playground" in (started := set(json.loads(done.stdout)))
    assert UNUSED_BY_THE_ADMIN & started == set()


@pytest.mark.slow
def test_of_features_that_may_be_used_only_what_knows_when_is_imported(site: Any) -> None:
    called = [each.split(".", 2) for each in site["called"] if each.count(".") > 1]
    found = {package: {rest for _, within, rest in called if within == package} for package in STARTING}
    assert found == STARTING


@pytest.mark.slow
def test_no_module_of_ours_is_imported_while_the_first_call_waits(site: Any) -> None:
    assert [each for each in site["called"] if each.startswith("django_mcp") and each not in site["started"]] == []


@pytest.mark.slow
def test_a_start_and_a_call_do_not_read_every_url_of_the_site(site: Any) -> None:
    assert not site["has_reversed"]


# Public names


def test_every_public_name_is_where_the_stub_says() -> None:
    assert "tool" in django_mcp.__all__
    assert [name for name in django_mcp.__all__ if not hasattr(django_mcp, name)] == []


@pytest.mark.slow
def test_public_names_are_listed_before_they_are_used() -> None:
    listed = subprocess.run(
        [sys.executable, "-c", "import django_mcp, sys; print(*dir(django_mcp)); assert len(sys.modules) < 200"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert set(django_mcp.__all__) <= set(listed.stdout.split())


def test_no_public_name_is_that_of_a_module() -> None:
    """Which would take its place when it is imported."""
    files = {path.stem for path in ROOT.iterdir()}
    assert files.isdisjoint(django_mcp.__all__)


def test_a_name_that_is_not_there_is_missed_as_everywhere() -> None:
    with pytest.raises(ImportError, match="cannot import name 'tools'"):
        from django_mcp import tools  # type: ignore[attr-defined] # noqa: F401
