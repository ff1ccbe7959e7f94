"""MariaDB or MySQL, where one listens on this machine."""

import os

import pymysql

from tests.sites.base import *  # noqa: F403

pymysql.version_info = (2, 2, 1, "final", 0)  # which Django asks of mysqlclient
pymysql.install_as_MySQLdb()

_NAME = f"site_{os.getpid()}"
_SERVER = {"host": os.environ.get("MYSQL_HOST", "127.0.0.1"), "user": "root", "password": ""}
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.mysql",
        "NAME": _NAME,
        "USER": _SERVER["user"],
        "PASSWORD": _SERVER["password"],
        "HOST": _SERVER["host"],
        "OPTIONS": {"charset": "utf8mb4"},
    }
}


def _run(statement: str) -> None:
    connection = pymysql.connect(**_SERVER)
    with connection, connection.cursor() as cursor:
        cursor.execute(statement)


def prepare() -> None:
    _run(f"CREATE DATABASE {_NAME} CHARACTER SET utf8mb4")


def finish() -> None:
    _run(f"DROP DATABASE IF EXISTS {_NAME}")
