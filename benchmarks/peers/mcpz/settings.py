"""The shared settings; django-mcpz needs no app where it needs no authentication."""

from benchmarks.peers.settings import *  # noqa: F403

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
]
ROOT_URLCONF = "benchmarks.peers.mcpz.urls"
