"""``ATOMIC_REQUESTS``."""

from tests.sites.base import *  # noqa: F403
from tests.sites.base import DATABASES

DATABASES["default"]["ATOMIC_REQUESTS"] = True
