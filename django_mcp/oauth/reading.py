"""What is read for a request to the authorization server, each row once.

Requests here are oauthlib's: attributes are parameters, and what nobody has set is looked up among what the client
sent. What we remember of a request is therefore kept where no parameter can reach.
"""

from dataclasses import dataclass
from typing import Any

from django.db.models import F
from oauthlib.common import urldecode

from django_mcp.models import ClientPolicy
from django_mcp.oauth.checksums import checksum_of
from django_mcp.oauth.toolkit import AbstractApplication, get_grant_model, get_refresh_token_model

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
        known.policy = found.select_related("acts_as").first()
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
