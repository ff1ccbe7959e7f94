"""The documentation as a site: all pages are found, and all links lead somewhere."""

import subprocess
import sys
from pathlib import Path

import pytest

import django_mcp
from tests.docs.test_blocks import ROOT


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``make docs`` builds; any warning, as of a link that leads nowhere, is an error."""
    where = tmp_path_factory.mktemp("docs")
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-q", "docs", str(where)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)  # noqa: PLW1510
    assert done.returncode == 0, done.stderr
    return where


@pytest.mark.parametrize("name", django_mcp.__all__)
def test_the_reference_has_every_public_name(built: Path, name: str) -> None:
    assert f'id="django_mcp.{name}"' in (built / "reference.html").read_text() or name == "__version__"


def test_every_page_is_there_with_its_pictures(built: Path) -> None:
    pages = [each.relative_to(ROOT / "docs").with_suffix(".html") for each in (ROOT / "docs").rglob("*.md")]
    assert [str(each) for each in pages if not (built / each).is_file()] == []
    assert (built / "images" / "request-path.svg").is_file()


def test_what_is_no_page_is_linked_to_where_it_is_published(built: Path) -> None:
    link = "https://github.com/django-mcp/django-mcp-toolkit/blob/main/demo_project/travel/reports.py"
    assert link in (built / "tasks.html").read_text()
