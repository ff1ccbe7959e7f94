"""The documentation as a site: all pages are found, and all links lead somewhere."""

import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
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


@pytest.mark.nightly
@pytest.mark.parametrize("name", django_mcp.__all__)
def test_the_reference_has_every_public_name(built: Path, name: str) -> None:
    assert f'id="django_mcp.{name}"' in (built / "reference.html").read_text() or name == "__version__"


@pytest.mark.nightly
def test_every_page_is_there_with_its_pictures(built: Path) -> None:
    pages = [each.relative_to(ROOT / "docs").with_suffix(".html") for each in (ROOT / "docs").rglob("*.md")]
    assert [str(each) for each in pages if not (built / each).is_file()] == []
    assert (built / "images" / "request-path.svg").is_file()


@pytest.mark.nightly
def test_what_is_no_page_is_linked_to_where_it_is_published(built: Path) -> None:
    link = "https://github.com/django-mcp/django-mcp-toolkit/blob/main/demo_project/travel/reports.py"
    assert link in (built / "tasks.html").read_text()


FOLDERS = (".github", "demo_project", "docs", "tests")
LINK = re.compile(r"\]\(([^()\s]+)")
IN_CODE = re.compile(r"^(`{3,}).*?^\1$|(`+)[^`]+\2", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def without_code(path: Path) -> str:
    return IN_CODE.sub(lambda found: "" if found[1] else re.sub(r"[\[\]()]", "", found[0]), path.read_text())


@cache
def anchors(path: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub and the built pages make them."""
    found: set[str] = set()
    for heading in HEADING.findall(without_code(path)):
        words = re.sub(r"\]\([^)]*\)", "", heading).lower()
        anchor = re.sub(r"[^\w -]", "", words).replace(" ", "-")
        found.add(next(each for each in (anchor, *(f"{anchor}-{n}" for n in range(1, 99))) if each not in found))
    return found


def dead_links(path: Path) -> Iterator[str]:
    for target in LINK.findall(without_code(path)):
        place, _, anchor = target.partition("#")
        other = path.parent / place if place else path
        if ":" in place:
            continue
        if not other.exists():
            yield f"{path.relative_to(ROOT)}: {target}: there is no {place}"
        elif anchor and anchor not in anchors(other.resolve()):
            yield f"{path.relative_to(ROOT)}: {target}: the page has no such heading"


def test_every_link_leads_to_a_page_and_a_heading_that_are_there() -> None:
    """The README and other pages outside of docs/, which are not built, and links to them."""
    pages = [*ROOT.glob("*.md"), *(page for where in FOLDERS for page in (ROOT / where).rglob("*.md"))]
    assert [each for page in pages for each in dead_links(page)] == []
