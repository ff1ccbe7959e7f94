"""A site of every kind of declaration, whose models, forms and serializers ask the database, before there is one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.process import ROOT

pytestmark = pytest.mark.slow

LOOKED_UP = "The choices are known only at call time. An invalid value returns an error that lists them."
LIST = """
import json
import django
django.setup()
from django.contrib.auth.models import User
from django_mcp.test import MCPClient
tools = MCPClient(User.objects.create_superuser("root")).tools()
german = MCPClient(User.objects.get(), headers={"Accept-Language": "de"}).tools()
lists = [{tool["name"]: tool["inputSchema"]["properties"] for tool in each} for each in (tools, german)]
from tests.integrations.late_site.models import Room
print(json.dumps([*lists, [room.name for room in Room.objects.all()]]))
"""


def run(database: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "tests.integrations.late_site.settings",
            "LATE_SITE_DATABASE": str(database),
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def manage(database: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run(database, "-W", "error:Accessing the database:RuntimeWarning", "-m", "django", *arguments)


def test_commands_run_before_there_is_a_table_and_lists_are_complete_once_there_is(tmp_path: Path) -> None:
    database = tmp_path / "site.sqlite3"
    static = ["collectstatic", "--no-input", "--dry-run"]
    for command in (["check"], ["makemigrations", "--check"], static, ["migrate"], ["check"]):
        done = manage(database, *command)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
    done = run(database, "-c", LIST)
    assert done.returncode == 0, done.stderr
    tools, german, rooms = json.loads(done.stdout.splitlines()[-1])
    assert tools["booking"]["room"] == {"type": "string", "title": "Yes", "description": LOOKED_UP}
    assert tools["book_rooms"]["bookings"]["items"]["properties"]["room"] == tools["booking"]["room"]
    assert "default" not in tools["new_room"]["seats"]
    assert tools["create_room"]["like"]["enum"] == ["attic"]
    assert [tools["create_room"]["like"]["description"], german["create_room"]["like"]["description"]] == ["Yes", "Ja"]
    assert german["booking"]["room"]["title"] == "Ja"
    assert {*tools["create_order"], *tools["update_order"]} == {"number", "note", "seats", "room", "others"}
    assert tools["create_visit"].keys() == {"room", "before"}
    assert tools["create_page"].keys() == {"title", "order"}
    assert tools["add_order"].keys() >= {"number", "room"}
    assert {"change_page", "add_orders", "add_pages", "create_told_order", "ninja_order", "move"} <= tools.keys()
    assert rooms == ["attic"], "no default ran, which would have made a room"


def test_commands_that_need_no_database_run_where_it_cannot_be_reached(tmp_path: Path) -> None:
    nowhere = tmp_path / "there is no such folder" / "site.sqlite3"
    for command in (["check"], ["makemigrations", "--check"], ["collectstatic", "--no-input", "--dry-run"]):
        done = manage(nowhere, *command)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
    done = manage(nowhere, "migrate")
    assert done.returncode == 1
    assert "OperationalError: unable to open database file" in done.stderr
    assert "late_site/mcp.py" not in done.stderr
