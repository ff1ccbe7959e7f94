"""No database is called ``default``, as Django's documentation has it for routers."""

from typing import Any

from tests.sites.base import *  # noqa: F403
from tests.sites.base import sqlite

DATABASES = {"default": {}, "main": sqlite("main")}
DATABASE_ROUTERS = ["tests.sites.no_default.Router"]
MIGRATED = ["main"]


class Router:
    def db_for_read(self, model: Any, **hints: Any) -> str:
        return "main"

    def db_for_write(self, model: Any, **hints: Any) -> str:
        return "main"

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool:
        return db == "main"
