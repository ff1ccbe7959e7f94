"""The site is below a path of its host (``FORCE_SCRIPT_NAME``), which its proxy takes away."""

from tests.sites.base import *  # noqa: F403

FORCE_SCRIPT_NAME = BELOW = "/shop"
