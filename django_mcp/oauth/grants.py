"""What may be granted: client, resource (RFC 8707), scopes and PKCE.

Requests here are oauthlib's: attributes are parameters, and what nobody has set is looked up among what the client
sent. What we remember of a request is therefore kept where no parameter can reach.
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
    """The SHA-256 by which django-oauth-toolkit stores and finds a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def family_of(code: str) -> uuid.UUID:
    """The family of all tokens that come from an authorization code.

    It is derived from the code, so that a code which is used twice leads to what was issued from it, although its
    row is gone. It does not lead back to the code.
    """
    return uuid.UUID(bytes=hashlib.sha256(b"family of the code " + code.encode()).digest()[:16])


_UNREAD: Any = object()


@dataclass(slots=True)
class Notes:
    """What was read for one request, each row once.

    Attributes:
        grant: the authorization code's row, or None.
        refresh_token: the refresh token's row, or None.
        policy: the client's ``ClientPolicy``, or None.
        superseded: a refresh token that is used again within the grace period.
        used: the authorization code has been taken out.
    """

    grant: Any = _UNREAD
    refresh_token: Any = _UNREAD
    policy: Any = _UNREAD
    superseded: Any = None
    used: bool = False


def notes(request: Any) -> Notes:
    """What we know of a request so far."""
    found: Notes = vars(request).setdefault("_django_mcp", Notes())
    return found


def application_of(request: Any) -> Any:
    """The client, once it is known; None before."""
    return request.client if isinstance(request.client, AbstractApplication) else None


def grant_of(request: Any) -> Any:
    """The authorization code that is exchanged, if it was issued to this client; None for none."""
    application, known = application_of(request), notes(request)
    if application is None or not request.code:
        return None
    if known.grant is _UNREAD:
        found = get_grant_model().objects.filter(code=request.code, application=application)
        known.grant = found.select_related("user").first()
    return known.grant


def refresh_token_of(request: Any) -> Any:
    """The refresh token that is used, whoever's it is: the live one, or the one that was revoked last."""
    known, token = notes(request), request.refresh_token
    if not token:
        return None
    if known.refresh_token is _UNREAD:
        found = get_refresh_token_model().objects.filter(token_checksum=checksum_of(token))
        known.refresh_token = found.select_related("user").order_by(F("revoked").desc(nulls_first=True)).first()
    return known.refresh_token


def policy_of(request: Any) -> ClientPolicy | None:
    """What the site's owner decided about the client."""
    application, known = application_of(request), notes(request)
    if application is None:
        return None
    if known.policy is _UNREAD:
        found = ClientPolicy.objects.filter(client_id=application.client_id)
        known.policy = found.select_related("service_account").first()
    policy: ClientPolicy | None = known.policy
    return policy


def requested(request: Any) -> list[str]:
    """Resources that a request names, as the client spells them; may be repeated (RFC 8707, section 2)."""
    if isinstance(request.resource, list | tuple):
        return [str(each) for each in request.resource]
    sent = [*urldecode(request.uri_query), *(request.decoded_body or ())]
    return [value for name, value in sent if name == "resource" and value.strip()]


def stored(request: Any) -> list[str]:
    """Resources that the code or refresh token of a token request was issued for."""
    row = {"authorization_code": grant_of, "refresh_token": refresh_token_of}.get(request.grant_type)
    found = row(request) if row else None
    return [str(each) for each in (found.resource or ())] if found is not None else []


def known_resources() -> Mapping[str, MCPServer]:
    """Endpoints that take OAuth tokens of this site by their canonical identifier, in the order they were made."""
    return {
        resource_of(server): server
        for server in servers()
        if any(isinstance(each, OAuth2Authentication) for each in authenticators(server))
    }


def default_resource() -> str | None:
    """What a client that names no resource gets access to, as clients of 2025-03-26 do; None where there is nothing."""
    return next(iter(known_resources()), None)


def chosen_resources(given: Iterable[str]) -> list[str]:
    """The canonical identifiers of what a request names, each once; the default where it names nothing.

    Raises:
        ValueError: one of them is no endpoint of ours, or there is none at all.
    """
    known = known_resources()
    found = list(dict.fromkeys(canonical(uri) for uri in given)) or [*filter(None, [default_resource()])]
    if not found or any(uri not in known for uri in found):
        raise ValueError("not an endpoint of this site")
    return found


def why_not_a_resource(given: Iterable[str]) -> str:
    """Return why ``chosen_resources`` refused what a request names, in the words of an ``error_description``."""
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
    """What a client gets that asks for no scope: those that calls need at the endpoints, or the site's default.

    Args:
        uris: of endpoints, in canonical form.
    """
    own = frozenset[str]().union(*(known_resources()[uri].scopes for uri in uris))
    return own or frozenset(settings.DEFAULT_SCOPES)


S256_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
"""A SHA-256 in base64url without padding (RFC 7636, section 4.2)."""


def is_blocked(request: Any) -> bool:
    """Whether the client is to get nothing."""
    policy = policy_of(request)
    return policy is not None and policy.blocked


def known(uris: Iterable[str]) -> list[str]:
    """Those of *uris* that are endpoints of ours, in canonical form."""
    found = []
    for uri in uris:
        try:
            found += chosen_resources([uri])
        except ValueError:
            continue
    return list(dict.fromkeys(found))


def resources_asked_for(request: Any) -> list[str]:
    """Endpoints that a request names, in canonical form; the default one where it names none.

    Raises:
        CustomOAuth2Error: ``invalid_target``: one of them is unknown (RFC 8707, section 2).
    """
    try:
        return chosen_resources(requested(request))
    except ValueError:
        raise invalid_target(request) from None


def resources_granted(request: Any) -> list[str]:
    """Endpoints that a token will be for: of those its code or refresh token was issued for, those that are asked for.

    Nothing is bound late: what was issued for no resource, as before django_mcp was there, opens none.

    Raises:
        CustomOAuth2Error: ``invalid_target``: it asks for others.
        InvalidGrantError: it was issued for none that there is.
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
    """The error of RFC 8707; it carries what the redirect needs."""
    description = why_not_a_resource(requested(request))
    return errors.CustomOAuth2Error(error="invalid_target", description=description, request=request)


def may_use(user: Any, resources: Iterable[str]) -> bool:
    """Whether a user is active, and all of these endpoints are for them."""
    if user is None or not user.is_active:
        return False
    tests = [known_resources()[uri].user_passes_test for uri in resources]
    return all(test is None or test(user) for test in tests)


def scopes_granted(request: Any, asked: Iterable[str]) -> list[str]:
    """Of the scopes asked for, those the client may have; the endpoints' own where it asks for none that exist."""
    policy = policy_of(request)
    limit = None if policy is None else policy.scopes
    offered = get_scopes_backend().get_available_scopes(application=request.client, request=request)
    default = default_scopes(resources_asked_for(request))
    return [scope for scope in granted(asked, default, limit) if scope in offered]


def check_challenge(request: Any) -> None:
    """Insist on a proof key by S256, named (RFC 7636, sections 4.2 and 4.3; OAuth 2.1).

    Raises:
        InvalidRequestError: it is missing, or another one.
    """
    if request.code_challenge_method != "S256":
        raise errors.InvalidRequestError(description="code_challenge_method must be S256.", request=request)
    if not S256_CHALLENGE.fullmatch(request.code_challenge or ""):
        description = "code_challenge must be a SHA-256 in base64url: 43 characters."
        raise errors.InvalidRequestError(description=description, request=request)


def is_service(request: Any) -> bool:
    """Whether the client may act without a person: it was registered by hand, keeps a secret, and has its user."""
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
