"""``docs/testing.md``: what it has people type is run as they would run it, in a new project."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.test_blocks import ROOT, Site, blocks

PYTEST = ("-m", "pytest", "-p", "no:cacheprovider", "-p", "no:randomly", "--ds=mysite.settings")
OF_THIS_RUN = ("PYTEST", "DJANGO_", "COV", "PYTHONDONTWRITEBYTECODE")
PAGE = ROOT / "docs" / "testing.md"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A project with the page's files in it."""
    site = Site(tmp_path_factory.mktemp("testing"))
    site.append(
        "mysite/settings.py",
        'INSTALLED_APPS += ["django_mcp"]\nDJANGO_MCP = {"AUTHENTICATION": ["django_mcp.SessionAuthentication"]}\n',
    )
    site.append(
        "mysite/urls.py", 'from django.urls import include\nurlpatterns += [path("", include("django_mcp.urls"))]'
    )
    for block in blocks(PAGE):
        if block.language == "python" and (named := re.match(r"# (\S+\.py)\n", block.code)):
            (site.path / named[1]).write_text(block.code)
    site.run("manage.py", "makemigrations", "library")
    return site


def test_djangos_tests_pass(site: Site) -> None:
    done = run(site.path, "manage.py", "test", "library")
    assert "Ran 7 tests" in done
    assert "OK" in done


def test_those_of_pytest_are_run_in_each_era(site: Site) -> None:
    done = run(site.path, *PYTEST, "-v", ".")
    assert "test_a_book_is_renamed[modern] PASSED" in done
    assert "test_a_book_is_renamed[legacy] PASSED" in done
    assert "6 passed" in done


def test_a_test_that_should_fail_does(site: Site) -> None:
    """And says why, as the page shows it."""
    words = (site.path / "test_mcp.py").read_text().replace("pk=book.pk", "pk=7777")
    (site.path / "wrong.py").write_text(words)
    done = run(site.path, *PYTEST, "--nomigrations", "wrong.py", fails=True)
    assert "It should have asked for all answers; unused answers: [True]." in done
    assert "request  rename_book(pk=7777, title='Arrakis')" in done
    assert "got      the tool failed: There is no book 7777. Use search_books to find one." in done


def run(path: Path, *arguments: str, fails: bool = False) -> str:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(OF_THIS_RUN)}
    done = subprocess.run(  # noqa: PLW1510 - asserted below, with what it said
        [sys.executable, *arguments], cwd=path, env=environment, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode != 0) is fails, done.stdout + done.stderr
    return done.stdout + done.stderr
