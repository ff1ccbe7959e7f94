"""Authentication by the tokens of the scope challenge scenario, and the scopes that they are for."""

from collections.abc import Sequence

from django.conf import settings
from django.contrib.auth.models import AnonymousUser

from django_mcp import MCPServer, Principal
from django_mcp.auth.base import BaseAuthentication, RequestHead, bearer
from tests.conformance.scopes import TOKENS


def required(scopes: Sequence[str]) -> Sequence[str]:
    """Return *scopes* at the site that the suite is run against. Other sites with these fixtures declare no scopes."""
    return scopes if settings.CONFORMANCE_URL else ()


class ScopeTokens(BaseAuthentication):
    """Recognises the two tokens; everyone else is left to the next class, and so needs no scopes."""

    blocking = False

    def authenticate(self, head: RequestHead, server: MCPServer) -> Principal | None:
        """Return the caller with the scopes of the token."""
        token = bearer(head.headers)
        if token is None or token not in TOKENS:
            return None
        scopes = frozenset(TOKENS[token])
        return Principal(kind="scoped", id=token, user=AnonymousUser(), scopes=scopes, steps_up=True)

    def authorization_servers(self, server: MCPServer) -> Sequence[str]:
        """Return an issuer that no scenario visits, so that challenges name the endpoint's metadata."""
        return ["https://auth.example.com"]
