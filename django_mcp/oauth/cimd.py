"""Client ID metadata documents (draft-ietf-oauth-client-id-metadata-document-01): fetching and validation.

Against DNS rebinding, the host is resolved once and the connection goes to a checked address. ``core.http_client``
follows no redirects. The toolkit decides when to fetch, caches, and backs off after failures.
"""

import ipaddress
import logging
import re
import socket
import ssl
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import SplitResult, urlsplit

from django_mcp.auth.toolkit import CIMDError, SafeMetadataFetcher, get_application_model, oauth2_settings
from django_mcp.conf import settings
from django_mcp.core.http_client import send
from django_mcp.core.throttling import make_throttle
from django_mcp.oauth.cleanup import make_room
from django_mcp.oauth.register import MOST, InvalidMetadata, address_throttle, caller, grants_of, name_of, redirects_of
from django_mcp.primitives.base import Rate

_INSIDE_IPV4 = [
    ipaddress.ip_network(each)
    for each in (
        "192.0.0.0/24",  # IETF protocol assignments
        "192.88.99.0/24",  # 6to4 relays
    )
]
_UNICAST = ipaddress.ip_network("2000::/3")
"""Global unicast IPv6. The rest is special, including forms of IPv4 addresses (``::/96``, ``::ffff:0:0/96``, NAT64's
``64:ff9b::/96`` and ``64:ff9b:1::/48``).
"""

_INSIDE_IPV6 = [
    ipaddress.ip_network(each)
    for each in (
        "2001::/23",  # IETF protocol assignments, including Teredo
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4
        "3fff::/20",  # documentation
    )
]


def is_public(address: str) -> bool:
    """Return True for an IP address of the public internet.

    ``is_global`` in Python 3.11 includes multicast, IPv4-compatible, NAT64, 6to4 and unassigned IPv6 addresses.
    """
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    if not found.is_global or found.is_multicast:
        return False
    if isinstance(found, ipaddress.IPv4Address):
        return not any(found in network for network in _INSIDE_IPV4)
    return found in _UNICAST and not any(found in network for network in _INSIDE_IPV6)


logger = logging.getLogger("django_mcp")

LONGEST = 255
"""Length of the client id column."""

ACCEPT = {"Accept": "application/json, application/*+json"}

_URL = re.compile(r"[!-~]+")


class MetadataFetcher(SafeMetadataFetcher):  # type: ignore[misc]
    """Fetches documents and reduces them to supported metadata."""

    def fetch(self, client_id: str) -> tuple[dict[str, Any], int]:
        """Return the document and its lifetime in seconds.

        Blocks for up to ``CIMD_FETCH_TIMEOUT_SECONDS``, plus the DNS lookup.

        Raises:
            CIMDError: there is no usable document.
        """
        try:
            url = checked(client_id)
            document, age = self._download(url, self.addresses(str(url.hostname), url.port or 443))
            return normalised(document), age
        except (InvalidMetadata, CIMDError) as error:
            # The client only gets "Invalid client_id": the reason could reveal what this site can reach.
            logger.warning("The document of client %r cannot be used: %s", client_id[:LONGEST], error)
            raise CIMDError(str(error)) from None

    def addresses(self, host: str, port: int) -> list[str]:
        """Resolve a host. Blocks.

        Raises:
            CIMDError: it has no address, or one that is not public.
        """
        try:
            answers = socket.getaddrinfo(host, port, proto=socket.IPPROTO_TCP)
        except (OSError, UnicodeError) as error:
            raise CIMDError(f"{host!r} has no address: {error}") from None
        found = list(dict.fromkeys(str(answer[4][0]) for answer in answers))
        if not all(map(is_public, found)):
            raise CIMDError("the host has an address that is not public")
        return found

    def context(self) -> ssl.SSLContext:
        """Return a TLS context that trusts the system's certificates."""
        return ssl.create_default_context()

    def _download(self, url: SplitResult, addresses: Sequence[str]) -> tuple[dict[str, Any], int]:
        deadline = time.monotonic() + oauth2_settings.CIMD_FETCH_TIMEOUT_SECONDS
        get, failure = partial(send, "GET", url.geturl(), ACCEPT, ssl_context=self.context()), "no address"
        for address in addresses:
            try:
                with get(timeout=deadline - time.monotonic(), address=address) as response:
                    return self._read_document(response)
            except (OSError, ValueError) as error:
                failure = f"{type(error).__name__}: {error}"
        raise CIMDError(f"could not fetch the document: {failure}")

    def _read_document(self, response: Any) -> tuple[dict[str, Any], int]:
        try:
            found: tuple[dict[str, Any], int] = super()._read_document(response)
        except RecursionError:
            raise CIMDError("the document is nested too deeply") from None
        return found


class RatePermission:
    """Limits document lookups per address, site-wide, and by the number of unused clients."""

    def has_permission(self, request: Any, client_id: str) -> bool:
        """Return True if the document may be fetched now.

        Args:
            request: oauthlib's, whose ``headers`` is ``request.META``.
        """
        who, scope = caller(request.headers), "documents of clients"
        if not address_throttle(scope, who).allow_request(who.name):
            return False
        if not make_throttle(scope, Rate(settings.MAX_UNUSED_CLIENTS, 60 * 60)).allow_request("all"):
            return False
        model = get_application_model()
        known = model.objects.filter(client_id=client_id).exists()
        return known or make_room(model.RegistrationSource.CIMD)


def checked(client_id: str) -> SplitResult:
    """Split a client id URL (section 3 of the draft).

    Raises:
        CIMDError: it is invalid.
    """
    if len(client_id) > LONGEST or not _URL.fullmatch(client_id) or "\\" in client_id:
        raise CIMDError("the client_id is too long, or has characters not allowed in a URL")
    try:
        url = urlsplit(client_id)
        port = url.port or 443
    except ValueError:
        raise CIMDError("the client_id is not a URL") from None
    if url.scheme != "https" or not url.hostname or not url.path:
        raise CIMDError("the client_id is not an https URL with a host and a path")
    if "@" in url.netloc or "#" in client_id or {".", ".."} & set(url.path.split("/")):
        raise CIMDError("the client_id has user information, a fragment or dot segments")
    if port not in settings.CLIENT_DOCUMENT_PORTS:
        raise CIMDError(f"port {port} is not in DJANGO_MCP['CLIENT_DOCUMENT_PORTS']")
    return url


def normalised(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the supported metadata of a document.

    Documents list grants, methods and redirect URIs for all servers. Unsupported ones are dropped (RFC 7591, section
    2).

    Raises:
        InvalidMetadata: nothing usable is left, the name is missing, or it has a secret, which would be public.
    """
    if "client_secret" in document or "client_secret_expires_at" in document:
        raise InvalidMetadata("A document must not have a client_secret.")
    methods = document.get("token_endpoint_auth_methods_supported")
    offered = [document.get("token_endpoint_auth_method", "none"), *(methods if isinstance(methods, list) else ())]
    if "none" not in offered:
        raise InvalidMetadata("The document must offer the token_endpoint_auth_method none.")
    if not (name := name_of(document)):
        raise InvalidMetadata("A document must have a client_name.")
    return {
        "client_id": document.get("client_id"),
        "client_name": name,
        "redirect_uris": redirects_of(document)[:MOST],
        "grant_types": grants_of(document),
        "token_endpoint_auth_method": "none",
    }
