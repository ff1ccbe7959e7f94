"""Client ID metadata documents (draft-ietf-oauth-client-id-metadata-document-01): fetching, validation and caching.

Only ``find_client``, for the authorization request of a logged-in user, and ``mcp_clear`` fetch. Everything else knows
stored clients alone, so requests that anyone can send cause no outgoing requests.

Against DNS rebinding, the host is resolved once and the connection goes to a checked address. ``core.http_client``
follows no redirects.
"""

import datetime
import hashlib
import ipaddress
import logging
import re
import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import SplitResult, urlsplit

from django.core.cache import cache
from django.core.exceptions import ValidationError
from django.db import IntegrityError, router, transaction
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext as _
from oauthlib.common import Request

from django_mcp.auth.toolkit import (
    CIMDError,
    SafeMetadataFetcher,
    get_application_model,
    is_cimd_client_id,
    oauth2_settings,
)
from django_mcp.conf import settings
from django_mcp.core.after_fork import FreshLock
from django_mcp.core.http_client import NoConnection, Resolver, proxy_for, send
from django_mcp.core.rate_limited_log import log_rate_limited
from django_mcp.core.throttling import make_throttle
from django_mcp.oauth.cleanup import make_room, stale_documents
from django_mcp.oauth.client_metadata import (
    MAX_URIS,
    InvalidMetadata,
    read_client_name,
    read_grant_types,
    read_redirect_uris,
)
from django_mcp.oauth.consent import host_of
from django_mcp.primitives.base import parse_rate

logger = logging.getLogger("django_mcp")


_INSIDE_IPV4 = [
    ipaddress.ip_network(network)
    for network in (
        "192.0.0.0/24",  # IETF protocol assignments
        "192.88.99.0/24",  # 6to4 relays
    )
]
_UNICAST = ipaddress.ip_network("2000::/3")
"""Global unicast IPv6. The rest is special, including forms of IPv4 addresses (``::/96``, ``::ffff:0:0/96``, NAT64's
``64:ff9b::/96`` and ``64:ff9b:1::/48``).
"""

_INSIDE_IPV6 = [
    ipaddress.ip_network(network)
    for network in (
        "2001::/23",  # IETF protocol assignments, including Teredo
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4
        "3fff::/20",  # documentation
    )
]


def is_public(address: str) -> bool:
    # is_global in Python 3.11 includes multicast, IPv4-compatible, NAT64, 6to4 and unassigned IPv6 addresses.
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    if not found.is_global or found.is_multicast:
        return False
    if isinstance(found, ipaddress.IPv4Address):
        return not any(found in network for network in _INSIDE_IPV4)
    return found in _UNICAST and not any(found in network for network in _INSIDE_IPV6)


LONGEST = 255
"""Length of the client id column."""

ACCEPT = {"Accept": "application/json, application/*+json"}

_URL = re.compile(r"[!-~]+")


MAX_FETCHES = 4
"""Fetches, and unanswered DNS lookups, of a process at a time: each holds a worker thread."""

_resolver = Resolver(MAX_FETCHES)


_INVALID, _UNSUPPORTED, _AWAY = "invalid", "unsupported", "away"
"""How a document failed. The first two come from the document, or from its absence."""


class InvalidDocument(CIMDError):  # type: ignore[misc]
    """The host has no document of this client, or not one of a client that this site accepts."""

    failure = _INVALID


class UnsupportedMethod(InvalidDocument):
    """The client authenticates at the token endpoint in ways that this site does not support."""

    failure = _UNSUPPORTED


class _NoMethod(InvalidMetadata):
    """The metadata offers no supported method."""


def _invalid(error: InvalidMetadata) -> InvalidDocument:
    return (UnsupportedMethod if isinstance(error, _NoMethod) else InvalidDocument)(str(error))


class Unreachable(CIMDError):  # type: ignore[misc]
    """No connection to the host could be made."""


class MetadataFetcher(SafeMetadataFetcher):  # type: ignore[misc]
    """Fetches documents and reduces them to supported metadata."""

    def fetch(self, client_id: str) -> tuple[dict[str, Any], int]:
        """Return the document and its lifetime in seconds.

        Blocks for up to ``CIMD_FETCH_TIMEOUT_SECONDS``.

        Raises:
            InvalidDocument: there is none, or it is not usable.
            Unreachable: the host cannot be reached.
            CIMDError: it cannot be fetched for another reason, or must not be.
        """
        deadline = time.monotonic() + oauth2_settings.CIMD_FETCH_TIMEOUT_SECONDS
        try:
            url = checked(client_id)
            document, age = self._download(url, self.addresses(str(url.hostname), url.port or 443), deadline)
            note_network(client_id, works=True)
            return normalised(document), age
        except (InvalidMetadata, CIMDError) as error:
            # The reason is only logged: it could reveal what this site can reach.
            logger.warning("The document of client %r cannot be used: %s", client_id[:LONGEST], error)
            if isinstance(error, Unreachable | InvalidDocument):
                note_network(client_id, works=isinstance(error, InvalidDocument))
            if isinstance(error, InvalidMetadata):
                raise _invalid(error) from None
            raise

    def addresses(self, host: str, port: int) -> list[str]:
        """Resolve a host. Blocks for up to ``CIMD_FETCH_TIMEOUT_SECONDS``.

        Return no address for a host that only a proxy can resolve. What this site can resolve must be public, even if a
        proxy makes the connection.

        Raises:
            Unreachable: it has no address.
            CIMDError: it has one that is not public, or too many lookups are unanswered.
        """
        is_proxied = proxy_for(urlsplit(f"https://{f'[{host}]' if ':' in host else host}:{port}")) is not None
        try:
            found = list(_resolver.resolve(host, port, oauth2_settings.CIMD_FETCH_TIMEOUT_SECONDS))
        except BlockingIOError as error:
            raise CIMDError(str(error)) from None
        except OSError as error:
            if is_proxied and "." in host:
                return []
            raise Unreachable(str(error)) from None
        if not all(map(is_public, found)):
            raise CIMDError("the host has an address that is not public")
        return [] if is_proxied else found

    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context()

    def _download(self, url: SplitResult, addresses: Sequence[str], deadline: float) -> tuple[dict[str, Any], int]:
        """Fetch from the first address that answers, or through the proxy if there are none."""
        get, failure = partial(send, "GET", url.geturl(), ACCEPT, ssl_context=self.context()), CIMDError("too slow")
        for address in addresses or (None,):
            if (left := deadline - time.monotonic()) <= 0:  # which says nothing about this address
                break
            try:
                with get(timeout=left, address=address) as response:
                    return self._read_document(response)
            except NoConnection as error:
                failure = Unreachable(f"could not connect: {error}")
            except (OSError, ValueError) as error:
                failure = CIMDError(f"could not fetch the document: {type(error).__name__}: {error}")
        raise failure

    def _read_document(self, response: Any) -> tuple[dict[str, Any], int]:
        is_gone = response.status in {HTTPStatus.NOT_FOUND, HTTPStatus.GONE}
        try:
            found: tuple[dict[str, Any], int] = super()._read_document(response)
        except RecursionError:
            raise InvalidDocument("the document is nested too deeply") from None
        except CIMDError as error:
            # Other statuses are of a server, proxy or firewall in trouble: they say nothing about the client.
            raise (InvalidDocument if is_gone or response.status == HTTPStatus.OK else CIMDError)(str(error)) from None
        return found


KEPT = datetime.timedelta(days=1)
"""How long an expired document still counts while it cannot be fetched."""

KNOWN_HOSTS = frozenset({"claude.ai", "chatgpt.com", "vscode.dev"})
"""Hosts of documents that widespread clients publish, which nobody who names them can take off the network."""

PAUSE_SECONDS = 60 * 60
"""How long the metadata does not advertise documents after one of ``KNOWN_HOSTS`` was unreachable."""

_PAUSED = "django_mcp.documents.unreachable"
# Fresh after a fork, as a thread of the parent may hold a slot.
_slots = FreshLock(partial(threading.BoundedSemaphore, MAX_FETCHES))


class DocumentError(Exception):
    """A client cannot be used because of its document.

    Args:
        text: for the user.
        detail: for the client's developer.
        status: HTTP status of the page.
        retry_after: seconds after which the same request may succeed, if known.
    """

    def __init__(self, text: str, detail: str, status: int = 400, retry_after: int | None = None) -> None:
        super().__init__(detail)
        self.text, self.detail, self.status, self.retry_after = text, detail, status, retry_after


def is_enabled() -> bool:
    return bool(settings.CLIENT_DOCUMENTS and oauth2_settings.CIMD_ENABLED)


def is_advertised() -> bool:
    """Return True if the metadata should tell clients to identify themselves by a document.

    Not while this site cannot fetch any, if clients can register themselves instead.
    """
    return is_enabled() and not (oauth2_settings.DCR_ENABLED and _cached(_PAUSED) is not None)


def find_client(client_id: str, request: HttpRequest) -> None:
    """Store the client of a document, or renew it once its document has expired. Blocks for a fetch.

    Clients without document are left alone.

    Args:
        client_id: the one of an authorization request.
        request: the request of a logged-in user.

    Raises:
        DocumentError: there is no document that can be used.
    """
    if not is_cimd_client_id(client_id):
        return
    row = get_application_model().objects.filter(client_id=client_id).first()
    if row is not None and row.registration_source != "cimd":
        return
    if not is_enabled():
        raise DocumentError(
            _("This site does not accept applications that are described by a document. Register the application."),
            "invalid_client: client ID metadata documents are disabled",
        )
    if row is not None and (row.cimd_expires_at is None or row.cimd_expires_at > timezone.now()):
        return
    _check_url(client_id, request)
    try:
        failure = _cached(_backoff(client_id)) or _fetch(client_id, row, request)
    except DocumentError:  # not tried
        if _may_be_kept(row):
            return
        raise
    if failure is None or (failure == _AWAY and _may_be_kept(row)):
        return
    raise _error(client_id, failure)


def _check_url(client_id: str, request: HttpRequest) -> None:
    """Check that a document may be fetched, by the draft and by the site's permission classes.

    Raises:
        DocumentError: it may not.
    """
    try:
        checked(client_id)
    except CIMDError:
        text = _("The application that sent you here is unknown to this site, or its request is unsafe.")
        detail = "invalid_client: client_id is not the URL of a document that this site may fetch"
        raise DocumentError(text, detail) from None
    asked = Request(request.build_absolute_uri(request.path), "GET", headers=request.META)
    permissions = oauth2_settings.CIMD_REGISTRATION_PERMISSION_CLASSES
    if not permissions or not all(permission().has_permission(asked, client_id) for permission in permissions):
        raise DocumentError(_("This site does not accept the application."), "invalid_client: not allowed here")


def _fetch(client_id: str, row: Any, request: HttpRequest) -> str | None:
    """Fetch and store a document. Return None, or how it failed.

    Raises:
        DocumentError: it was not tried.
    """
    # Waiting for another fetch would hold a worker thread as well.
    if not _slots.acquire(blocking=False):
        raise _busy(oauth2_settings.CIMD_FETCH_TIMEOUT_SECONDS)
    try:
        throttle = make_throttle("documents of clients", parse_rate(settings.REGISTRATION_RATE))
        if not throttle.allow_request(f"user {request.user.pk}"):
            text = _("You have tried too many new applications. Try again later.")
            raise DocumentError(text, "temporarily_unavailable: too many documents", 429, throttle.wait())
        return renew(client_id, row)
    finally:
        _slots.release()


def renew(client_id: str, row: Any = None) -> str | None:
    """Fetch a document and store its client. Return None, or ``"invalid"``, ``"unsupported"`` or ``"away"``. Blocks.

    A client whose document has gone or become invalid gets no codes and tokens until it is valid again. Errors are not
    cached for longer than ``CIMD_FAILURE_BACKOFF_SECONDS``, which limits the fetches of one URL.
    """
    try:
        document, age = oauth2_settings.CIMD_METADATA_FETCHER().fetch(client_id)
        _store(client_id, row, document, age)
    except InvalidDocument as error:
        _withdraw(client_id)
        return _remember(client_id, error.failure)
    except DocumentError:
        raise
    except CIMDError as error:
        logger.info("The document of client %r was not fetched: %s", client_id, error)
    except Exception:
        logger.exception("The document of client %r could not be fetched", client_id)
    else:
        return None
    return _remember(client_id, _AWAY)


def note_network(client_id: str, *, works: bool) -> None:
    """Note whether the host of a document was reached.

    Only ``KNOWN_HOSTS`` on the usual port show that the network is missing: any user can name hosts that do not exist.
    """
    try:
        parts = urlsplit(client_id)
        if works:
            cache.delete(_PAUSED)
        elif parts.hostname in KNOWN_HOSTS and (parts.port or 443) == 443:  # noqa: PLR2004 - https
            cache.set(_PAUSED, 1, PAUSE_SECONDS)
            log_rate_limited(
                logging.ERROR,
                "Client metadata documents cannot be fetched from %s, so clients such as Claude Code and Codex cannot "
                "sign in. Allow https to it, or set HTTPS_PROXY or DJANGO_MCP['CLIENT_DOCUMENTS'] = False.",
                parts.hostname,
            )
    except Exception as error:  # noqa: BLE001 - each cache has errors of its own
        log_rate_limited(logging.WARNING, "the network is not noted because the cache failed: %r", error)


def renew_documents(most: int = 50) -> int:
    """Renew expired documents of clients with tokens, and return the number that became invalid. Blocks."""
    if not is_enabled():
        return 0
    return sum(renew(row.client_id, row) in {_INVALID, _UNSUPPORTED} for row in stale_documents()[:most])


def is_withdrawn(application: Any) -> bool:
    # Its document has gone or become invalid.
    return str(application.registration_source) == "cimd" and not application.redirect_uris


def _withdraw(client_id: str) -> None:
    clients = get_application_model().objects.filter(client_id=client_id, registration_source="cimd")
    clients.update(redirect_uris="", cimd_expires_at=timezone.now(), updated=timezone.now())


def _may_be_kept(row: Any) -> bool:
    return row is not None and not is_withdrawn(row) and row.cimd_expires_at > timezone.now() - KEPT


def _store(client_id: str, row: Any, document: Mapping[str, Any], age: int) -> None:
    """Save the client of a document.

    Raises:
        InvalidDocument: its values are not those of a client.
        DocumentError: there is no room.
        CIMDError: the URL is the id of another client.
    """
    model = get_application_model()
    if document.get("client_id") != client_id:
        raise InvalidDocument("its client_id is not its URL")
    try:
        document = normalised(document)
    except InvalidMetadata as error:
        raise _invalid(error) from None
    if row is None and not make_room(model.RegistrationSource.CIMD):
        raise _busy(oauth2_settings.AUTHORIZATION_CODE_EXPIRE_SECONDS)
    client = row or model(client_id=client_id, client_secret="", hash_client_secret=False)
    client.user = None
    client.client_type = model.CLIENT_PUBLIC
    client.authorization_grant_type = model.GRANT_AUTHORIZATION_CODE
    client.registration_source = model.RegistrationSource.CIMD
    client.name, client.redirect_uris = document["client_name"], " ".join(document["redirect_uris"])
    client.cimd_expires_at = timezone.now() + datetime.timedelta(seconds=age)
    try:
        client.full_clean(exclude=["client_secret"], validate_unique=False, validate_constraints=False)
    except ValidationError as error:
        raise InvalidDocument("; ".join(error.messages)) from None
    try:
        with transaction.atomic(using=router.db_for_write(model)):
            client.save()
    except IntegrityError:  # another request has stored the same client meanwhile
        if not model.objects.filter(client_id=client_id, registration_source="cimd").exists():
            raise CIMDError("the URL is the id of another client") from None


def _backoff(client_id: str) -> str:
    return f"django_mcp.documents.{hashlib.sha256(client_id.encode()).hexdigest()}"


def _remember(client_id: str, failure: str) -> str:
    try:
        cache.set(_backoff(client_id), failure, oauth2_settings.CIMD_FAILURE_BACKOFF_SECONDS)
    except Exception as error:  # noqa: BLE001 - each cache has errors of its own
        log_rate_limited(logging.WARNING, "failed documents are not noted because the cache failed: %r", error)
    return failure


def _cached(key: str) -> Any:
    try:
        return cache.get(key)
    except Exception as error:  # noqa: BLE001 - each cache has errors of its own
        log_rate_limited(logging.WARNING, "failed documents are not known because the cache failed: %r", error)
        return None


def _busy(retry_after: int) -> DocumentError:
    text = _("This site is learning about too many applications. Try again in a moment.")
    return DocumentError(text, "temporarily_unavailable: too many documents", 503, retry_after)


def _error(client_id: str, failure: str) -> DocumentError:
    # Why a host was not reached stays in the log: it could reveal this site's network.
    host = {"host": host_of(client_id)}
    if failure == _INVALID:
        text = _("The document at %(host)s does not describe an application that this site accepts.") % host
        return DocumentError(text, "invalid_client: the client ID metadata document is missing or invalid")
    if failure == _UNSUPPORTED:
        text = _(
            "The application at %(host)s identifies itself in a way that this site does not support: its document does "
            "not offer the method “none”."
        )
        detail = (
            "invalid_client: the client ID metadata document must offer the token_endpoint_auth_method none, see "
            "token_endpoint_auth_methods_supported in this server's metadata"
        )
        return DocumentError(text % host, detail)
    text = _(
        "This site could not reach %(host)s to learn about this application. Its owner can allow https to %(host)s, or "
        "turn metadata documents off."
    )
    if not is_advertised():
        text += " " + _("Start again from the application in a few minutes: it may then register itself instead.")
    return DocumentError(text % host, "invalid_client: the client ID metadata document could not be fetched")


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
        raise _NoMethod("The document must offer the token_endpoint_auth_method none.")
    if not (name := read_client_name(document)):
        raise InvalidMetadata("A document must have a client_name.")
    return {
        "client_id": document.get("client_id"),
        "client_name": name,
        "redirect_uris": read_redirect_uris(document)[:MAX_URIS],
        "grant_types": read_grant_types(document),
        "token_endpoint_auth_method": "none",
    }
