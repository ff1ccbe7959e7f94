"""Makes the database of the benchmarked site: its tables, a caller with keys, a session, and a decision about a tool.

Runs as a process of its own, with the site's settings: ``python -m benchmarks.prepare``.
"""

import datetime as dt
import hashlib

import django
from django.core.management import call_command

from benchmarks.credentials import KEYS, SESSION
from benchmarks.shapes import LEGACY


def prepare() -> None:
    """Make all of it, in the database that is there and empty."""
    django.setup()
    call_command("migrate", verbosity=0)
    from django.contrib.auth.models import User  # noqa: PLC0415 - when the apps are there
    from django.utils import timezone  # noqa: PLC0415

    from django_mcp.auth.api_keys import hash_of  # noqa: PLC0415
    from django_mcp.models import APIKey, Session, ToolPolicy  # noqa: PLC0415

    tomorrow = timezone.now() + dt.timedelta(days=1)
    user = User.objects.create_user("load")
    key, *_ = [
        APIKey.objects.create(
            key_hash=hash_of(each), prefix=each[:12], name="load", user=user, endpoints=["full"], expires=tomorrow
        )
        for each in KEYS
    ]
    Session.objects.create(
        key=hashlib.sha256(SESSION.encode()).hexdigest(),
        server="full",
        principal_kind="api_key",
        principal_id=str(key.pk),
        version=LEGACY,
        client={"name": "bench", "version": "1"},
        expires=tomorrow,
    )
    ToolPolicy.objects.create(server="full", tool="add", decision="allow")


if __name__ == "__main__":
    prepare()
