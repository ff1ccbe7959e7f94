"""As ``startproject`` makes it."""

from tests.sites.base import *  # noqa: F403
