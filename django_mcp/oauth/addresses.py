"""Which address a request came from, for limits by address."""

import ipaddress
from collections.abc import Mapping
from typing import NamedTuple

from django_mcp.conf import settings

HOSTED_CLIENTS = (ipaddress.ip_network("160.79.104.0/21"),)
"""Where hosted clients call from for all their users: Anthropic's published outbound addresses."""

HOSTED_TIMES = 20
"""How many times as often as others these may do something."""


class Caller(NamedTuple):
    """Whom a limit by address counts.

    Attributes:
        name: an IPv4 address, an IPv6 network of 64 bits, which is what one customer has, or "?" where the server does
            not know.
        times: by how much the limit is multiplied.
    """

    name: str
    times: int = 1


def caller(meta: Mapping[str, object]) -> Caller:
    """Who sent a request.

    Args:
        meta: ``request.META``. The address is ``REMOTE_ADDR``, or what ``DJANGO_MCP["CLIENT_ADDRESS_HEADER"]`` says;
            of a list, its last entry, which the site's own proxy wrote.
    """
    for value in (_header(meta), meta.get("REMOTE_ADDR")):
        try:
            address = ipaddress.ip_address(str(value or "").strip().strip("[]"))
        except ValueError:
            continue
        return _caller(address)
    return Caller("?")


def _header(meta: Mapping[str, object]) -> str:
    name = settings.CLIENT_ADDRESS_HEADER
    if name is None:
        return ""
    return str(meta.get(f"HTTP_{name.upper().replace('-', '_')}") or "").rpartition(",")[2]


def _caller(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> Caller:
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is None:
            return Caller(str(ipaddress.ip_network((int(address), 64), strict=False)))
        address = address.ipv4_mapped
    times = HOSTED_TIMES if any(address in network for network in HOSTED_CLIENTS) else 1
    return Caller(str(address), times)
