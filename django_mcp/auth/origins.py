"""The site's own origin, which is the one its pages have (RFC 6454)."""

from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings as django_settings
from django.core.signals import setting_changed

from django_mcp.auth.identifiers import canonical
from django_mcp.conf import settings

_THIS_MACHINE = ("localhost", "127.0.0.1", "[::1]")


@lru_cache(maxsize=1024)
def is_own_origin(origin: str, host: str, *, secure: bool) -> bool:
    """Whether *origin* is that of the site itself, as ``BASE_URL`` says.

    Only where there is no ``BASE_URL`` is it compared with the request. Host and Origin agree in an attack by DNS
    rebinding too, so the Host must then be one that ``ALLOWED_HOSTS`` names.

    Args:
        origin: the Origin header.
        host: host and port of the request, of which the caller has seen that ``ALLOWED_HOSTS`` allows them.
        secure: whether the request came over https.
    """
    if settings.BASE_URL:
        return origin in own_origins(settings.BASE_URL)
    # With "*" in ALLOWED_HOSTS any name may be in the Host header, so it vouches for nothing.
    if "*" in django_settings.ALLOWED_HOSTS or not host:
        return False
    return origin == f"{'https' if secure else 'http'}://{host}"


def own_origins(base_url: str) -> frozenset[str]:
    """The origin of *base_url* as browsers write it; of a site on this machine, by each of the machine's names."""
    try:
        parts = urlsplit(canonical(base_url))
    except ValueError:
        return frozenset()
    port = f":{parts.port}" if parts.port else ""
    given = parts.netloc.removesuffix(port)
    names = _THIS_MACHINE if given in _THIS_MACHINE else (given,)
    return frozenset(f"{parts.scheme}://{name}{port}" for name in names)


def _forget(*, setting: str, **_: Any) -> None:
    if setting in {"ALLOWED_HOSTS", "DJANGO_MCP"}:
        is_own_origin.cache_clear()


setting_changed.connect(_forget, dispatch_uid="django_mcp.auth.origins")
