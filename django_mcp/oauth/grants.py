"""Rules for grants: client, resource (RFC 8707), scopes and PKCE.

On oauthlib's *request*, unset attributes fall back to the client's parameters, so state is kept in ``RequestState``.
"""

import base64
import hashlib
import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import unquote_plus, urlsplit

from django.db.models import F
from oauthlib.common import urldecode
from oauthlib.oauth2.rfc6749 import errors

from django_mcp.auth.base import authenticators
from django_mcp.auth.oauth import OAuth2Authentication
from django_mcp.auth.protected_resource import canonical, resource_of
from django_mcp.auth.toolkit import AbstractApplication, get_grant_model, get_refresh_token_model, get_scopes_backend
from django_mcp.conf import settings
from django_mcp.core.permissions import admits
from django_mcp.core.server import MCPServer, servers
from django_mcp.models import ClientPolicy
from django_mcp.oauth.consent import LOOPBACK, granted_scopes


def checksum_of(token: str) -> str:
    # As the toolkit stores tokens.
    return hashlib.sha256(token.encode()).hexdigest()


def family_of(code: str) -> uuid.UUID:
    # Derived from the code, it identifies the tokens of a replayed code whose row is deleted, and does not reveal the
    # code.
    digest = hashlib.sha256(b"family of the code " + code.encode()).digest()
    return uuid.UUID(bytes=digest[:16], version=5)  # MariaDB takes no UUID without a version


OWN_VIEW = "django_mcp.authorize_view"
"""Key that ``AuthorizeView`` adds to the headers of oauthlib's requests. No header of a client has it: servers prefix
them with ``HTTP_``.
"""


class Agreement(NamedTuple):
    """What a user agreed to on the consent page, or a trusted client may have: the limits of a code."""

    user: Any
    resources: frozenset[str]
    scopes: frozenset[str]


_UNREAD: Any = object()


@dataclass(slots=True)
class RequestState:
    """Rows and state of one request; each row is read once.

    Attributes:
        superseded: a refresh token reused within the grace period.
        used: whether the authorization code has been invalidated.
        agreed: set by ``AuthorizeView`` alone.
        at_endpoint: whether an endpoint of oauthlib has asked if the client must authenticate.
    """

    grant: Any = _UNREAD
    refresh_token: Any = _UNREAD
    policy: Any = _UNREAD
    superseded: Any = None
    used: bool = False
    agreed: Agreement | None = None
    at_endpoint: bool = False


def state_of(request: Any) -> RequestState:
    found: RequestState = vars(request).setdefault("_django_mcp", RequestState())
    return found


def application_of(request: Any) -> Any:
    # None before the client is identified.
    return request.client if isinstance(request.client, AbstractApplication) else None


def is_self_registered(application: Any) -> bool:
    return str(application.registration_source) != "manual"


def skips_consent(application: Any, redirect_uri: str) -> bool:
    """Return True if ``skip_authorization`` applies: to a client that cannot be impersonated (RFC 8252, section 8.6).

    That is one that administrators registered, with a secret, or whose codes reach its https host only. Any program on
    the user's computer can pose as another.
    """
    if not application.skip_authorization or is_self_registered(application):
        return False
    parts = urlsplit(redirect_uri)
    is_remote = parts.scheme == "https" and parts.hostname not in LOOPBACK
    return is_remote or application.client_type == AbstractApplication.CLIENT_CONFIDENTIAL


def is_at_own_view(request: Any) -> bool:
    # AuthorizeView alone adds this key to the headers.
    return bool(request.headers.get(OWN_VIEW))


def is_at_endpoint(request: Any) -> bool:
    """Return True for a request of an endpoint of oauthlib, which answers errors. Views of the toolkit do not."""
    # The token endpoint sets the attribute; for client credentials it does not ask whether they are required.
    return state_of(request).at_endpoint or "extra_credentials" in vars(request)


def check_view(request: Any) -> None:
    """Refuse authorization requests for an endpoint at another view, which does not ask the user about it.

    Raises:
        InvalidRequestError: the view is another.
    """
    if not is_at_own_view(request):
        description = "This is not the authorization endpoint of this site's metadata (RFC 8414)."
        raise errors.InvalidRequestError(description=description, request=request)


def check_agreement(request: Any) -> None:
    """Refuse a code that a user did not agree to, whatever asks for it.

    Raises:
        AccessDeniedError: it is for more, or for somebody else.
    """
    agreed = state_of(request).agreed
    if (
        agreed is None
        or agreed.user != request.user
        or not agreed.resources.issuperset(request.resource)
        or not agreed.scopes.issuperset(request.scopes)
    ):
        raise errors.AccessDeniedError(description="The user has not agreed to this.", request=request)


def grant_of(request: Any) -> Any:
    """Return the authorization code's row if issued to this client, else None."""
    application, known = application_of(request), state_of(request)
    if application is None or not request.code:
        return None
    if known.grant is _UNREAD:
        found = get_grant_model().objects.filter(code=request.code, application=application)
        known.grant = found.select_related("user").first()
    return known.grant


def refresh_token_of(request: Any) -> Any:
    """Return the refresh token's row, of any client: valid, or revoked last."""
    known, token = state_of(request), request.refresh_token
    if not token:
        return None
    if known.refresh_token is _UNREAD:
        found = get_refresh_token_model().objects.filter(token_checksum=checksum_of(token))
        known.refresh_token = found.select_related("user").order_by(F("revoked").desc(nulls_first=True)).first()
    return known.refresh_token


def policy_of(request: Any) -> ClientPolicy | None:
    application, known = application_of(request), state_of(request)
    if application is None:
        return None
    if known.policy is _UNREAD:
        found = ClientPolicy.objects.filter(client_id=application.client_id)
        known.policy = found.select_related("service_account").first()
    policy: ClientPolicy | None = known.policy
    return policy


def requested_resources(request: Any) -> list[str]:
    # It may be repeated (RFC 8707, section 2).
    if isinstance(request.resource, list | tuple):
        return [str(uri) for uri in request.resource]
    sent = [*urldecode(request.uri_query), *(request.decoded_body or ())]
    return [value for name, value in sent if name == "resource" and value.strip()]


def stored_resources(request: Any) -> list[str]:
    row = {"authorization_code": grant_of, "refresh_token": refresh_token_of}.get(request.grant_type)
    found = row(request) if row else None
    return [str(uri) for uri in (found.resource or ())] if found is not None else []


def known_resources() -> Mapping[str, MCPServer]:
    """Return endpoints that accept this site's OAuth tokens by canonical identifier, in order of registration."""
    return {
        resource_of(server): server
        for server in servers()
        if any(isinstance(authenticator, OAuth2Authentication) for authenticator in authenticators(server))
    }


def default_resource() -> str | None:
    """Return the resource of clients that name none, as in 2025-03-26, or None."""
    return next(iter(known_resources()), None)


def chosen_resources(given: Iterable[str]) -> list[str]:
    """Return canonical identifiers, or the default if none is given.

    Raises:
        ValueError: one is unknown, or there is no default.
    """
    known = known_resources()
    found = list(dict.fromkeys(canonical(uri) for uri in given)) or [*filter(None, [default_resource()])]
    if not found or any(uri not in known for uri in found):
        raise ValueError("not an endpoint of this site")
    return found


def why_not_a_resource(given: Iterable[str]) -> str:
    """Return an ``error_description`` for what ``chosen_resources`` rejected."""
    others = {resource_of(server) for server in servers()} - known_resources().keys()
    for uri in given:
        try:
            if canonical(uri) in others:
                return (
                    "resource is an endpoint that does not accept access tokens of this site. Call it without signing "
                    "in, or with a credential from its owner, such as an API key."
                )
        except ValueError:
            continue
    return "resource is not an endpoint of this site."


def default_scopes(uris: Iterable[str]) -> frozenset[str]:
    """Return the scopes of clients that request none: the endpoints', else the site's."""
    own = frozenset[str]().union(*(known_resources()[uri].scopes for uri in uris))
    return own or frozenset(settings.DEFAULT_SCOPES)


S256_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
"""A SHA-256 in base64url without padding (RFC 7636, section 4.2)."""


def is_blocked(request: Any) -> bool:
    policy = policy_of(request)
    return policy is not None and policy.blocked


def known(uris: Iterable[str]) -> list[str]:
    """Return canonical identifiers of those *uris* that are endpoints."""
    found = []
    for uri in uris:
        try:
            found += chosen_resources([uri])
        except ValueError:
            continue
    return list(dict.fromkeys(found))


def resources_asked_for(request: Any) -> list[str]:
    """Return requested endpoints, or the default.

    Raises:
        CustomOAuth2Error: ``invalid_target``: one is unknown (RFC 8707, section 2).
    """
    try:
        return chosen_resources(requested_resources(request))
    except ValueError:
        raise invalid_target(request) from None


def resources_granted(request: Any) -> list[str]:
    """Return the endpoints of a new token: a subset of those of its code or refresh token.

    Those issued without resource, for example before django_mcp was installed, open none.

    Raises:
        CustomOAuth2Error: ``invalid_target``: others are requested.
        InvalidGrantError: it was issued for no existing endpoint.
    """
    issued_for = known(stored_resources(request))
    if not issued_for:
        raise errors.InvalidGrantError(
            description="The code or token was not issued for an endpoint of this site.", request=request
        )
    wanted = resources_asked_for(request) if requested_resources(request) else issued_for
    if not set(wanted) <= set(issued_for):
        raise invalid_target(request)
    return wanted


def invalid_target(request: Any) -> errors.OAuth2Error:
    description = why_not_a_resource(requested_resources(request))
    return errors.CustomOAuth2Error(error="invalid_target", description=description, request=request)


def may_use(user: Any, resources: Iterable[str]) -> bool:
    if user is None or not user.is_active:
        return False
    return all(admits(known_resources()[uri], user) for uri in resources)


def scopes_granted(request: Any, asked: Iterable[str]) -> list[str]:
    """Return requested scopes the client may have, else the endpoints'."""
    policy = policy_of(request)
    limit = None if policy is None else policy.scopes
    offered = get_scopes_backend().get_available_scopes(application=request.client, request=request)
    default = default_scopes(resources_asked_for(request))
    return [scope for scope in granted_scopes(asked, default, limit) if scope in offered]


def check_challenge(request: Any) -> None:
    """Require PKCE with an explicit S256 (RFC 7636, sections 4.2 and 4.3; OAuth 2.1).

    Raises:
        InvalidRequestError: it is missing or invalid.
    """
    if request.code_challenge_method != "S256":
        raise errors.InvalidRequestError(description="code_challenge_method must be S256.", request=request)
    if not S256_CHALLENGE.fullmatch(request.code_challenge or ""):
        description = "code_challenge must be a SHA-256 in base64url: 43 characters."
        raise errors.InvalidRequestError(description=description, request=request)


VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")
"""A code verifier (RFC 7636, section 4.1)."""


def check_verifier(request: Any) -> None:
    """Require a code verifier that nobody can guess.

    Raises:
        InvalidRequestError: it is missing or malformed.
    """
    if not VERIFIER.fullmatch(request.code_verifier or ""):
        description = "code_verifier must be 43 to 128 characters: letters, digits, '-', '.', '_' or '~'."
        raise errors.InvalidRequestError(description=description, request=request)


def check_one_way(request: Any, basic: str | None) -> None:
    """Refuse two ways of client authentication in one request (RFC 6749, section 2.3).

    Args:
        basic: the credentials of ``Authorization: Basic``, or None without it.

    Raises:
        InvalidRequestError: there is a secret in the body too, or the id of another client.
    """
    if basic is None:
        return
    if request.client_secret:
        description = "Authenticate the client in one way: by the Authorization header or client_secret, not both."
        raise errors.InvalidRequestError(description=description, request=request)
    if request.client_id and _client_in(basic) not in {request.client_id, None}:
        description = "client_id must be that of the Authorization header."
        raise errors.InvalidRequestError(description=description, request=request)


def _client_in(basic: str) -> str | None:
    try:
        client_id, colon, _secret = base64.b64decode(basic).decode().partition(":")
    except ValueError:
        return None
    return unquote_plus(client_id) if colon else None


def is_service(request: Any) -> bool:
    """Return True if the client may act for itself.

    It must be registered manually and confidential, with an active ``service_account``.
    """
    application, policy = application_of(request), policy_of(request)
    return (
        settings.CLIENT_CREDENTIALS
        and application.registration_source == "manual"
        and application.client_type == AbstractApplication.CLIENT_CONFIDENTIAL
        and policy is not None
        and policy.service_account is not None
        and policy.service_account.is_active
    )
