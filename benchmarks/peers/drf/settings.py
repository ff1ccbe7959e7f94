"""The shared settings, with Django REST framework."""

from benchmarks.peers.settings import *  # noqa: F403

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "rest_framework",
]
ROOT_URLCONF = "benchmarks.peers.drf.urls"
