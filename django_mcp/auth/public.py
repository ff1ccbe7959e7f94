"""Everybody may call."""

from functools import cached_property

from django_mcp.auth.base import Authenticator, Head
from django_mcp.core.principal import Principal
from django_mcp.core.server import MCPServer


class Public(Authenticator):
    """Lets everybody in, as ``AnonymousUser``.

    For endpoints that offer nothing anybody may not have, and for servers that only this machine can reach.
    """

    blocking = False

    @cached_property
    def everybody(self) -> Principal:
        """Who everybody is."""
        from django.contrib.auth.models import AnonymousUser  # noqa: PLC0415 - needs the app registry

        return Principal(kind="public", id="public", user=AnonymousUser())

    def authenticate(self, head: Head, server: MCPServer) -> Principal:  # noqa: ARG002
        """The same principal for every request."""
        return self.everybody
