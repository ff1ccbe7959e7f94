"""The ``DJANGO_MCP`` setting, read once into a frozen object.

What belongs to one endpoint is an argument of ``MCPServer``; here is what belongs to the site, and the defaults.
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, cast

from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed

from django_mcp.version import __version__


@dataclass(frozen=True, slots=True)
class Settings:
    """Keys of ``DJANGO_MCP`` and what they are when not given."""

    AUTHENTICATION: tuple[Any, ...] = ()
    """Authenticators of the endpoints that name none: objects or dotted paths. Empty: they do not start."""
    NAME: str | None = None
    """``serverInfo.name`` of the default endpoint."""
    TITLE: str | None = None
    """Its title."""
    VERSION: str = __version__
    """``serverInfo.version``: put your site's version here."""
    INSTRUCTIONS: str | None = None
    """For models: what the default endpoint is for."""
    ALLOWED_ORIGINS: tuple[str, ...] = ()
    """Origins of browser clients, like ``"https://inspector.example.com"``. The site's own is always allowed."""
    MAX_BODY_BYTES: int = 4 * 1024 * 1024
    """The largest request body that is read."""
    THREADS: int = 8
    """Worker threads for synchronous code at the ASGI edge, per process; each may hold a database connection."""
    RATE_LIMIT: str | None = None
    """How often a caller may call tools, like ``"60/m"``; counted in Django's default cache."""
    SESSION_SECONDS: int = 24 * 60 * 60
    """How long a session lives after it was last used."""
    INPUT_SECONDS: int = 60 * 60
    """How long a question waits for its answer, and a stream for a client that lost it."""
    POLL_SECONDS: float = 0.5
    """How often a process with open streams looks into the log where no shared channel layer rings the bell."""
    KEEP_ALIVE_SECONDS: float = 15.0
    """How often an idle stream sends a comment, so that proxies keep it open."""
    HTTP_SSE: bool = False
    """Serve clients of the HTTP+SSE transport, which Streamable HTTP replaced, beside each endpoint."""


KEYS = tuple(field.name for field in fields(Settings))


def given() -> Mapping[str, Any]:
    """The dict as the site wrote it."""
    value = getattr(django_settings, "DJANGO_MCP", {})
    if not isinstance(value, Mapping):
        msg = f"DJANGO_MCP must be a dict, not {type(value).__name__}."
        raise ImproperlyConfigured(msg)
    return value


def problems() -> list[str]:
    """What is wrong with the values, a sentence each."""
    found = []
    for field in fields(Settings):
        value = given().get(field.name, field.default)
        if isinstance(field.default, tuple):
            right, wanted = isinstance(value, list | tuple), "a list"
        elif isinstance(field.default, bool):
            right, wanted = isinstance(value, bool), "True or False"
        elif isinstance(field.default, int):
            right, wanted = type(value) is int and value > 0, "a positive integer"
        elif isinstance(field.default, float):
            right, wanted = type(value) in {int, float} and value > 0, "a positive number"
        else:
            right, wanted = isinstance(value, str) or value is field.default, "a string"
        if not right:
            found.append(f"DJANGO_MCP[{field.name!r}] must be {wanted}, not {value!r}.")
    return found


def misspelt() -> dict[str, str | None]:
    """Keys nobody reads, each with the key that was probably meant."""
    return {
        key: next(iter(difflib.get_close_matches(str(key).upper(), KEYS, n=1)), None)
        for key in given()
        if key not in KEYS
    }


def _read() -> Settings:
    if wrong := problems():
        raise ImproperlyConfigured(" ".join(wrong))
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in given().items() if key in KEYS
    }
    return Settings(**values)


class _LazySettings:
    """Reads the setting when a key is first asked for; from then on keys are attributes like any other.

    Several are looked at in every request, where a ``LazyObject`` would cost more than the rest of the check.
    """

    def __getattr__(self, key: str) -> Any:
        if key not in KEYS:
            raise AttributeError(key)
        read = _read()
        vars(self).update({each: getattr(read, each) for each in KEYS})
        return vars(self)[key]


settings = cast("Settings", _LazySettings())


def _forget(*, setting: str, **_: Any) -> None:
    if setting == "DJANGO_MCP":
        vars(settings).clear()


setting_changed.connect(_forget, dispatch_uid="django_mcp.conf")
