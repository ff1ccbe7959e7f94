"""The shared settings; django-stateless-mcp needs its app only to find modules named mcp."""

from benchmarks.peers.settings import *  # noqa: F403

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
]
ROOT_URLCONF = "benchmarks.peers.stateless.urls"
