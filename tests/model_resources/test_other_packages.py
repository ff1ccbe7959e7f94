"""Permissions for single rows as django-guardian and rules give them."""

import json
import os
import subprocess
import sys

import pytest

from benchmarks.process import ROOT


@pytest.mark.slow
def test_rows_of_django_guardian_and_rules_exist_for_those_whom_they_allow() -> None:
    command = [sys.executable, "-c", "import django; django.setup(); import tests.model_resources.guarded.site"]
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.model_resources.guarded.settings"}
    done = subprocess.run(  # noqa: PLW1510 - asserted below
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "ann": ["Book 1", "Book 3"],
        "bob": [],
        "listed": [
            *("library://book", "schema://library/book", "library://author", "schema://library/author"),
            *("library://book/book-1", "library://book/book-3"),
        ],
        "hidden": "No book with slug 'book-0' found.",
        "author": None,
        "by rule": ["Carl Dahl"],
        "against rule": [],
        "narrowed": ["Book 1", "Book 3"],
        "counted": [{"count": 2}],
    }
