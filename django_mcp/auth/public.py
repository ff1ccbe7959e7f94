"""Everybody may call."""

from collections.abc import Mapping
from functools import cached_property

from django.apps import apps

from django_mcp.core.principal import Principal


class Public:
    """Lets everybody in, as ``AnonymousUser``.

    For endpoints that offer nothing anybody may not have, and for servers that only this machine can reach.
    """

    blocking = False

    @cached_property
    def _everybody(self) -> Principal:
        user = None
        if apps.is_installed("django.contrib.auth"):
            from django.contrib.auth.models import AnonymousUser  # noqa: PLC0415 - needs the app registry

            user = AnonymousUser()
        return Principal(kind="public", id="public", user=user)

    def authenticate(self, headers: Mapping[str, str]) -> Principal:  # noqa: ARG002
        """The same principal for every request."""
        return self._everybody
