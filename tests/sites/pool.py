"""psycopg's pool, with fewer connections than callers."""

from tests.sites.postgresql import *  # noqa: F403
from tests.sites.postgresql import DATABASES

DATABASES["default"]["OPTIONS"] = {"pool": {"min_size": 1, "max_size": 4, "timeout": 5}}
