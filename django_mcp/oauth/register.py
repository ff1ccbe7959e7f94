"""Dynamic client registration (RFC 7591), client metadata and redirect URIs.

Registration is open to anyone. Clients get no owner, no token, no access to their registration (RFC 7592), and no grant
without a user. Unknown metadata is ignored; no URL in it is fetched.
"""

import hashlib
import ipaddress
import re
import secrets
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeGuard
from urllib.parse import urlsplit

from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.crypto import salted_hmac
from django.views.decorators.csrf import csrf_exempt

from django_mcp.auth.grant_types import FOR_ALL
from django_mcp.auth.toolkit import AllowedURIValidator, get_application_model, oauth2_settings
from django_mcp.conf import settings
from django_mcp.core.request import Address, address_of
from django_mcp.core.throttling import make_throttle
from django_mcp.oauth.cleanup import BATCH, EVERY, PREFIXES, make_room, prune_clients
from django_mcp.oauth.consent import NO_TARGETS, clean_name
from django_mcp.primitives.base import Rate, parse_rate
from django_mcp.protocol.errors import ParseError
from django_mcp.protocol.jsonrpc import decode
from django_mcp.transports.base import with_cors

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


_FAST = "sha256$"


def hash_secret(secret: str) -> str:
    """Return the form in which a generated secret is stored: a fast hash, which 256 random bits allow.

    A slow one would cost a fifth of a second at each use, which anyone can cause. The toolkit keeps the form as it is
    in applications without ``hash_client_secret``.
    """
    return _FAST + hashlib.sha256(secret.encode()).hexdigest()


def is_fast_hash(stored: str) -> bool:
    return stored.startswith(_FAST)


LONGEST = 2000
"""Maximum length of a redirect URI."""

MOST = 10
"""Maximum number of redirect URIs."""

_ANYWHERE = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")
"""Plain host names. Browsers accept commas and quotation marks too, which can deceive."""

_LOOPBACK = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?")
_LOOPBACK_URI = re.compile(r"(http://(?:localhost|127\.0\.0\.1|\[::1\]))(?::[0-9]{1,5})?([/?].*|)")
_FORBIDDEN = re.compile(r"[^!-~]|[\\#]")
"""All but printable ASCII (RFC 3986), backslashes, which parsers disagree about, and fragments, which would swallow the
query.
"""


def is_allowed_redirect_uri(uri: object) -> bool:
    """Return True if a self-registered client may have a redirect URI.

    Allowed are https, http on loopback addresses (RFC 8252, section 7.3) and ``EXTRA_REDIRECT_URIS``.
    """
    if not isinstance(uri, str) or len(uri) > LONGEST or _FORBIDDEN.search(uri):
        return False
    try:
        parts = urlsplit(uri)
        _ = parts.port  # raises ValueError if invalid
    except ValueError:
        return False
    if parts.scheme in {"https", "http"}:
        hosts = _ANYWHERE if parts.scheme == "https" else _LOOPBACK
        return hosts.fullmatch(parts.netloc) is not None  # so there is no user information
    return "@" not in parts.netloc and parts.scheme not in NO_TARGETS and uri in settings.EXTRA_REDIRECT_URIS


def is_registered(uri: str, registered: Iterable[str]) -> bool:
    """Return True if *uri* is registered, compared as a string (OAuth 2.1, section 2.3.1).

    Only loopback ports may differ (RFC 8252, section 7.3).
    """
    return any(
        uri == known or _without_loopback_port(uri) == _without_loopback_port(known, known) for known in registered
    )


def _without_loopback_port(uri: str, otherwise: str | None = None) -> str | None:
    """Return a loopback URI without port, or *otherwise*."""
    found = _LOOPBACK_URI.fullmatch(uri)
    return otherwise if found is None else found[1] + found[2]


def usable_redirects(uris: Iterable[object]) -> list[str]:
    """Return the usable URIs without duplicates.

    The toolkit would reject the whole client for one URI, so its validator is applied too.
    """
    takes = AllowedURIValidator(
        {scheme.lower() for scheme in oauth2_settings.ALLOWED_REDIRECT_URI_SCHEMES},
        name="redirect uri",
        allow_path=True,
        allow_query=True,
    )

    def usable(uri: object) -> bool:
        try:
            takes(uri)
        except ValidationError:
            return False
        return True

    return list(dict.fromkeys(str(uri) for uri in uris if is_allowed_redirect_uri(uri) and usable(uri)))


class InvalidMetadata(Exception):
    """Rejected client metadata.

    Args:
        description: the ``error_description``, in its character set (RFC 6749, section 5.2).
        error: the code (RFC 7591, section 3.2.2).
    """

    def __init__(self, description: str, error: str = "invalid_client_metadata") -> None:
        super().__init__(description)
        self.description = description
        self.error = error


def redirects_of(metadata: Mapping[str, Any]) -> list[str]:
    """Return usable redirect URIs. Clients often list some for every platform.

    Raises:
        InvalidMetadata: none is usable.
    """
    given = metadata.get("redirect_uris")
    if not _are_strings(given):
        raise InvalidMetadata("redirect_uris must be a list of strings.", "invalid_redirect_uri")
    if usable := usable_redirects(given):
        return usable
    raise InvalidMetadata(
        "None of the redirect_uris is allowed. Use https, or http on localhost, 127.0.0.1 or [::1], without "
        "fragment, user information or white space.",
        "invalid_redirect_uri",
    )


def grants_of(metadata: Mapping[str, Any]) -> list[str]:
    """Return supported grant types. Clients often list all they know.

    Raises:
        InvalidMetadata: ``authorization_code`` is missing.
    """
    given = metadata.get("grant_types", FOR_ALL)
    if not _are_strings(given):
        raise InvalidMetadata("grant_types must be a list of strings.")
    if "authorization_code" not in given:
        raise InvalidMetadata("grant_types must include authorization_code. refresh_token is optional.")
    return [name for name in FOR_ALL if name in given]


def name_of(metadata: Mapping[str, Any]) -> str:
    """Return the name to store, or "". Pages show the beginning of a long one.

    Raises:
        InvalidMetadata: it is not a string.
    """
    name = metadata.get("client_name", "")
    if not isinstance(name, str):
        raise InvalidMetadata("client_name must be a string.")
    return clean_name(name, MAX_NAME)


def _are_strings(value: Any) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


MAX_NAME = 255
"""Maximum characters of a stored name: those of the column."""
LARGEST = 16 * 1024
"""Maximum size of a registration in bytes."""

METHODS = ("none", "client_secret_post", "client_secret_basic")
"""Authentication methods of the token endpoint."""

NO_STORE = {"Cache-Control": "no-store", "Pragma": "no-cache"}


class RegistrationError(Exception):
    """A registration rejected before its metadata is read, or for lack of room."""

    def __init__(self, status: int, error: str, description: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(description)
        self.response = _problem(status, error, description, headers)


@csrf_exempt
@login_not_required
@partial(with_cors, methods=["POST"])
def registration_view(request: HttpRequest) -> HttpResponse:
    """Register a client by its metadata as JSON (RFC 7591, section 3).

    Return 201 with client id and, if requested, secret. Cookies are ignored.
    """
    try:
        metadata = _read(request)
        registered = register(metadata, request.META)
    except RegistrationError as refused:
        return refused.response
    except InvalidMetadata as invalid:
        return _problem(400, invalid.error, invalid.description)
    return JsonResponse(registered, status=201, headers=NO_STORE)


def register(metadata: Mapping[str, Any], meta: Mapping[str, object]) -> dict[str, Any]:
    """Store a client and return its information (RFC 7591, section 3.2.1).

    Args:
        meta: ``request.META``.

    Raises:
        InvalidMetadata: the metadata is not acceptable.
        RegistrationError: there are too many unused clients, and users are logging in with all of them.
    """
    if isinstance(given := metadata.get("redirect_uris"), list) and len(given) > MOST:
        raise InvalidMetadata(f"redirect_uris must have at most {MOST} entries.", "invalid_redirect_uri")
    redirects, grants, method, name = (read(metadata) for read in (redirects_of, grants_of, _method_of, name_of))
    model = get_application_model()
    if not make_room(model.RegistrationSource.DCR):
        wait = {"Retry-After": str(oauth2_settings.AUTHORIZATION_CODE_EXPIRE_SECONDS)}
        raise RegistrationError(429, "temporarily_unavailable", "Too many clients have registered. Retry later.", wait)
    secret = "" if method == "none" else secrets.token_urlsafe(32)
    client = model(
        client_id=new_client_id(meta),
        client_secret=hash_secret(secret) if secret else "",
        hash_client_secret=False,
        name=name,
        redirect_uris=" ".join(redirects),
        client_type=model.CLIENT_PUBLIC if method == "none" else model.CLIENT_CONFIDENTIAL,
        authorization_grant_type=model.GRANT_AUTHORIZATION_CODE,
        registration_source=model.RegistrationSource.DCR,
    )
    _save(client)
    told = {
        "client_id": client.client_id,
        "client_id_issued_at": int(client.created.timestamp()),
        "client_name": name,
        "redirect_uris": redirects,
        "grant_types": grants,
        "response_types": ["code"],
        "token_endpoint_auth_method": method,
    }
    return told if method == "none" else {**told, "client_secret": secret, "client_secret_expires_at": 0}


def _save(client: Any) -> None:
    try:
        client.full_clean(validate_unique=False, validate_constraints=False)
    except ValidationError:
        raise InvalidMetadata("This site does not accept a client with these values.") from None
    client.save(force_insert=True)
    if isinstance(client.pk, int) and client.pk % EVERY == 0:
        prune_clients(most=BATCH)


def _read(request: HttpRequest) -> Mapping[str, Any]:
    if not oauth2_settings.DCR_ENABLED:
        raise RegistrationError(404, "not_found", "Dynamic client registration is disabled.")
    if request.method != "POST":
        raise RegistrationError(405, "invalid_request", "Send the client metadata by POST.", {"Allow": "POST, OPTIONS"})
    if request.content_type != "application/json":
        raise RegistrationError(415, "invalid_client_metadata", "Content-Type must be application/json.")
    body = request.read(LARGEST + 1)
    if len(body) > LARGEST:
        raise RegistrationError(413, "invalid_client_metadata", f"The body must be at most {LARGEST} bytes.")
    if (wait := seconds_to_wait("registrations", parse_rate(settings.REGISTRATION_RATE), request.META)) is not None:
        text = "Too many registrations from this address. Retry later."
        raise RegistrationError(429, "temporarily_unavailable", text, {"Retry-After": str(wait)})
    try:
        metadata = decode(body)
    except ParseError:
        metadata = None
    if not isinstance(metadata, dict):
        raise InvalidMetadata("The body must be a JSON object in UTF-8 without duplicate names.")
    return metadata


def _method_of(metadata: Mapping[str, Any]) -> str:
    method = metadata.get("token_endpoint_auth_method", "client_secret_basic")  # the RFC's default
    if method not in METHODS:
        raise InvalidMetadata("token_endpoint_auth_method must be one of " + ", ".join(METHODS) + ".")
    return str(method)


def _problem(status: int, error: str, description: str, headers: Mapping[str, str] | None = None) -> HttpResponse:
    body = {"error": error, "error_description": description}
    return JsonResponse(body, status=status, headers={**NO_STORE, **(headers or {})})
