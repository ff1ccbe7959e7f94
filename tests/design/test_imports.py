"""What importing the package brings with it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.design.sources import ROOT

THIRD_PARTY = {
    "annotated_types",
    "asgiref",
    "attr",  # docstring_parser looks whether it is there
    "django",
    "django_mcp",
    "docstring_parser",
    "pydantic",
    "pydantic_core",
    "sqlparse",
    "typing_extensions",
    "typing_inspection",
}

PROGRAM = """
import json, sys
before = set(sys.modules)
{statements}
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def imported_by(statements: str) -> set[str]:
    """The modules a fresh process has after *statements* that it had not before."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM.format(statements=statements)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.slow
def test_the_package_can_be_imported_before_django_is_set_up_and_brings_only_what_it_depends_on() -> None:
    imported = imported_by("import django_mcp")
    roots = {name.partition(".")[0] for name in imported}
    assert {name for name in roots if name not in sys.stdlib_module_names and not name.startswith("_")} <= THIRD_PARTY
    assert imported.isdisjoint({"django.contrib.admin", "django.contrib.auth"})


@pytest.mark.slow
def test_a_site_that_is_set_up_has_not_imported_the_official_implementation() -> None:
    setup = "import os\nos.environ['DJANGO_SETTINGS_MODULE'] = 'tests.settings'\nimport django\ndjango.setup()"
    modules = imported_by(f"{setup}\nimport django_mcp.asgi, django_mcp.urls")
    assert "django_mcp.core.dispatch" in modules
    assert not {name for name in modules if name.partition(".")[0] in {"mcp", "mcp_types"}}


NAMES = (
    "import django_mcp\n"
    "for name in django_mcp.__all__: getattr(django_mcp, name)\n"
    "DJANGO_MCP = {'AUTHENTICATION': [django_mcp.AllowAny()], 'BASE_URL': "
    "'https://travel.example', 'RATE_LIMIT': '60/m'}"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "lines",
    [
        NAMES,
        "from django_mcp.oauth import oauth_defaults\nOAUTH2_PROVIDER = oauth_defaults({'BASE_URL': 'https://a.example'})",
    ],
)
def test_a_settings_file_can_import_it_without_settings_being_asked_for(tmp_path: Path, lines: str) -> None:
    """Whoever asks meanwhile makes Django take the file as it is by then: half of it."""
    words = (
        "from django.conf import settings\nassert not settings.configured, 'asked for'\nINSTALLED_APPS = ['django_mcp']"
    )
    (tmp_path / "half_read.py").write_text(f"{lines}\n{words}\n")
    done = subprocess.run(
        [sys.executable, "-c", "from django.conf import settings; print(settings.INSTALLED_APPS)"],
        cwd=ROOT,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "half_read", "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "['django_mcp']\n"


@pytest.mark.slow
def test_asgi_py_may_import_the_endpoint_before_django_is_set_up() -> None:
    """Tools that sort imports put it above the call of ``get_asgi_application()``."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            (
                "from django_mcp.asgi import mcp_application\n"
                "from django.core.asgi import get_asgi_application\n"
                "print(type(mcp_application(get_asgi_application())).__name__)"
            ),
        ],
        cwd=ROOT.parent,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "MCPApplication\n"
