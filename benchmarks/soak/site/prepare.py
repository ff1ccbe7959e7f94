"""Makes the database of the soaked site: tables, and a caller with a key.

Runs as a process of its own, with the site's settings: ``python -m benchmarks.soak.site.prepare``.
"""

import datetime as dt

import django
from django.core.management import call_command

from benchmarks.credentials import KEY


def prepare() -> None:
    """Make all of it, in the database that is there and empty."""
    django.setup()
    call_command("migrate", verbosity=0, run_syncdb=True)  # the site's own app has no migrations
    from django.contrib.auth.models import User  # noqa: PLC0415 - when the apps are there
    from django.utils import timezone  # noqa: PLC0415

    from django_mcp.auth.api_keys import hash_of  # noqa: PLC0415
    from django_mcp.models import APIKey  # noqa: PLC0415

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
