"""Networks of callers: rate limits, and client ids that tell them apart."""

import ipaddress
import secrets
from collections.abc import Mapping
from typing import NamedTuple

from django.utils.crypto import salted_hmac

from django_mcp.core.request import Address, address_of
from django_mcp.core.throttling import make_throttle
from django_mcp.oauth.cleanup import PREFIXES
from django_mcp.primitives.base import Rate

HOSTED_CLIENTS = (ipaddress.ip_network("160.79.104.0/21"),)
"""Networks that call for many users: Anthropic's published outbound addresses."""
HOSTED_TIMES = 20
"""Factor by which rate limits are raised for ``HOSTED_CLIENTS``."""


class Network(NamedTuple):
    """Whom a rate limit counts.

    Attributes:
        name: an address, a network, or "?" if the address is unknown.
        times: factor by which the limit is raised.
    """

    name: str
    times: int = 1


def networks_of(meta: Mapping[str, object]) -> tuple[Network, ...]:
    """Return the address of a request and the networks that one customer may have, the narrowest first.

    A customer has an IPv4 address, or an IPv6 network of /64, /56 or /48 (RFC 6177), and so thousands of /64s.

    Args:
        meta: ``request.META``.
    """
    address = address_of(meta)
    if address is None:
        return (Network("?"),)
    if isinstance(address, ipaddress.IPv6Address):
        return tuple(Network(_network(address, size), times) for size, times in ((64, 1), (56, 2), (48, 4)))
    times = HOSTED_TIMES if any(address in network for network in HOSTED_CLIENTS) else 1
    return (Network(str(address), times),)


def seconds_to_wait(scope: str, rate: Rate | None, meta: Mapping[str, object]) -> int | None:
    """Count a request for its address and networks. Return the seconds to wait if one has reached its limit.

    A refused request does not count for the wider networks, so no part of a network can use up the share of the others.
    """
    for network in networks_of(meta):
        throttle = make_throttle(scope, rate and rate._replace(most=rate.most * network.times))
        if not throttle.allow_request(network.name):
            return throttle.wait()
    return None


def _network(address: Address, size: int) -> str:
    kind = ipaddress.IPv6Network if isinstance(address, ipaddress.IPv6Address) else ipaddress.IPv4Network
    return str(kind((int(address), size), strict=False))


def new_client_id(meta: Mapping[str, object]) -> str:
    """Return a random client id that begins with a tag of the sender's networks, so that ``make_room`` can share.

    The tag is keyed, so it reveals no address; after a change of ``SECRET_KEY`` old clients count as of other networks.
    """
    address = address_of(meta)
    sizes = (32, 48, 64) if isinstance(address, ipaddress.IPv6Address) else (16, 24, 32)
    names = ["?" if address is None else _network(address, size) for size in sizes]
    tag = "".join(salted_hmac("django_mcp.oauth.networks", name).hexdigest()[: PREFIXES[0]] for name in names)
    return f"{tag}-{secrets.token_urlsafe(24)}"
