"""Makes the database of the soaked site: tables, a caller with a key, and who approves.

Runs as a process of its own, with the site's settings: ``python -m benchmarks.soak.site.prepare``.
"""

import datetime as dt
import os

import django
from django.core.management import call_command
from django.db import connection

from benchmarks.credentials import KEY


def prepare() -> None:
    """Make all of it, in the database that is there and empty."""
    django.setup()
    if directory := os.environ.get("SOAK_TABLESPACE"):
        # Before the tables are made: what is on the small disk are rows and indexes, and not the write-ahead log, whose
        # end would be the end of the server.
        connection.cursor().execute(f"CREATE TABLESPACE small LOCATION '{directory}'")
        connection.cursor().execute("ALTER DATABASE postgres SET default_tablespace = small")
        connection.close()
    call_command("migrate", verbosity=0, run_syncdb=True)  # the site's own app has no migrations
    from django.contrib.auth.models import User  # noqa: PLC0415 - when the apps are there
    from django.utils import timezone  # noqa: PLC0415

    from django_mcp.auth.api_keys import hash_of  # noqa: PLC0415
    from django_mcp.models import APIKey  # noqa: PLC0415

    User.objects.create_superuser("approver")
    APIKey.objects.create(
        key_hash=hash_of(KEY),
        prefix=KEY[:12],
        name="soak",
        user=User.objects.create_user("soak"),
        endpoints=["soak"],
        expires=timezone.now() + dt.timedelta(days=1),
    )


if __name__ == "__main__":
    prepare()
