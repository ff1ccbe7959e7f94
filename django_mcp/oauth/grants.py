"""Rules for grants: client, resource (RFC 8707), scopes and PKCE.

On oauthlib's *request*, unset attributes fall back to the client's parameters. State is therefore kept in ``Notes``.
"""

import hashlib
import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import F
from oauthlib.common import urldecode
from oauthlib.oauth2.rfc6749 import errors

from django_mcp.auth.base import authenticators
from django_mcp.auth.oauth import OAuth2Authentication
from django_mcp.auth.protected_resource import canonical, resource_of
from django_mcp.auth.toolkit import AbstractApplication, get_grant_model, get_refresh_token_model, get_scopes_backend
from django_mcp.conf import settings
from django_mcp.core.server import MCPServer, servers
from django_mcp.models import ClientPolicy
from django_mcp.oauth.consent import granted


def checksum_of(token: str) -> str:
    """Return the SHA-256 under which the toolkit stores a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def family_of(code: str) -> uuid.UUID:
    """Return the token family of an authorization code.

    Derived from the code, it identifies the tokens of a replayed code whose row is deleted. It does not reveal the
    code.
    """
    return uuid.UUID(bytes=hashlib.sha256(b"family of the code " + code.encode()).digest()[:16])


_UNREAD: Any = object()


@dataclass(slots=True)
class Notes:
    """Rows and state of one request; each row is read once.

    Attributes:
        superseded: a refresh token reused within the grace period.
        used: whether the authorization code has been invalidated.
    """

    grant: Any = _UNREAD
    refresh_token: Any = _UNREAD
    policy: Any = _UNREAD
    superseded: Any = None
    used: bool = False


def notes(request: Any) -> Notes:
    """Return the state of a request."""
    found: Notes = vars(request).setdefault("_django_mcp", Notes())
    return found


def application_of(request: Any) -> Any:
    """Return the client, or None before it is identified."""
    return request.client if isinstance(request.client, AbstractApplication) else None


def grant_of(request: Any) -> Any:
    """Return the authorization code's row if issued to this client, else None."""
    application, known = application_of(request), notes(request)
    if application is None or not request.code:
        return None
    if known.grant is _UNREAD:
        found = get_grant_model().objects.filter(code=request.code, application=application)
        known.grant = found.select_related("user").first()
    return known.grant


def refresh_token_of(request: Any) -> Any:
    """Return the refresh token's row, of any client: valid, or revoked last."""
    known, token = notes(request), request.refresh_token
    if not token:
        return None
    if known.refresh_token is _UNREAD:
        found = get_refresh_token_model().objects.filter(token_checksum=checksum_of(token))
        known.refresh_token = found.select_related("user").order_by(F("revoked").desc(nulls_first=True)).first()
    return known.refresh_token


def policy_of(request: Any) -> ClientPolicy | None:
    """Return the client's policy, or None."""
    application, known = application_of(request), notes(request)
    if application is None:
        return None
    if known.policy is _UNREAD:
        found = ClientPolicy.objects.filter(client_id=application.client_id)
        known.policy = found.select_related("service_account").first()
    policy: ClientPolicy | None = known.policy
    return policy


def requested(request: Any) -> list[str]:
    """Return the values of ``resource``, which may be repeated (RFC 8707, section 2)."""
    if isinstance(request.resource, list | tuple):
        return [str(each) for each in request.resource]
    sent = [*urldecode(request.uri_query), *(request.decoded_body or ())]
    return [value for name, value in sent if name == "resource" and value.strip()]


def stored(request: Any) -> list[str]:
    """Return the resources of a token request's code or refresh token."""
    row = {"authorization_code": grant_of, "refresh_token": refresh_token_of}.get(request.grant_type)
    found = row(request) if row else None
    return [str(each) for each in (found.resource or ())] if found is not None else []


def known_resources() -> Mapping[str, MCPServer]:
    """Return endpoints that accept this site's OAuth tokens by canonical identifier, in order of registration."""
    return {
        resource_of(server): server
        for server in servers()
        if any(isinstance(each, OAuth2Authentication) for each in authenticators(server))
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
    """Return True for a blocked client."""
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
        return chosen_resources(requested(request))
    except ValueError:
        raise invalid_target(request) from None


def resources_granted(request: Any) -> list[str]:
    """Return the endpoints of a new token: a subset of those of its code or refresh token.

    Those issued without resource, for example before django_mcp was installed, open none.

    Raises:
        CustomOAuth2Error: ``invalid_target``: others are requested.
        InvalidGrantError: it was issued for no existing endpoint.
    """
    issued_for = known(stored(request))
    if not issued_for:
        raise errors.InvalidGrantError(
            description="The code or token was not issued for an endpoint of this site.", request=request
        )
    wanted = resources_asked_for(request) if requested(request) else issued_for
    if not set(wanted) <= set(issued_for):
        raise invalid_target(request)
    return wanted


def invalid_target(request: Any) -> errors.OAuth2Error:
    """Return the error of RFC 8707 for a request."""
    description = why_not_a_resource(requested(request))
    return errors.CustomOAuth2Error(error="invalid_target", description=description, request=request)


def may_use(user: Any, resources: Iterable[str]) -> bool:
    """Return True if an active user passes every endpoint's test."""
    if user is None or not user.is_active:
        return False
    tests = [known_resources()[uri].user_passes_test for uri in resources]
    return all(test is None or test(user) for test in tests)


def scopes_granted(request: Any, asked: Iterable[str]) -> list[str]:
    """Return requested scopes the client may have, else the endpoints'."""
    policy = policy_of(request)
    limit = None if policy is None else policy.scopes
    offered = get_scopes_backend().get_available_scopes(application=request.client, request=request)
    default = default_scopes(resources_asked_for(request))
    return [scope for scope in granted(asked, default, limit) if scope in offered]


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


def is_service(request: Any) -> bool:
    """Return True if client credentials are allowed.

    The client must be registered manually and confidential, with an active ``service_account``.
    """
    application, policy = application_of(request), policy_of(request)
    return (
        settings.CLIENT_CREDENTIALS
        and application.registration_source == "manual"
        and application.client_type == AbstractApplication.CLIENT_CONFIDENTIAL
        and application.allows_grant_type(AbstractApplication.GRANT_CLIENT_CREDENTIALS)
        and policy is not None
        and policy.service_account is not None
        and policy.service_account.is_active
    )
