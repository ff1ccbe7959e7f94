"""Which address a request came from, and which host it was sent to."""

import ipaddress
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Protocol

from django.conf import settings as django_settings

from django_mcp.conf import settings

_PORT = re.compile(r":\d*\Z")
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Meta(Protocol):
    """``request.META``, or as much of it as is needed here."""

    def get(self, name: str, /) -> Any:
        """The value of a key; None where there is none."""


def address_at(edge: Callable[[], Any]) -> Address | None:
    """The client's address, without making a Django request where the edge can do without.

    Args:
        edge: gives a Django request. It may have ``meta``, which is as good as that of the request.
    """
    meta = getattr(edge, "meta", None)
    return address_of(edge().META if meta is None else meta)


def address_of(meta: Meta) -> Address | None:
    """The client's address; None where the server does not know.

    Args:
        meta: ``request.META``. The address is ``REMOTE_ADDR``, or what ``DJANGO_MCP["CLIENT_ADDRESS_HEADER"]`` says;
            of a list, its last entry, which the site's own proxy wrote.
    """
    for value in (_header(meta), meta.get("REMOTE_ADDR")):
        if value and (address := _address(str(value))) is not None:
            return address
    return None


def host_of(meta: Meta) -> str:
    """The host a request was sent to, without its port: a tenant may be one. "" over standard input and output.

    Args:
        meta: ``request.META``, of which a task keeps what is read here.
    """
    forwarded = meta.get("HTTP_X_FORWARDED_HOST") if django_settings.USE_X_FORWARDED_HOST else None
    return _PORT.sub("", str(forwarded or meta.get("HTTP_HOST") or "").lower()).removesuffix(".")


@lru_cache(1024)
def _address(text: str) -> Address | None:
    try:
        address = ipaddress.ip_address(text.strip().strip("[]"))
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _header(meta: Meta) -> str:
    name = settings.CLIENT_ADDRESS_HEADER
    if name is None:
        return ""
    return str(meta.get(f"HTTP_{name.upper().replace('-', '_')}") or "").rpartition(",")[2]
