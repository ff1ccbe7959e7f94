"""The primary and replica of Django's documentation; the replica has nothing of what was written since the start."""

import shutil
from typing import Any

from tests.sites.base import *  # noqa: F403
from tests.sites.base import FOLDER, sqlite

DATABASES = {"default": {}, "primary": sqlite("primary"), "replica": sqlite("replica")}
DATABASE_ROUTERS = ["tests.sites.replica.PrimaryReplicaRouter"]
MIGRATED = ["primary"]
SILENCED_SYSTEM_CHECKS = ["django_mcp.W036"]  # it warns of just what is tried here


class PrimaryReplicaRouter:
    def db_for_read(self, model: Any, **hints: Any) -> str:
        """Return where the site reads; its own tables are in both."""
        return "primary" if model._meta.app_label in {"shop", "sessions"} else "replica"

    def db_for_write(self, model: Any, **hints: Any) -> str:
        return "primary"

    def allow_relation(self, *objects: Any, **hints: Any) -> bool:
        return True

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool:
        return True


def populated() -> None:
    """Copy what there is by now, with the users, and nothing after that."""
    from django.db import connections

    with connections["primary"].cursor() as cursor:
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copy(FOLDER / "primary.sqlite3", FOLDER / "replica.sqlite3")
