"""Dynamic client registration (RFC 7591).

Registration is open to anyone. Clients get no owner, no token, no access to their registration (RFC 7592), and no grant
without a user. Unknown metadata is ignored; no URL in it is fetched.
"""

import hashlib
import secrets
from collections.abc import Mapping
from functools import partial
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt

from django_mcp.auth.toolkit import get_application_model, oauth2_settings
from django_mcp.conf import settings
from django_mcp.oauth.cleanup import BATCH, EVERY, make_room, prune_clients
from django_mcp.oauth.client_metadata import (
    MAX_URIS,
    InvalidMetadata,
    read_client_name,
    read_grant_types,
    read_redirect_uris,
)
from django_mcp.oauth.networks import new_client_id, seconds_to_wait
from django_mcp.primitives.base import parse_rate
from django_mcp.protocol.errors import ParseError
from django_mcp.protocol.jsonrpc import decode
from django_mcp.transports.base import with_cors

_FAST = "sha256$"


def hash_secret(secret: str) -> str:
    # A fast hash, which 256 random bits allow: a slow one would cost a fifth of a second at each use, which anyone
    # can cause. The toolkit keeps the form as it is in applications without ``hash_client_secret``.
    return _FAST + hashlib.sha256(secret.encode()).hexdigest()


def is_fast_hash(stored: str) -> bool:
    return stored.startswith(_FAST)


MAX_BODY_BYTES = 16 * 1024
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
    if isinstance(given := metadata.get("redirect_uris"), list) and len(given) > MAX_URIS:
        raise InvalidMetadata(f"redirect_uris must have at most {MAX_URIS} entries.", "invalid_redirect_uri")
    redirects, grants, method, name = (
        read(metadata) for read in (read_redirect_uris, read_grant_types, _method_of, read_client_name)
    )
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
    information = {
        "client_id": client.client_id,
        "client_id_issued_at": int(client.created.timestamp()),
        "client_name": name,
        "redirect_uris": redirects,
        "grant_types": grants,
        "response_types": ["code"],
        "token_endpoint_auth_method": method,
    }
    return information if method == "none" else {**information, "client_secret": secret, "client_secret_expires_at": 0}


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
    body = request.read(MAX_BODY_BYTES + 1)
    if len(body) > MAX_BODY_BYTES:
        raise RegistrationError(413, "invalid_client_metadata", f"The body must be at most {MAX_BODY_BYTES} bytes.")
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
