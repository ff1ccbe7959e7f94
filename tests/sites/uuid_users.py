"""Users have a UUID for a key, and no user name."""

from tests.sites.base import *  # noqa: F403
from tests.sites.base import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.sites.people"]
AUTH_USER_MODEL = "people.Person"
