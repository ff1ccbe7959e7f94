"""The demo's database with its sample data, made once and copied by all tests that begin with it."""

from pathlib import Path

from benchmarks.process import run_to_end
from tests.conformance.prepared import prepare

FILL = """
import django; django.setup()
from django.core.management import call_command
call_command("migrate", verbosity=0)
call_command("load_travel", verbosity=0)
"""


def copy_demo(file: Path) -> None:
    """Make *file* a SQLite database with the demo's tables, sample data and sample users."""
    own = {"DJANGO_SETTINGS_MODULE": "demo_project.settings", "DATABASE_URL": "", "DEBUG": "0"}
    prepare(file, "demo", lambda fresh: run_to_end("-c", FILL, environment={**own, "DEMO_DATABASE": str(fresh)}))
