"""Client ID metadata documents (draft-ietf-oauth-client-id-metadata-document-01), fetched without being led elsewhere.

The name is resolved once, every address is judged, and the connection goes to an address that was judged: a second
lookup could answer something else (DNS rebinding). ``core.http_client`` does the rest: no redirect, one deadline.

The toolkit decides when to fetch one, keeps it as long as its cache headers allow, and leaves a URL that failed alone
for a while. Whatever goes wrong, the client is then simply unknown.
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
"""What of IPv6 is given out. All else is special: loopback, local, multicast, and addresses that stand for IPv4 ones
(``::/96``, ``::ffff:0:0/96``, NAT64's ``64:ff9b::/96`` and ``64:ff9b:1::/48``)."""

_INSIDE_IPV6 = [
    ipaddress.ip_network(each)
    for each in (
        "2001::/23",  # IETF protocol assignments, Teredo among them
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4
        "3fff::/20",  # documentation
    )
]


def is_public(address: str) -> bool:
    """Whether an IP address is one of the public internet.

    ``ipaddress.is_global`` alone is not enough: in Python 3.11 it holds multicast, IPv4-compatible, NAT64, 6to4 and
    unassigned IPv6 addresses for global.
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
"""Characters of a client id, which its column has."""

ACCEPT = {"Accept": "application/json, application/*+json"}

_URL = re.compile(r"[!-~]+")


class MetadataFetcher(SafeMetadataFetcher):  # type: ignore[misc]
    """Fetches documents, and reduces each to what a self-registered client may have here."""

    def fetch(self, client_id: str) -> tuple[dict[str, Any], int]:
        """The document, and for how many seconds it is good. Blocks for ``CIMD_FETCH_TIMEOUT_SECONDS`` at most,
        beside what the resolver takes.

        Raises:
            CIMDError: there is none, or none that can be used.
        """
        try:
            url = checked(client_id)
            document, age = self._download(url, self.addresses(str(url.hostname), url.port or 443))
            return normalised(document), age
        except (InvalidMetadata, CIMDError) as error:
            # Whoever asks reads "Invalid client_id" alone, for the reason may say what this site can reach.
            logger.warning("The document of client %r cannot be used: %s", client_id[:LONGEST], error)
            raise CIMDError(str(error)) from None

    def addresses(self, host: str, port: int) -> list[str]:
        """The addresses of a host, each once. Blocks, as long as the system's resolver does.

        Raises:
            CIMDError: it has none, or one that is not public: one inside is enough to refuse the host.
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
        """Which certificates are trusted: those the system trusts."""
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
    """How many clients with a document may be looked up: by each address, by all together, and unused ones at all."""

    def has_permission(self, request: Any, client_id: str) -> bool:
        """Whether the document of a client that is new, or whose document has expired, may be fetched now.

        Args:
            request: oauthlib's, of which ``headers`` is ``request.META``.
            client_id: its URL.
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
    """The parts of a URL that may name a client (section 3 of the draft).

    Raises:
        CIMDError: it is no https URL with a host and a path, or has what such a URL must not have.
    """
    if len(client_id) > LONGEST or not _URL.fullmatch(client_id) or "\\" in client_id:
        raise CIMDError("the client_id is too long, or has characters that a URL has not")
    try:
        url = urlsplit(client_id)
        port = url.port or 443
    except ValueError:
        raise CIMDError("the client_id is no URL") from None
    if url.scheme != "https" or not url.hostname or not url.path:
        raise CIMDError("the client_id is no https URL with a host and a path")
    if "@" in url.netloc or "#" in client_id or {".", ".."} & set(url.path.split("/")):
        raise CIMDError("the client_id has user information, a fragment or dot segments")
    if port not in settings.CLIENT_DOCUMENT_PORTS:
        raise CIMDError(f"port {port} is not in DJANGO_MCP['CLIENT_DOCUMENT_PORTS']")
    return url


def normalised(document: Mapping[str, Any]) -> dict[str, Any]:
    """What the toolkit is to know of a document.

    Published documents list grants, methods and redirect URIs for every server they might meet. Those that are not to
    be had here are left out (RFC 7591, section 2: a server may replace what is asked for).

    Raises:
        InvalidMetadata: nothing usable is left, there is no name, or it has a secret, which everybody could read.
    """
    if "client_secret" in document or "client_secret_expires_at" in document:
        raise InvalidMetadata("A document must not have a client_secret.")
    methods = document.get("token_endpoint_auth_methods_supported")
    offered = [document.get("token_endpoint_auth_method", "none"), *(methods if isinstance(methods, list) else ())]
    if "none" not in offered:
        raise InvalidMetadata("token_endpoint_auth_method must be none, or none be offered.")
    if not (name := name_of(document)):
        raise InvalidMetadata("A document must have a client_name.")
    return {
        "client_id": document.get("client_id"),
        "client_name": name,
        "redirect_uris": redirects_of(document)[:MOST],
        "grant_types": grants_of(document),
        "token_endpoint_auth_method": "none",
    }
