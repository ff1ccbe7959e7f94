"""Connections are kept for ever (``CONN_MAX_AGE = None``), with health checks."""

from tests.sites.postgresql import *  # noqa: F403
from tests.sites.postgresql import DATABASES

DATABASES["default"] |= {"CONN_MAX_AGE": None, "CONN_HEALTH_CHECKS": True}
