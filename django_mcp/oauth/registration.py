"""Dynamic client registration (RFC 7591), for clients that know nothing newer.

Whoever can reach the site can register. So a client gets what a person then agrees to and nothing else: no owner, no
token, no way to change the registration (RFC 7592), and no grant without a person.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt

from django_mcp.conf import settings
from django_mcp.core.throttling import seconds_to_wait
from django_mcp.endpoint.cors import with_cors
from django_mcp.oauth.addresses import caller
from django_mcp.oauth.client_metadata import InvalidMetadata, grants_of, name_of, redirects_of
from django_mcp.oauth.pruning import BATCH, EVERY, YOUNG, make_room, prune_clients
from django_mcp.oauth.redirects import MOST
from django_mcp.oauth.toolkit import get_application_model, oauth2_settings
from django_mcp.protocol.errors import ParseError
from django_mcp.protocol.jsonrpc import decode

LARGEST = 16 * 1024
"""Bytes of a registration."""

METHODS = ("none", "client_secret_post", "client_secret_basic")
"""How clients may authenticate at the token endpoint."""

NO_STORE = {"Cache-Control": "no-store", "Pragma": "no-cache"}


class Refused(Exception):
    """A registration turned down before anybody looked at what it says."""

    def __init__(self, status: int, error: str, description: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(description)
        self.response = _problem(status, error, description, headers)


@csrf_exempt
@login_not_required
@partial(with_cors, methods=["POST"])
def registration_view(request: HttpRequest) -> HttpResponse:
    """POST a client's metadata as JSON; 201 with its id, and its secret if it wants one (RFC 7591, section 3).

    Cookies are not looked at.
    """
    try:
        metadata = _read(request)
        registered = register(metadata)
    except Refused as refused:
        return refused.response
    except InvalidMetadata as invalid:
        return _problem(400, invalid.error, invalid.description)
    return JsonResponse(registered, status=201, headers=NO_STORE)


def register(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Store a client; what it is told (RFC 7591, section 3.2.1).

    Raises:
        InvalidMetadata: it asks for what is not to be had.
        Refused: there are too many clients that nobody uses.
    """
    if isinstance(given := metadata.get("redirect_uris"), list) and len(given) > MOST:
        raise InvalidMetadata(f"There are more than {MOST} redirect_uris.", "invalid_redirect_uri")
    redirects, grants, method, name = (read(metadata) for read in (redirects_of, grants_of, _method_of, name_of))
    model = get_application_model()
    if not make_room(model.RegistrationSource.DCR):
        wait = {"Retry-After": str(int(YOUNG.total_seconds()))}
        raise Refused(429, "temporarily_unavailable", "Too many clients have registered. Try again later.", wait)
    client = model(
        name=name,
        redirect_uris=" ".join(redirects),
        client_type=model.CLIENT_PUBLIC if method == "none" else model.CLIENT_CONFIDENTIAL,
        authorization_grant_type=model.GRANT_AUTHORIZATION_CODE,
        registration_source=model.RegistrationSource.DCR,
    )
    secret = client.client_secret  # hashed when it is saved
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
        raise InvalidMetadata("This site does not take a client with these values.") from None
    client.save(force_insert=True)
    if isinstance(client.pk, int) and client.pk % EVERY == 0:
        prune_clients(most=BATCH)


def _read(request: HttpRequest) -> Mapping[str, Any]:
    if not oauth2_settings.DCR_ENABLED:
        raise Refused(404, "not_found", "Clients do not register here.")
    if request.method != "POST":
        raise Refused(405, "invalid_request", "POST the metadata of a client.", {"Allow": "POST, OPTIONS"})
    if request.content_type != "application/json":
        raise Refused(415, "invalid_client_metadata", "Content-Type must be application/json.")
    body = request.read(LARGEST + 1)
    if len(body) > LARGEST:
        raise Refused(413, "invalid_client_metadata", f"The body is larger than {LARGEST} bytes.")
    who = caller(request.META)
    if wait := seconds_to_wait(settings.REGISTRATION_RATE, f"register {who.name}", who.times):
        text = "Too many registrations from this address. Try again later."
        raise Refused(429, "temporarily_unavailable", text, {"Retry-After": str(wait)})
    try:
        metadata = decode(body)
    except ParseError:
        metadata = None
    if not isinstance(metadata, dict):
        raise InvalidMetadata("The body must be a JSON object, in UTF-8, without a name that occurs twice.")
    return metadata


def _method_of(metadata: Mapping[str, Any]) -> str:
    method = metadata.get("token_endpoint_auth_method", "client_secret_basic")  # the RFC's default
    if method not in METHODS:
        raise InvalidMetadata("token_endpoint_auth_method must be one of " + ", ".join(METHODS) + ".")
    return str(method)


def _problem(status: int, error: str, description: str, headers: Mapping[str, str] | None = None) -> HttpResponse:
    body = {"error": error, "error_description": description}
    return JsonResponse(body, status=status, headers={**NO_STORE, **(headers or {})})
