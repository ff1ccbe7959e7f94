"""Which address a request came from, for limits by address."""

import ipaddress
from collections.abc import Mapping
from typing import NamedTuple

from django_mcp.core.request import Address, address_of

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
        meta: ``request.META``; see ``core.addresses``.
    """
    address = address_of(meta)
    return Caller("?") if address is None else _caller(address)


def _caller(address: Address) -> Caller:
    if isinstance(address, ipaddress.IPv6Address):
        return Caller(str(ipaddress.ip_network((int(address), 64), strict=False)))
    times = HOSTED_TIMES if any(address in network for network in HOSTED_CLIENTS) else 1
    return Caller(str(address), times)
