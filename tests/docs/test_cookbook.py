"""The cookbook: the files of each page are put into a new project, where the page's own tests pass."""

import re
from pathlib import Path

import pytest

from tests.docs.test_blocks import ROOT, Site, blocks

TESTED_ELSEWHERE = {"tenants.md", "third-party-apps.md", "wagtail.md", "django-taggit.md"}
PAGES = sorted(
    page for page in (ROOT / "docs" / "cookbook").glob("*.md") if page.name not in TESTED_ELSEWHERE | {"index.md"}
)
SETTINGS = """
INSTALLED_APPS += ["{app}", "django_mcp"]
DJANGO_MCP = {"AUTHENTICATION": ["django_mcp.APIKeyAuthentication"]}
"""
URLS = """
from django.urls import include
urlpatterns += [path("", include("django_mcp.urls"))]
"""
FILE = re.compile(r"# (\S+\.py)(, at the end|, further down)?\n")


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_the_tests_of_the_page_pass_and_the_checks_find_nothing(page: Path, tmp_path: Path) -> None:
    site, app = write_site(page, tmp_path)
    _, found, _ = site.commands(f"makemigrations {app}", "check", f"test {app}")
    assert "no issues" in found


def write_site(page: Path, path: Path) -> tuple[Site, str]:
    """Return a new project with the files of a page, and the name of the app that they are in."""
    site = Site(path)
    files = [(FILE.match(block.code), block.code) for block in blocks(page) if block.language == "python"]
    assert all(named for named, _ in files), f"{page.name}: a block does not say which file it is"
    written = [(named[1], named[2], code) for named, code in files if named]
    [app] = {name.split("/")[0] for name, _, _ in written} - {"mysite"}
    site.add_app(app)
    site.append("mysite/settings.py", SETTINGS.replace("{app}", app))
    site.append("mysite/urls.py", URLS)
    for name, is_added, code in written:
        if is_added:
            site.append(name, code)
        else:
            (path / name).write_text(code)
    assert f"{app}/tests.py" in [name for name, _, _ in written], f"{page.name} has no tests"
    return site, app


def test_the_page_on_installation_does_what_it_says(tmp_path: Path) -> None:
    site = Site(tmp_path)
    for code in (block.code for block in blocks(ROOT / "docs" / "installation.md") if block.language == "python"):
        named = FILE.match(code)
        assert named
        if named[2]:
            site.append(named[1], code)
        else:
            (tmp_path / named[1]).write_text(code)
    site.append("mysite/settings.py", 'ALLOWED_HOSTS = ["www.example.com", "testserver"]')
    _, found, _ = site.commands("migrate -v0", "check", "startmcp library")
    assert "no issues" in found
    assert (tmp_path / "library" / "mcp.py").exists()
    for edge in ("wsgi", "asgi"):
        [answer] = site.requests(("tools/list", {}), edge=edge)
        assert "Authentication required" in str(answer)
    (tmp_path / "library" / "mcp.py").unlink()
    site.run("manage.py", "migrate", "-v0", "django_mcp", "zero")
