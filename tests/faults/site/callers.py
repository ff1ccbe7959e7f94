"""Who calls is what a header says. It proves nothing, and needs no password either."""

from django_mcp import Authenticator, Head
from django_mcp.core.principal import Principal


class ByHeader(Authenticator):
    """Recognises everybody by the name in ``X-User``."""

    blocking = False

    def authenticate(self, head: Head, server: object) -> Principal | None:
        name = head.headers.get("x-user")
        return None if name is None else Principal(kind="header", id=name, user=None)
