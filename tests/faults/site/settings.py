"""The conformance site's settings, with callers that can be told apart.

Environment variables besides those of the conformance site:

``FAULTS_JOURNAL``
    the file in which tools write down what they do.
``FAULTS_KEEP_ALIVE``
    ``KEEP_ALIVE_INTERVAL``, as it is where they are not given.
``FAULTS_LOG``
    "off" for no log of calls.
"""

import os

from tests.conformance.settings import *  # noqa: F403

INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "django_mcp", "tests.faults.site"]
ASGI_APPLICATION = "tests.faults.site.asgi.application"
DJANGO_MCP = {"AUTHENTICATION": ["tests.faults.site.callers.ByHeader"], "NAME": "faults"}
if seconds := os.environ.get("FAULTS_KEEP_ALIVE"):
    DJANGO_MCP["KEEP_ALIVE_INTERVAL"] = float(seconds)
DJANGO_MCP["LOG_REQUESTS"] = os.environ.get("FAULTS_LOG") != "off"
