"""The wheel and the source distribution: what is in them, and a new site with the wheel."""

import json
import subprocess
import zipfile
from email import message_from_string
from pathlib import Path
from typing import Any

import pytest

import django_mcp
from tests.packaging.conftest import NAME, ROOT, Built, Installed

MODERN = "2026-07-28"
ASK = """
import json, os
os.environ["DJANGO_SETTINGS_MODULE"] = "mysite.settings"
from mysite.wsgi import application
from django.test import Client
for members in METAS:
    meta = {f"io.modelcontextprotocol/{name}": value for name, value in members.items()}
    for method, params in REQUESTS:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, **({"_meta": meta} if meta else {})}}
        own = {"mcp-protocol-version": MODERN, "mcp-method": method} if meta else {}
        if meta and "name" in params:
            own["mcp-name"] = params["name"]
        headers = {"accept": "application/json, text/event-stream", **own}
        answer = Client().post("/mcp", json.dumps(body), content_type="application/json", headers=headers)
        print(answer.content.decode())
"""
META = {"legacy": {}, "modern": {"protocolVersion": MODERN, "clientCapabilities": {}}}
LIST_AND_CALL = [("tools/list", {}), ("tools/call", {"name": "add", "arguments": {"a": 40, "b": 2}})]
CHECK = """
import os
os.environ["DJANGO_SETTINGS_MODULE"] = "mysite.settings"
from django.core.management import execute_from_command_line
execute_from_command_line(["manage.py", "check", "--fail-level", "WARNING"])
execute_from_command_line(["manage.py", "makemigrations", "--check", "--dry-run"])
"""
PLACES = """
import importlib.metadata, json, os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "mysite.settings"
import django; django.setup()
import django_mcp
from django.contrib.staticfiles.finders import find
from django.template.loader import get_template
(plugin,) = [each for each in importlib.metadata.entry_points(group="pytest11") if each.name == "django_mcp"]
print(json.dumps({
    "package": django_mcp.__file__,
    "template": get_template("admin/django_mcp/overview.html").origin.name,
    "static": find("django_mcp/admin.css"),
    "version": importlib.metadata.version("django-mcp-toolkit"),
    "plugin": plugin.value,
    "path": sys.path,
}))
"""
TRACKED = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_wheel_has_every_file_of_the_package_and_no_other(built: Built) -> None:
    files = {path for path in (ROOT / "django_mcp").rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    ours = {path.relative_to(ROOT).as_posix() for path in files}
    assert {name for name in built.names() if ".dist-info/" not in name} == ours


def test_the_wheel_has_what_is_no_module_that_something_imports(built: Built) -> None:
    wanted = {
        "py.typed",
        "migrations/0001_initial.py",
        "static/django_mcp/admin.css",
        "templates/admin/django_mcp/overview.html",
        "templates/django_mcp/oauth/authorize.html",
        "templates/django_mcp/approvals/notice.txt",
        "management/commands/mcp_inspect.py",
    }
    assert {f"django_mcp/{name}" for name in wanted} - built.names() == set()


def test_the_wheel_says_what_it_is(built: Built) -> None:
    told = message_from_string(built.metadata("METADATA"))
    assert (told["Name"], told["Version"]) == (NAME, django_mcp.__version__)
    assert told["License-Expression"] == "MIT"
    assert built.metadata("licenses/LICENSE") == (ROOT / "LICENSE").read_text()
    assert (ROOT / "README.md").read_text().strip() in told.get_payload()
    assert {"drf", "ninja", "otel", "postgres", "redis", "test"} <= set(told.get_all("Provides-Extra"))
    labels = {each.partition(",")[0] for each in told.get_all("Project-URL")}
    assert labels == {"Changelog", "Documentation", "Issues", "Source"}
    assert "[pytest11]\ndjango_mcp = django_mcp.pytest_plugin" in built.metadata("entry_points.txt")


@pytest.mark.skipif(
    TRACKED.returncode != 0, reason="git does not know this checkout, so nobody says what belongs to it"
)
def test_the_source_distribution_has_every_file_of_the_repository(built: Built) -> None:
    there = {name for name in TRACKED.stdout.split("\0") if name and (ROOT / name).is_file()}
    assert there - built.source_names() == set()


def test_the_source_distribution_has_nothing_that_a_run_leaves_behind(built: Built) -> None:
    left = ("__pycache__", ".pyc", ".sqlite3", ".env", ".coverage", "docs/_build/", ".hypothesis")
    assert [name for name in built.source_names() if any(each in name for each in left) and "example" not in name] == []


def test_others_make_the_same_wheel_of_the_source_distribution(built: Built) -> None:
    ours, theirs = (zipfile.ZipFile(path) for path in (built.wheel, built.wheel_of_source))
    assert built.wheel.name == built.wheel_of_source.name
    assert {each.filename: each.CRC for each in theirs.infolist()} == {
        each.filename: each.CRC for each in ours.infolist()
    }


@pytest.fixture(scope="module")
def places(installed: Installed) -> Any:
    return json.loads(installed.run("-c", PLACES))


def test_a_site_finds_the_package_its_pages_and_its_files_where_the_wheel_was_installed(
    installed: Installed, places: Any
) -> None:
    for name in ("package", "template", "static"):
        assert Path(places[name]).is_relative_to(installed.libraries), name
    assert not any(Path(each).is_relative_to(ROOT) for each in places["path"] if each)


def test_the_installed_package_knows_its_version_and_its_plugin_for_pytest(places: Any) -> None:
    assert places["version"] == django_mcp.__version__
    assert places["plugin"] == "django_mcp.pytest_plugin"


def test_a_new_site_passes_its_checks_and_lacks_no_migration(installed: Installed) -> None:
    said = installed.run("-c", CHECK)
    assert "no issues" in said
    assert "No changes detected" in said


def test_a_new_site_lists_its_tool_and_answers_a_call_in_each_era(
    installed: Installed, subtests: pytest.Subtests
) -> None:
    metas = repr([*META.values()])
    code = ASK.replace("METAS", metas).replace("REQUESTS", repr(LIST_AND_CALL)).replace("MODERN", repr(MODERN))
    lines = installed.run("-c", code).splitlines()
    for revision, *answers in zip(META, lines[::2], lines[1::2], strict=True):
        with subtests.test(revision):
            listed, called = (json.loads(line)["result"] for line in answers)
            assert [each["name"] for each in listed["tools"]] == ["add"]
            assert called["content"] == [{"type": "text", "text": "42"}]
