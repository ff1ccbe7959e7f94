"""The demo's settings with another theme of the admin."""

from demo_project.settings import *  # noqa: F403 - whatever there is
from demo_project.settings import INSTALLED_APPS

INSTALLED_APPS = ["unfold", *INSTALLED_APPS]
ALLOWED_HOSTS = ["*"]
