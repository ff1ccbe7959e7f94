"""A site whose settings are wrong: its commands say so, and its server answers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
SETTINGS = """
import os
INSTALLED_APPS = [each for each in INSTALLED_APPS if each not in os.environ.get("WITHOUT", "").split()] + ["django_mcp"]
DJANGO_MCP = eval(os.environ["MCP"])
"""
URLS = """
import os
from django.urls import include, path
if "BROKEN" in os.environ:
    import no_such_module
urlpatterns = [path("", include("django_mcp.urls"))]
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "django", "startproject", "mysite", str(folder)]
    subprocess.run(command, check=True, env={"PATH": os.environ["PATH"]})
    with (folder / "mysite" / "settings.py").open("a") as settings:
        settings.write(SETTINGS)
    (folder / "mysite" / "urls.py").write_text(URLS)
    return folder


def run(project: Path, command: str, settings: str, **more: str) -> str:
    """What a command that fails says."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "MCP": settings, **more}
    arguments = [sys.executable, "manage.py", *command.split()]
    done = subprocess.run(arguments, check=False, cwd=project, env=environment, capture_output=True, text=True)
    assert done.returncode == 1, done.stdout
    return done.stdout + done.stderr


KEYS = "['django_mcp.APIKeyAuthentication']"


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        (f"{{'AUTHENTICATON': {KEYS}}}", ["E001", "Did you mean 'AUTHENTICATION'?", "E002"]),
        ("{}", ["E002", "DJANGO_MCP['AUTHENTICATION'] = ['django_mcp.APIKeyAuthentication']"]),
        (
            "{'AUTHENTICATION': ['django_mcp.ApiKeyAuthentication']}",
            ["E006", "Did you mean 'django_mcp.APIKeyAuthentication'?"],
        ),
        ("{'AUTHENTICATION': ['django_mcp.OAuth2Authentication']}", ["E013", "E010"]),
        (f"{{'AUTHENTICATION': {KEYS}, 'HTTP_SSE': 'yes', 'SESSION_TTL': 0}}", ["E003", "HTTP_SSE", "SESSION_TTL"]),
        ("['AUTHENTICATION']", ["E003", "must be a dict"]),
    ],
)
def test_checks_say_what_is_wrong_in_place_of_a_traceback(project: Path, settings: str, parts: list[str]) -> None:
    said = run(project, "check", settings)
    assert "Traceback" not in said
    assert "AllowAny" not in said
    assert [part for part in parts if part not in said] == []


def test_migrate_and_runserver_say_it_too(project: Path) -> None:
    for command in ("migrate", "runserver 127.0.0.1:18562 --noreload"):
        said = run(project, command, f"{{'AUTHENTICATON': {KEYS}}}")
        assert "E001" in said
        assert "Did you mean 'AUTHENTICATION'?" in said


def test_a_site_with_users_of_another_kind_than_djangos_is_told_what_is_missing(project: Path) -> None:
    without = "django.contrib.admin django.contrib.auth django.contrib.contenttypes"
    for command in ("check", "migrate"):
        said = run(project, command, f"{{'AUTHENTICATION': {KEYS}}}", WITHOUT=without)
        assert "Traceback" not in said
        for name in without.split()[1:]:
            assert f"(django_mcp.E013) '{name}' is not in INSTALLED_APPS, but django_mcp needs it." in said


def test_it_is_said_although_the_urls_cannot_be_imported(project: Path) -> None:
    said = run(project, "check", f"{{'AUTHENTICATON': {KEYS}}}", BROKEN="yes")
    assert "No module named 'no_such_module'" in said
    assert "django_mcp.E001: DJANGO_MCP has no key 'AUTHENTICATON'. Did you mean 'AUTHENTICATION'?" in said
