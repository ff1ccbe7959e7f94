"""Who calls is what a header says. It proves nothing, and needs no password either."""

from collections.abc import Mapping

from django_mcp.core.principal import Principal


class ByHeader:
    """Recognises everybody by the name in ``X-User``."""

    blocking = False

    def authenticate(self, headers: Mapping[str, str]) -> Principal | None:
        name = headers.get("x-user")
        return None if name is None else Principal(kind="header", id=name, user=None)
