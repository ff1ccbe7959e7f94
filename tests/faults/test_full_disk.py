"""A real disk without a byte left: SQLite meets it when a transaction is committed."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.design.sources import ROOT

PROGRAM = """
import json, sys
from tests import settings as given
database = given.DATABASES["default"]
database["NAME"] = sys.argv[1] + "/site.sqlite3"
database["OPTIONS"]["init_command"] = f"PRAGMA journal_mode = {sys.argv[2]}"
import django
django.setup()
from django.core.management import call_command
call_command("migrate", run_syncdb=True, verbosity=0)

from django.db import connection
from django_mcp import AllowAny, MCPServer, tool
from django_mcp.models import RequestLog
from tests.clients import MODERN, Client

server = MCPServer("disk", authentication=[AllowAny()])
made = []

@tool(server=server)
def act(text: str) -> str:
    made.append(1)
    return "done"

@tool(server=server)
async def act_async(text: str) -> str:
    made.append(1)
    return "done"

client = Client(server, MODERN, sys.argv[3])
call = lambda name: client.call(name, text="x" * 900).json
assert call("act")["result"], "while there is room"
filler = open(sys.argv[1] + "/filler", "wb", buffering=0)
for size in (65536, 512, 1):
    try:
        while True:
            filler.write(b"x" * size)
    except OSError:
        pass
before = len(made)
refused = [call(name)["error"]["message"] for name in ["act", "act_async"] * 4]
made_when_full = len(made) - before
filler.truncate(0)
again = [client.call("act", text="x").json["result"]["content"][0]["text"] for _ in range(3)]
print(json.dumps({"made": made_when_full, "refused": refused, "again": again, "rows": RequestLog.objects.count()}))
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of a few megabytes."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(tmp_path)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("this user may not mount a small disk")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


@pytest.mark.parametrize(
    ("journal", "edge"),
    [
        ("DELETE", "view"),
        ("WAL", "asgi"),
        pytest.param("DELETE", "asgi", marks=pytest.mark.nightly),
        pytest.param("WAL", "view", marks=pytest.mark.nightly),
    ],
)
def test_a_full_disk_stops_all_calls_but_the_one_that_meets_it(disk: Path, journal: str, edge: str) -> None:
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings", "TEST_ON": "sqlite"}
    command = [sys.executable, "-c", PROGRAM, str(disk), journal, edge]
    done = subprocess.run(
        command, cwd=ROOT.parent, env=environment, check=False, timeout=120, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    seen: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert seen["made"] == 1
    assert "could not be recorded" in seen["refused"][0]
    assert all("this call was not run" in message for message in seen["refused"][1:])
    assert seen["again"] == ["done", "done", "done"], done.stderr
    assert seen["rows"] == 4
