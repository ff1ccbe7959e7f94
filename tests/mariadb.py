"""A site's database on MariaDB or MySQL, through a driver in Python."""

from urllib.parse import unquote, urlsplit

import pymysql

pymysql.version_info = (2, 2, 1, "final", 0)  # which Django asks of mysqlclient
pymysql.install_as_MySQLdb()


def mariadb(url: str) -> dict[str, object]:
    """The database of ``mysql://user:password@host:port/name``."""
    parts = urlsplit(url)
    return {
        "ENGINE": "django.db.backends.mysql",
        "NAME": unquote(parts.path.lstrip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": parts.hostname or "",
        "PORT": str(parts.port or ""),
        "OPTIONS": {"charset": "utf8mb4"},
    }
