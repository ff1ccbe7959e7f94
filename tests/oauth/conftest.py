"""Fixtures of the authorization server's tests."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.hashers import MD5PasswordHasher
from django.core.cache import cache

from django_mcp import MCPServer
from tests.oauth.site import Site, forget_urlconfs, make_site


@pytest.fixture(autouse=True)
def empty_cache() -> None:
    """Forget what other tests have counted."""
    cache.clear()


@pytest.fixture
def site(settings: Any, make_server: Callable[..., MCPServer], db: None) -> Iterator[Site]:
    """A site in a transaction that is undone after the test."""
    yield make_site(settings, make_server)
    forget_urlconfs()


@pytest.fixture
def live_site(settings: Any, make_server: Callable[..., MCPServer], transactional_db: None) -> Iterator[Site]:
    """The same in a database that other threads see too."""
    yield make_site(settings, make_server)
    forget_urlconfs()


class CountingHasher(MD5PasswordHasher):
    """Stands for the slow hashes of a site."""

    algorithm = "counting"
    passwords: list[str]

    def encode(self, password: str, salt: str) -> str:
        self.passwords.append(password)
        return super().encode(password, salt)


@pytest.fixture
def hashed(settings: Any) -> list[str]:
    """What has been hashed slowly."""
    CountingHasher.passwords = []
    settings.PASSWORD_HASHERS = [f"{__name__}.CountingHasher", *settings.PASSWORD_HASHERS]
    return CountingHasher.passwords
