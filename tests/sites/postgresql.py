"""A PostgreSQL database of its own, which other sites here use in other ways."""

import os
from urllib.parse import urlsplit

import psycopg

from tests.sites.base import *  # noqa: F403

_URL = os.environ["DATABASE_URL"]
_PARTS = urlsplit(_URL)
_NAME = f"site_{os.getpid()}"
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": _NAME,
        "USER": _PARTS.username,
        "PASSWORD": _PARTS.password,
        "HOST": _PARTS.hostname,
        "PORT": _PARTS.port,
    }
}


def prepare() -> None:
    with psycopg.connect(_URL, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{_NAME}"')


def finish() -> None:
    with psycopg.connect(_URL, autocommit=True) as connection:
        connection.execute(f'DROP DATABASE IF EXISTS "{_NAME}" WITH (FORCE)')
