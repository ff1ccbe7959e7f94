"""What an admin needs of middleware: users of simple-history, actors of auditlog, second factors of otp."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from benchmarks.process import ROOT

pytestmark = pytest.mark.slow
SITE = "tests.integrations.admin_site.packages_site"
TOOLS = [
    *("admin_overview", "admin_choices", "search_shelfs", "get_shelf", "shelf_history"),
    *("add_shelf", "change_shelf", "delete_shelf", "delete_shelfs"),
]


@pytest.fixture(scope="module", params=["middleware", "managers"])
def told(request: pytest.FixtureRequest) -> Any:
    """What the packages recorded, if they are told who acts in one of two ways."""
    done = subprocess.run(
        [sys.executable, "-m", f"{SITE}.visit"],
        cwd=ROOT,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": f"{SITE}.settings", "PACKAGES_SITE": request.param},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


def test_the_history_of_django_simple_history_has_the_caller(told: Any) -> None:
    assert told[0]["history"] == "anna"


def test_the_entries_of_django_auditlog_have_the_caller(told: Any) -> None:
    assert told[0]["audit"] == "anna"


def test_an_admin_that_needs_a_second_factor_has_no_tools_until_the_site_says_whose_calls_have_one(told: Any) -> None:
    assert told[0]["tools"] == {"office": TOOLS, "safe": [], "trusting": TOOLS, "doubting": []}
    assert told[0]["bert"] == []
    assert told[1].count("admits no caller of its tools, as has_permission() failed") == 1


def test_what_a_caller_with_a_second_factor_asks_for_is_approved_and_done(told: Any) -> None:
    assert (told[0]["approved"], told[0]["name"]) == (True, "C")
