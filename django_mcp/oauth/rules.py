"""What the site allows of what a request to the authorization server asks for."""

import re
from collections.abc import Iterable
from typing import Any

from oauthlib.oauth2.rfc6749 import errors

from django_mcp.conf import settings
from django_mcp.oauth.consent import granted
from django_mcp.oauth.reading import application_of, policy_of, requested, stored
from django_mcp.oauth.resources import chosen_resources, default_scopes, known_resources, why_not_a_resource
from django_mcp.oauth.toolkit import AbstractApplication, get_scopes_backend

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
        raise errors.InvalidGrantError(description="It was issued for no endpoint of this site.", request=request)
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
        and policy.acts_as is not None
        and policy.acts_as.is_active
    )
