"""Settings of the benchmarked site without Django's admin, so that what its pages need is not imported."""

from benchmarks.startup.endpoint import *  # noqa: F403
from benchmarks.startup.endpoint import INSTALLED_APPS as OF_THE_BENCHMARK

INSTALLED_APPS = [app for app in OF_THE_BENCHMARK if app != "django.contrib.admin"]
ROOT_URLCONF = "django_mcp.urls"
