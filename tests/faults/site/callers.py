"""Who calls is what a header says. It proves nothing, and needs no password either."""

from django_mcp import BaseAuthentication, RequestHead
from django_mcp.core.principal import Principal


class ByHeader(BaseAuthentication):
    """Recognises everybody by the name in ``X-User``."""

    blocking = False

    def authenticate(self, head: RequestHead, server: object) -> Principal | None:
        name = head.headers.get("x-user")
        return None if name is None else Principal(kind="header", id=name, user=None)
