"""``USE_TZ = False``, in a zone that is not UTC."""

from tests.sites.base import *  # noqa: F403

USE_TZ = False
TIME_ZONE = "America/Chicago"
