"""Migrations make the tables that the models describe; all other tests make theirs of the models."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import override_settings

from tests.design.sources import ROOT

MIGRATE = """
import django
from django.conf import settings
from django.core.management import call_command

django.setup()
{settings}
call_command("migrate", run_syncdb=True, verbosity=0)
"""


@pytest.mark.django_db
@override_settings(MIGRATION_MODULES={})
def test_no_model_lacks_a_migration(capsys: Any) -> None:
    call_command("makemigrations", check_changes=True, dry_run=True)
    assert "No changes detected" in capsys.readouterr().out


@pytest.mark.slow
def test_migrations_make_the_tables_that_the_tests_have(tmp_path: Path) -> None:
    by_models = tables(tmp_path / "models.sqlite3", "")
    by_migrations = tables(tmp_path / "migrations.sqlite3", "settings.MIGRATION_MODULES = {}")
    assert len(by_models) > 20
    for name, parts in by_models.items():
        assert by_migrations[name] == parts, name


def tables(path: Path, settings: str) -> dict[str, set[Any]]:
    """Make the tables in a process of its own, and return the columns, keys and indexes of each."""
    program = "from tests import settings as given\ngiven.DATABASES['default']['NAME'] = PATH\n".replace(
        "PATH", repr(str(path))
    )
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    environment.pop("TEST_ON", None)
    command = [sys.executable, "-c", program + MIGRATE.format(settings=settings)]
    subprocess.run(command, cwd=ROOT.parent, env=environment, check=True, timeout=120)
    found: dict[str, set[Any]] = {}
    with sqlite3.connect(path) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for name in names:
            if name in {"django_migrations", "sqlite_sequence"}:
                continue
            columns = {row[1:] for row in connection.execute(f'PRAGMA table_info("{name}")')}
            keys = {row[2:] for row in connection.execute(f'PRAGMA foreign_key_list("{name}")')}
            indexes = set()
            for index in connection.execute(f'PRAGMA index_list("{name}")').fetchall():
                of = tuple(row[2] for row in connection.execute(f'PRAGMA index_info("{index[1]}")'))
                named = "" if index[1].startswith("sqlite_autoindex") else index[1]
                indexes.add((named, *index[2:], of))
            found[name] = columns | keys | indexes
    connection.close()
    return found
