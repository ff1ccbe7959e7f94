"""The validator for django-oauth-toolkit, with MCP's rules for authorization codes and refresh tokens.

Processes of one client may refresh with the same token at the same time. Without a grace period, the second would look
like theft and revoke the first one's tokens. The toolkit's grace period returns the first tokens again, which requires
them in clear text; here the second process gets its own.

``Validator`` applies the rules to all clients. ``MCPValidatorMixin``, before a site's own validator, applies them only
to requests that concern MCP.
"""

import datetime
import hashlib
import logging
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from typing import Any, NamedTuple

from django.contrib.auth.hashers import identify_hasher, make_password
from django.db import router, transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from oauthlib.oauth2.rfc6749 import errors

from django_mcp.auth.grant_types import GRANT_TYPES, is_of_service
from django_mcp.auth.oauth import KINDS
from django_mcp.auth.toolkit import (
    GRANT_TYPE_MAPPING,
    AbstractApplication,
    OAuth2Validator,
    get_access_token_model,
    get_application_model,
    get_refresh_token_model,
    is_cimd_client_id,
    oauth2_settings,
)
from django_mcp.conf import settings
from django_mcp.core.permissions import declared, expanded
from django_mcp.oauth import grants
from django_mcp.oauth.cimd import is_withdrawn
from django_mcp.oauth.consent import granted_scopes
from django_mcp.oauth.grants import checksum_of, family_of
from django_mcp.oauth.networks import seconds_to_wait
from django_mcp.oauth.redirect_uris import is_registered
from django_mcp.oauth.register import hash_secret, is_fast_hash
from django_mcp.primitives.base import Rate
from django_mcp.pubsub.publish import end_access, end_streams

logger = logging.getLogger("django_mcp")


SECRET_RATE = Rate(20, 60)
"""Slow comparisons of client secrets per address: a fifth of a second of processor time each."""

MAX_VERIFIED = 1000


class TooManySecrets(errors.OAuth2Error):  # type: ignore[misc]
    """An address has sent too many wrong client secrets.

    Args:
        wait: seconds until it may try again.
    """

    error = "temporarily_unavailable"

    def __init__(self, wait: int) -> None:
        super().__init__(description="Too many attempts to authenticate a client. Retry later.", status_code=429)
        self.wait = wait

    @property
    def headers(self) -> dict[str, str]:
        return {"Retry-After": str(self.wait)}


class _Attempt:
    """The authentication of a client in one request: what it has cost."""

    def __init__(self, meta: Mapping[str, object]) -> None:
        self.meta = meta
        self.is_counted = False

    def count(self) -> None:
        """Count one slow comparison.

        Raises:
            TooManySecrets: the address or its network has reached the limit.
        """
        if not self.is_counted:
            self.is_counted = True
            if (wait := seconds_to_wait("failing client secrets", SECRET_RATE, self.meta)) is not None:
                raise TooManySecrets(wait)


# The toolkit calls _check_secret() without the request.
_attempt: ContextVar[_Attempt | None] = ContextVar("attempt", default=None)
_verified: dict[str, None] = {}
"""Digests of secrets and their slow hashes that this process has compared, so that clients pay once."""


class ClientAuthenticationMixin(OAuth2Validator):  # type: ignore[misc]
    """Hooks for the identification of clients, which anyone can attempt: no fetches, and a bounded number of hashes."""

    def _load_application(self, client_id: Any, request: Any) -> Any:
        # The toolkit's own would fetch metadata documents for requests of anybody.
        client = request.client
        if not isinstance(client, AbstractApplication) or client.client_id != client_id:
            # PostgreSQL cannot look up a NUL character.
            found = get_application_model().objects.filter(client_id=client_id)
            client = None if "\0" in str(client_id) else found.first()
        request.client = client if client is not None and client.is_usable(request) else None
        return request.client

    def authenticate_client(self, request: Any, *args: Any, **kwargs: Any) -> bool:
        """Return True if the client has sent its secret.

        A wrong one costs a slow hash and counts for its address, whether or not the client exists and whatever it has.

        Raises:
            TooManySecrets: the address has sent too many.
        """
        attempt = _Attempt(request.headers)
        token = _attempt.set(attempt)
        try:
            if super().authenticate_client(request, *args, **kwargs):
                return True
            if not attempt.is_counted and (self._extract_basic_auth(request) or request.client_secret):
                attempt.count()
                make_password("no client's secret", hasher=oauth2_settings.CLIENT_SECRET_HASHER)
            return False
        finally:
            _attempt.reset(token)

    def _check_secret(self, provided_secret: str, stored_secret: str) -> bool:
        if not provided_secret or not stored_secret or "\0" in provided_secret:
            return False
        if is_fast_hash(stored_secret):
            return constant_time_compare(hash_secret(provided_secret), stored_secret)
        try:
            identify_hasher(stored_secret)
        except ValueError:  # stored as it is
            return constant_time_compare(provided_secret, stored_secret)
        digest = hashlib.sha256(f"{stored_secret} {provided_secret}".encode()).hexdigest()
        if digest in _verified:
            return True
        if (attempt := _attempt.get()) is not None:
            attempt.count()
        if not super()._check_secret(provided_secret, stored_secret):
            return False
        # Cleared as a whole, which costs each client one slow hash: an order of use would cost at each request.
        if len(_verified) >= MAX_VERIFIED:
            _verified.clear()
        _verified[digest] = None
        return True


class AuthorizationCodeMixin(OAuth2Validator):  # type: ignore[misc]
    """Hooks for authorization codes.

    A code's row is read once, because concurrent requests may delete it.
    """

    def concerns_mcp(self, request: Any) -> bool:
        raise NotImplementedError

    def is_pkce_required(self, client_id: str, request: Any) -> Any:
        return True if self.concerns_mcp(request) else super().is_pkce_required(client_id, request)

    def _create_authorization_code(self, request: Any, code: Any, expires: Any = None) -> Any:
        if self.concerns_mcp(request):
            grants.check_challenge(request)
            request.resource = grants.resources_asked_for(request)
            grants.check_agreement(request)
            if grants.is_blocked(request):
                raise errors.UnauthorizedClientError(request=request)
            if not grants.may_use(request.user, request.resource):
                description = "This user may not use the endpoint."
                raise errors.AccessDeniedError(description=description, request=request)
        return super()._create_authorization_code(request, code, expires)

    def validate_code(self, client_id: str, code: str, client: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        if self.concerns_mcp(request):
            grant = grants.grant_of(request)
            # It may be a replay: tokens issued for the code are revoked (RFC 6749, section 4.1.2).
            if grant is None:
                revoke_issued_for(code, client)
                return False
            if grant.code_challenge_method != "S256" or not grant.code_challenge or not grant.user.is_active:
                return False
            grants.check_verifier(request)
        return super().validate_code(client_id, code, client, request, *args, **kwargs)

    def get_code_challenge(self, code: str, request: Any) -> Any:
        if not self.concerns_mcp(request):
            return super().get_code_challenge(code, request)
        return grants.grant_of(request).code_challenge

    def get_code_challenge_method(self, code: str, request: Any) -> Any:
        if not self.concerns_mcp(request):
            return super().get_code_challenge_method(code, request)
        return grants.grant_of(request).code_challenge_method

    def confirm_redirect_uri(
        self, client_id: str, code: str, redirect_uri: str, client: Any, request: Any, *args: Any, **kwargs: Any
    ) -> Any:
        if not self.concerns_mcp(request):
            return super().confirm_redirect_uri(client_id, code, redirect_uri, client, request, *args, **kwargs)
        return grants.grant_of(request).redirect_uri_allowed(redirect_uri)

    def invalidate_authorization_code(self, client_id: str, code: str, request: Any, *args: Any, **kwargs: Any) -> None:
        # _save_bearer_token may have deleted it already.
        if not grants.state_of(request).used:
            super().invalidate_authorization_code(client_id, code, request, *args, **kwargs)

    def _save_bearer_token(self, token: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        if request.grant_type == "authorization_code" and self.concerns_mcp(request):
            # In the transaction that saves the tokens, so that only one of two concurrent requests gets any.
            super().invalidate_authorization_code(request.client_id, request.code, request)
            grants.state_of(request).used = True
        return super()._save_bearer_token(token, request, *args, **kwargs)


def revoke_issued_for(code: str, client: Any) -> None:
    model, family = get_refresh_token_model(), family_of(code)
    if model.objects.filter(token_family=family, application=client).exists():
        logger.warning("Client %s used an authorization code twice. All tokens issued for it are revoked.", client.pk)
        revoke_login(family)


def revoke_login(family: Any) -> None:
    """Revoke the tokens of a login, and end its streams; see ``end_callers``."""
    model = get_refresh_token_model()
    callers = set(model.objects.filter(token_family=family).values_list("user_id", "application_id"))
    model.revoke_family(family)
    end_callers(callers)


def end_callers(callers: Iterable[tuple[Any, Any]]) -> None:
    """End the streams of users of applications, and the tasks of those who have no other login there.

    A stream does not know its login. Those of another one are opened again.
    """
    access, refresh, now = get_access_token_model().objects, get_refresh_token_model().objects, timezone.now()
    for user, application in callers:
        theirs = {"user": user, "application": application}
        is_left = access.filter(**theirs, expires__gt=now).exists() or refresh.filter(**theirs, revoked=None).exists()
        for kind in KINDS:
            (end_streams if is_left else end_access)(kind, f"{user}:{application}")


MAX_SIBLINGS = 8
"""Maximum number of valid refresh tokens per login."""


def was_superseded(row: Any, client: Any) -> bool:
    """Return True if a token of *client* was replaced, not revoked, within the grace period.

    Its access token exists until the next refresh, so a token replaced twice cannot be reused.
    """
    since = timezone.now() - datetime.timedelta(seconds=settings.REFRESH_TOKEN_GRACE_TTL)
    return (
        row.revoked is not None
        and row.revoked > since
        and row.application_id == client.pk
        and row.user.is_active
        and successor_of(row) is not None
        and live_siblings(row) > 0
    )


def successor_of(row: Any) -> Any:
    return get_access_token_model().objects.filter(source_refresh_token=row).first()


def live_siblings(row: Any) -> int:
    if row.token_family is None:
        return 0
    family = get_refresh_token_model().objects.filter(token_family=row.token_family)
    return int(family.filter(revoked=None, access_token__isnull=False).count())


def is_full(row: Any) -> bool:
    # The request is denied, but the other tokens stay valid.
    full = live_siblings(row) >= MAX_SIBLINGS
    if full:
        logger.warning("Refresh token %s was reused, but its login has %s valid ones already.", row.pk, MAX_SIBLINGS)
    return full


def lock_rows(rows: Any) -> int:
    # By UPDATE: SQLite has no SELECT FOR UPDATE, and rejects writes of a transaction that read before another one
    # wrote.
    return int(rows.update(updated=timezone.now()))


def lock_and_reload(row: Any) -> Any:
    """Lock a row and return its current state, or None if it is gone."""
    found = get_refresh_token_model().objects.filter(pk=row.pk)
    return found.select_related("user").first() if lock_rows(found) else None


class RefreshTokenReused(Exception):
    """A refresh token was reused after its grace period or revocation."""


class Family(NamedTuple):
    """Stands for the previous token when a login's first refresh token is created."""

    token_family: Any


class RefreshTokenMixin(OAuth2Validator):  # type: ignore[misc]
    """Hooks for refresh tokens."""

    def concerns_mcp(self, request: Any) -> bool:
        raise NotImplementedError

    def validate_refresh_token(self, refresh_token: str, client: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        if not self.concerns_mcp(request):
            return super().validate_refresh_token(refresh_token, client, request, *args, **kwargs)
        with transaction.atomic(using=router.db_for_write(get_refresh_token_model())):
            row = self._locked_refresh_token(request)
            if row is not None and was_superseded(row, client):
                if is_full(row):
                    return False
                grants.state_of(request).superseded = row
                request.user, request.refresh_token, request.refresh_token_instance = row.user, refresh_token, None
                return True
            valid = super().validate_refresh_token(refresh_token, client, request, *args, **kwargs)
        if row is not None and row.revoked is not None and not valid and oauth2_settings.REFRESH_TOKEN_REUSE_PROTECTION:
            revoke_login(row.token_family)  # as the toolkit has done, which knows no streams
        return valid and row is not None and row.user.is_active

    @staticmethod
    def _locked_refresh_token(request: Any) -> Any:
        # If the row were replaced before the toolkit reads it again, the toolkit would assume theft.
        row = grants.refresh_token_of(request)
        if row is not None:
            row = grants.state_of(request).refresh_token = lock_and_reload(row)
        return row

    def get_original_scopes(self, refresh_token: str, request: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the scopes of the replaced tokens the client may still have.

        Raises:
            InvalidGrantError: none is left.
        """
        superseded = grants.state_of(request).superseded
        if superseded is not None:
            original = getattr(successor_of(superseded), "scope", "")
        else:
            original = super().get_original_scopes(refresh_token, request, *args, **kwargs)
        if not self.concerns_mcp(request):
            return original
        scopes = _still_allowed(request, original.split() if isinstance(original, str) else original)
        if not scopes:
            raise errors.InvalidGrantError(request=request)
        return scopes

    def is_within_original_scope(
        self, request_scopes: list[str], refresh_token: str, request: Any, *args: Any, **kwargs: Any
    ) -> Any:
        if not self.concerns_mcp(request):
            return super().is_within_original_scope(request_scopes, refresh_token, request, *args, **kwargs)
        # Unknown scopes are dropped.
        original, known = self.get_original_scopes(refresh_token, request), declared()
        request_scopes[:] = [scope for scope in request_scopes if scope in known] or original
        return set(request_scopes) <= expanded(frozenset(original))

    def save_bearer_token(self, token: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        """Save the tokens, or revoke the family of a reused refresh token.

        Raises:
            InvalidGrantError: it was reused, or the login has too many tokens.
        """
        try:
            return super().save_bearer_token(token, request, *args, **kwargs)
        except RefreshTokenReused:
            # Outside the transaction, which was rolled back.
            if oauth2_settings.REFRESH_TOKEN_REUSE_PROTECTION:
                revoke_login(grants.refresh_token_of(request).token_family)
            raise errors.InvalidGrantError(request=request) from None

    def _save_bearer_token(self, token: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        if request.grant_type == "refresh_token" and self.concerns_mcp(request):
            self._serialize_refreshes(request)
        return super()._save_bearer_token(token, request, *args, **kwargs)

    def _serialize_refreshes(self, request: Any) -> None:
        """Serialize requests with one refresh token: for all but the first it is superseded.

        Raises:
            InvalidGrantError: the login has too many tokens.
            RefreshTokenReused: it was revoked meanwhile.
        """
        live = get_refresh_token_model().objects.filter(pk=grants.refresh_token_of(request).pk, revoked=None)
        if lock_rows(live):
            return
        row = lock_and_reload(grants.refresh_token_of(request))
        if row is None or not was_superseded(row, request.client):
            raise RefreshTokenReused
        if is_full(row):
            raise errors.InvalidGrantError(request=request)
        logger.info(
            "Refresh token %s of user %s and client %s was reused within its grace period.",
            *(row.pk, row.user_id, row.application_id),
        )
        grants.state_of(request).superseded, request.refresh_token_instance = row, None

    def _create_refresh_token(self, request: Any, refresh_token_code: str, access_token: Any, previous: Any) -> Any:
        if previous is None and self.concerns_mcp(request):
            if request.grant_type == "authorization_code":
                previous = Family(family_of(request.code))
            else:
                previous = grants.state_of(request).superseded
        return super()._create_refresh_token(request, refresh_token_code, access_token, previous)

    def revoke_token(self, token: str, token_type_hint: str | None, request: Any, *args: Any, **kwargs: Any) -> None:
        checksum, application = checksum_of(token), getattr(request.client, "pk", None)
        own = get_refresh_token_model().objects.filter(application_id=application)
        rows = [*own.filter(Q(token_checksum=checksum) | Q(access_token__token_checksum=checksum))]
        # Client credentials have no refresh token.
        rows += get_access_token_model().objects.filter(application_id=application, token_checksum=checksum)
        ours = [row for row in rows if self.concerns_mcp(request) or grants.known(row.resource or ())]
        # With the other tokens of its login (RFC 7009, section 2.1).
        for row in ours:
            if (family := getattr(row, "token_family", None)) is not None:
                revoke_login(family)
        super().revoke_token(token, token_type_hint, request, *args, **kwargs)
        end_callers({(row.user_id, row.application_id) for row in ours})


def _still_allowed(request: Any, scopes: Iterable[str]) -> list[str]:
    policy = grants.policy_of(request)
    return list(granted_scopes(scopes, (), None if policy is None else policy.scopes))


class MCPValidatorMixin(ClientAuthenticationMixin, AuthorizationCodeMixin, RefreshTokenMixin):
    """MCP's rules for requests that concern MCP. Others go to the next class.

    - Tokens are bound to the endpoints the user agreed to (RFC 8707).
    - Grants are codes with PKCE (S256), refresh tokens, and client credentials of chosen clients.
    - Unknown scopes are dropped.
    - Inactive users, users an endpoint excludes and blocked clients get no tokens.
    """

    def concerns_mcp(self, request: Any) -> bool:
        """Return True if the request or its token names an endpoint, or its client registered itself."""
        application = grants.application_of(request)
        if application is not None and grants.is_self_registered(application):
            return True
        return bool(grants.known([*grants.requested_resources(request), *grants.stored_resources(request)]))

    def authenticate_client(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        """Return True if the client has sent its secret, in one way.

        A view that wants to know who asks, such as the toolkit's introspection or one of the site for its clients, does
        not expect errors, and clients that registered themselves are nobody there: anyone can.

        Raises:
            InvalidRequestError: in two; the toolkit would accept the one that is right.
            TooManySecrets: the address has sent too many.
        """
        try:
            # Before secrets are compared, and when it is known whose they are.
            if self.concerns_mcp(request):
                grants.check_one_way(request, self._basic_credentials(request))
            is_authentic = super().authenticate_client(request, *args, **kwargs)
            if self.concerns_mcp(request):
                grants.check_one_way(request, self._basic_credentials(request))
        except errors.OAuth2Error:
            if grants.is_at_endpoint(request):
                raise
            return False
        return is_authentic and (grants.is_at_endpoint(request) or not grants.is_self_registered(request.client))

    def client_authentication_required(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        grants.state_of(request).at_endpoint = True
        return super().client_authentication_required(request, *args, **kwargs)

    def _extract_basic_auth(self, request: Any) -> str | None:
        credentials = self._basic_credentials(request)
        return credentials if credentials and credentials.isascii() else None  # the toolkit fails at others

    @staticmethod
    def _basic_credentials(request: Any) -> str | None:
        # The scheme may be in any case (RFC 9110, section 11.1).
        scheme, _, credentials = (request.headers.get("HTTP_AUTHORIZATION") or "").partition(" ")
        return credentials.strip(" ") if scheme.lower() == "basic" else None

    def validate_client_id(self, client_id: str, request: Any, *args: Any, **kwargs: Any) -> Any:
        """Return True if the client may use the authorization endpoint.

        One that registered itself may use ``AuthorizeView`` alone: others skip consent if a client wants it, and send
        errors to an address that anyone can register. Its error is shown, not sent.
        """
        if grants.is_at_own_view(request):
            return super().validate_client_id(client_id, request, *args, **kwargs)
        if is_cimd_client_id(client_id):  # without a fetch
            return False
        found = super().validate_client_id(client_id, request, *args, **kwargs)
        return found and not grants.is_self_registered(request.client)

    def validate_grant_type(
        self, client_id: str, grant_type: str, client: Any, request: Any, *args: Any, **kwargs: Any
    ) -> Any:
        if not self.concerns_mcp(request):
            known = grant_type in GRANT_TYPE_MAPPING
            return known and super().validate_grant_type(client_id, grant_type, client, request, *args, **kwargs)
        if grants.is_blocked(request) or is_withdrawn(request.client):
            return False
        ours = GRANT_TYPES.get(grant_type)
        if ours is None or not request.client.allows_grant_type(ours.stored):
            return False
        return not ours.is_of_service or grants.is_service(request)

    def validate_redirect_uri(self, client_id: str, redirect_uri: str, request: Any, *args: Any, **kwargs: Any) -> Any:
        # The toolkit ignores the host's case.
        allowed = super().validate_redirect_uri(client_id, redirect_uri, request, *args, **kwargs)
        is_ours = self.concerns_mcp(request)
        return allowed and (not is_ours or is_registered(redirect_uri, request.client.redirect_uris.split()))

    def validate_response_type(
        self, client_id: str, response_type: str, client: Any, request: Any, *args: Any, **kwargs: Any
    ) -> Any:
        # code is the only response type of OAuth 2.1.
        allowed = super().validate_response_type(client_id, response_type, client, request, *args, **kwargs)
        return allowed and (response_type == "code" or not self.concerns_mcp(request))

    def validate_user(self, username: str, password: str, client: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        # OAuth 2.1 has no password grant. The password is not checked, as it could be guessed otherwise.
        if self.concerns_mcp(request):
            raise errors.UnauthorizedClientError(request=request)
        return super().validate_user(username, password, client, request, *args, **kwargs)

    def validate_scopes(
        self, client_id: str, scopes: list[str], client: Any, request: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Reduce *scopes* to those the client may have, and check PKCE and resource, for which oauthlib has no hook.

        Raises:
            OAuth2Error: PKCE or resource is invalid.
        """
        if not self.concerns_mcp(request):
            return super().validate_scopes(client_id, scopes, client, request, *args, **kwargs)
        if request.response_type:
            grants.check_view(request)
            grants.check_challenge(request)
            grants.resources_asked_for(request)
        scopes[:] = grants.scopes_granted(request, scopes)
        return bool(scopes)

    def _check_and_set_request_resource(self, request: Any) -> None:
        """Set a token's endpoints, which its user must be allowed to use.

        Raises:
            OAuth2Error: ``invalid_target`` or ``invalid_grant``.
        """
        if not self.concerns_mcp(request):
            super()._check_and_set_request_resource(request)
            return
        if is_of_service(request.grant_type):
            user, resources = grants.policy_of(request).service_account, grants.resources_asked_for(request)  # type: ignore[union-attr]
        else:
            user, resources = request.user, grants.resources_granted(request)
        if not grants.may_use(user, resources):
            raise errors.InvalidGrantError(description="This user may not use the endpoint.", request=request)
        request.resource = resources

    def _create_access_token(self, expires: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        if is_of_service(request.grant_type) and self.concerns_mcp(request):
            # The endpoint compares the token's user with the policy at every use.
            request.user = grants.policy_of(request).service_account  # type: ignore[union-attr]
        return super()._create_access_token(expires, request, *args, **kwargs)


class Validator(MCPValidatorMixin):
    """MCP's rules for every client."""

    def concerns_mcp(self, request: Any) -> bool:  # noqa: ARG002
        return True
