"""The validator of the authorization server: authorization codes and refresh tokens held to MCP's rules.

Several processes of one client refresh with the same token at the same time. Without a grace period the second would
be taken for a thief, and lose the first its tokens too. django-oauth-toolkit has such a period, but hands out the
first one's tokens again, which it can only where it stores them in clear text. Here the second gets tokens of its own.

``Validator`` is for a site whose authorization server is there for MCP. A site that had one before puts
``MCPValidatorMixin`` before its own validator, whose clients then keep the rules they had.
"""

import datetime
import logging
from collections.abc import Iterable
from typing import Any, NamedTuple

from django.db import router, transaction
from django.db.models import Q
from django.utils import timezone
from oauthlib.oauth2.rfc6749 import errors

from django_mcp.auth.toolkit import (
    GRANT_TYPE_MAPPING,
    AbstractApplication,
    OAuth2Validator,
    get_access_token_model,
    get_refresh_token_model,
    oauth2_settings,
)
from django_mcp.conf import settings
from django_mcp.core.permissions import declared, expanded
from django_mcp.oauth import grants
from django_mcp.oauth.consent import granted
from django_mcp.oauth.grants import checksum_of, family_of
from django_mcp.oauth.register import is_registered

logger = logging.getLogger("django_mcp")


class CodeRules(OAuth2Validator):  # type: ignore[misc]
    """The hooks for codes. What is not MCP's goes to the next class.

    A code's row is read once: requests with the same code at the same time may take it from each other.
    """

    def concerns_mcp(self, request: Any) -> bool:
        """Whether our rules are for this request."""
        raise NotImplementedError

    def is_pkce_required(self, client_id: str, request: Any) -> Any:
        """Always."""
        return True if self.concerns_mcp(request) else super().is_pkce_required(client_id, request)

    def _create_authorization_code(self, request: Any, code: Any, expires: Any = None) -> Any:
        if self.concerns_mcp(request):
            grants.check_challenge(request)
            request.resource = grants.resources_asked_for(request)
            if grants.is_blocked(request):
                raise errors.UnauthorizedClientError(request=request)
            if not grants.may_use(request.user, request.resource):
                description = "This user may not use the endpoint."
                raise errors.AccessDeniedError(description=description, request=request)
        return super()._create_authorization_code(request, code, expires)

    def validate_code(self, client_id: str, code: str, client: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        """Whether the code is this client's, unused and fresh, and its person still active.

        A code that is gone may have been used: then what was issued for it is revoked (RFC 6749, section 4.1.2).
        """
        if self.concerns_mcp(request):
            grant = grants.grant_of(request)
            if grant is None:
                revoke_issued_for(code, client)
                return False
            if grant.code_challenge_method != "S256" or not grant.code_challenge or not grant.user.is_active:
                return False
        return super().validate_code(client_id, code, client, request, *args, **kwargs)

    def get_code_challenge(self, code: str, request: Any) -> Any:
        """The code's own."""
        if not self.concerns_mcp(request):
            return super().get_code_challenge(code, request)
        return grants.grant_of(request).code_challenge

    def get_code_challenge_method(self, code: str, request: Any) -> Any:
        """S256."""
        if not self.concerns_mcp(request):
            return super().get_code_challenge_method(code, request)
        return grants.grant_of(request).code_challenge_method

    def confirm_redirect_uri(
        self, client_id: str, code: str, redirect_uri: str, client: Any, request: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Whether it is the one the code was sent to, character by character."""
        if not self.concerns_mcp(request):
            return super().confirm_redirect_uri(client_id, code, redirect_uri, client, request, *args, **kwargs)
        return grants.grant_of(request).redirect_uri_allowed(redirect_uri)

    def invalidate_authorization_code(self, client_id: str, code: str, request: Any, *args: Any, **kwargs: Any) -> None:
        """Nothing, where saving the tokens has done it."""
        if not grants.notes(request).used:
            super().invalidate_authorization_code(client_id, code, request, *args, **kwargs)

    def _save_bearer_token(self, token: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        """Take the code out and save its tokens in one transaction, so that of several at once just one gets any.

        Raises:
            InvalidGrantError: another request was faster.
        """
        if request.grant_type == "authorization_code" and self.concerns_mcp(request):
            super().invalidate_authorization_code(request.client_id, request.code, request)
            grants.notes(request).used = True
        return super()._save_bearer_token(token, request, *args, **kwargs)


def revoke_issued_for(code: str, client: Any) -> None:
    """Revoke what was issued to a client for a code, if anything was."""
    model, family = get_refresh_token_model(), family_of(code)
    if model.objects.filter(token_family=family, application=client).exists():
        logger.warning("Client %s used an authorization code twice: all tokens from it are revoked.", client.pk)
        model.revoke_family(family)


MAX_SIBLINGS = 8
"""Live refresh tokens that one login may have."""


def was_superseded(row: Any, client: Any) -> bool:
    """Whether a refresh token of *client* was replaced, not revoked, within the grace period.

    The access token that came of its use is there as long as nobody went on from it; so no token can be used again
    that was replaced twice.
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
    """The access token that came of a refresh token's use; None where there is none any more."""
    return get_access_token_model().objects.filter(source_refresh_token=row).first()


def live_siblings(row: Any) -> int:
    """How many refresh tokens of the same login are good."""
    if row.token_family is None:
        return 0
    family = get_refresh_token_model().objects.filter(token_family=row.token_family)
    return int(family.filter(revoked=None, access_token__isnull=False).count())


def is_full(row: Any) -> bool:
    """Whether its login may have no more; which is refused, but costs the others nothing."""
    full = live_siblings(row) >= MAX_SIBLINGS
    if full:
        logger.warning("Refresh token %s was used again, but its login has %s others.", row.pk, MAX_SIBLINGS)
    return full


def lock(rows: Any) -> int:
    """Hold rows until the transaction ends; how many there are.

    By an update and not by ``select_for_update``: SQLite has none, and lets no transaction write that has read before
    others wrote.
    """
    return int(rows.update(updated=timezone.now()))


def locked(row: Any) -> Any:
    """The row as it is now, held until the transaction ends; None if it is gone."""
    found = get_refresh_token_model().objects.filter(pk=row.pk)
    return found.select_related("user").first() if lock(found) else None


class Reused(Exception):
    """A refresh token was used again after its grace period, or after it was revoked."""


class Family(NamedTuple):
    """What a first refresh token belongs to."""

    token_family: Any


class RefreshRules(OAuth2Validator):  # type: ignore[misc]
    """The hooks for refresh tokens. What is not MCP's goes to the next class."""

    def concerns_mcp(self, request: Any) -> bool:
        """Whether our rules are for this request."""
        raise NotImplementedError

    def validate_refresh_token(self, refresh_token: str, client: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        """Whether it is this client's and live, or was until a moment ago, and its person still active."""
        if not self.concerns_mcp(request):
            return super().validate_refresh_token(refresh_token, client, request, *args, **kwargs)
        with transaction.atomic(using=router.db_for_write(get_refresh_token_model())):
            row = self._hold(request)
            if row is not None and was_superseded(row, client):
                if is_full(row):
                    return False
                grants.notes(request).superseded = row
                request.user, request.refresh_token, request.refresh_token_instance = row.user, refresh_token, None
                return True
            valid = super().validate_refresh_token(refresh_token, client, request, *args, **kwargs)
        return valid and row is not None and row.user.is_active

    @staticmethod
    def _hold(request: Any) -> Any:
        """The token's row as it is now, until the transaction ends: the toolkit reads it again.

        Were it replaced by another request in between, the toolkit would take this one for a thief.
        """
        row = grants.refresh_token_of(request)
        if row is not None:
            row = grants.notes(request).refresh_token = locked(row)
        return row

    def get_original_scopes(self, refresh_token: str, request: Any, *args: Any, **kwargs: Any) -> Any:
        """The scopes of the tokens that are replaced, as far as the client may still have them.

        Raises:
            InvalidGrantError: it may have none of them any more.
        """
        superseded = grants.notes(request).superseded
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
        """Whether nothing is asked for but what was granted and what that includes; unknown scopes are dropped."""
        if not self.concerns_mcp(request):
            return super().is_within_original_scope(request_scopes, refresh_token, request, *args, **kwargs)
        original = self.get_original_scopes(refresh_token, request)
        request_scopes[:] = [scope for scope in request_scopes if scope in declared()] or original
        return set(request_scopes) <= expanded(frozenset(original))

    def save_bearer_token(self, token: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        """Save the tokens; a refresh token that turns out to be used again costs its family.

        Raises:
            InvalidGrantError: it was, or there are too many siblings.
        """
        try:
            return super().save_bearer_token(token, request, *args, **kwargs)
        except Reused:
            # Not within the transaction, which was rolled back.
            if oauth2_settings.REFRESH_TOKEN_REUSE_PROTECTION:
                get_refresh_token_model().revoke_family(grants.refresh_token_of(request).token_family)
            raise errors.InvalidGrantError(request=request) from None

    def _save_bearer_token(self, token: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        if request.grant_type == "refresh_token" and self.concerns_mcp(request):
            self._take_turns(request)
        return super()._save_bearer_token(token, request, *args, **kwargs)

    def _take_turns(self, request: Any) -> None:
        """Let one request at a time use a refresh token; for all but the first it is superseded by now.

        Raises:
            InvalidGrantError: there are too many siblings.
            Reused: it was revoked meanwhile.
        """
        live = get_refresh_token_model().objects.filter(pk=grants.refresh_token_of(request).pk, revoked=None)
        if lock(live):
            return
        row = locked(grants.refresh_token_of(request))
        if row is None or not was_superseded(row, request.client):
            raise Reused
        if is_full(row):
            raise errors.InvalidGrantError(request=request)
        logger.info(
            "Refresh token %s of user %s and client %s was used again within its grace period.",
            *(row.pk, row.user_id, row.application_id),
        )
        grants.notes(request).superseded, request.refresh_token_instance = row, None

    def _create_refresh_token(self, request: Any, refresh_token_code: str, access_token: Any, previous: Any) -> Any:
        """Into the family of the token it replaces, be it as a sibling, or of the code it is issued for."""
        if previous is None and self.concerns_mcp(request):
            if request.grant_type == "authorization_code":
                previous = Family(family_of(request.code))
            else:
                previous = grants.notes(request).superseded
        return super()._create_refresh_token(request, refresh_token_code, access_token, previous)

    def revoke_token(self, token: str, token_type_hint: str | None, request: Any, *args: Any, **kwargs: Any) -> None:
        """Revoke a token of the client, and all that came from the same login (RFC 7009, section 2.1)."""
        checksum, model = checksum_of(token), get_refresh_token_model()
        own = model.objects.filter(application_id=getattr(request.client, "pk", None))
        for row in own.filter(Q(token_checksum=checksum) | Q(access_token__token_checksum=checksum)):
            if self.concerns_mcp(request) or grants.known(row.resource or ()):
                model.revoke_family(row.token_family)
        super().revoke_token(token, token_type_hint, request, *args, **kwargs)


def _still_allowed(request: Any, scopes: Iterable[str]) -> list[str]:
    """Of scopes that were granted once, those the client may have now."""
    policy = grants.policy_of(request)
    return list(granted(scopes, (), None if policy is None else policy.scopes))


class MCPValidatorMixin(CodeRules, RefreshRules):
    """MCP's rules for requests that concern MCP; all others go to the next class.

    - Tokens are for the endpoints that were named when the user agreed, and for no others (RFC 8707).
    - Codes, by S256, and refresh tokens are the only grants; and client credentials for clients the site chose.
    - Unknown scopes are left out instead of refused.
    - Users who are inactive, or for whom an endpoint is not, get nothing; nor do clients that are blocked.
    """

    def concerns_mcp(self, request: Any) -> bool:
        """Whether it names an endpoint, goes on from what was issued for one, or its client registered itself."""
        application = grants.application_of(request)
        if application is not None and application.registration_source != "manual":
            return True
        return bool(grants.known([*grants.requested(request), *grants.stored(request)]))

    def _load_application(self, client_id: Any, request: Any) -> Any:
        """The application; None for an id that PostgreSQL cannot even look for."""
        return None if "\0" in str(client_id) else super()._load_application(client_id, request)

    def validate_grant_type(
        self, client_id: str, grant_type: str, client: Any, request: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Whether the client may use the grant; unknown ones are nobody's."""
        if not self.concerns_mcp(request):
            known = grant_type in GRANT_TYPE_MAPPING
            return known and super().validate_grant_type(client_id, grant_type, client, request, *args, **kwargs)
        if grants.is_blocked(request):
            return False
        if grant_type == "client_credentials":
            return grants.is_service(request)
        of_codes = request.client.allows_grant_type(AbstractApplication.GRANT_AUTHORIZATION_CODE)
        return of_codes and grant_type in {"authorization_code", "refresh_token"}

    def validate_redirect_uri(self, client_id: str, redirect_uri: str, request: Any, *args: Any, **kwargs: Any) -> Any:
        """Whether it is one of the client's, character by character; the toolkit ignores case in hosts."""
        allowed = super().validate_redirect_uri(client_id, redirect_uri, request, *args, **kwargs)
        is_ours = self.concerns_mcp(request)
        return allowed and (not is_ours or is_registered(redirect_uri, request.client.redirect_uris.split()))

    def validate_response_type(
        self, client_id: str, response_type: str, client: Any, request: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Whether it is ``code``: OAuth 2.1 has no other."""
        allowed = super().validate_response_type(client_id, response_type, client, request, *args, **kwargs)
        return allowed and (response_type == "code" or not self.concerns_mcp(request))

    def validate_user(self, username: str, password: str, client: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        """Never look at a password that a client sends: no answer may tell whether it is right.

        Raises:
            UnauthorizedClientError: OAuth 2.1 has no such grant.
        """
        if self.concerns_mcp(request):
            raise errors.UnauthorizedClientError(request=request)
        return super().validate_user(username, password, client, request, *args, **kwargs)

    def validate_scopes(
        self, client_id: str, scopes: list[str], client: Any, request: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Leave in *scopes* what the client may have, and test what oauthlib has no hook for.

        Raises:
            OAuth2Error: PKCE is not by S256, or the resource is unknown.
        """
        if not self.concerns_mcp(request):
            return super().validate_scopes(client_id, scopes, client, request, *args, **kwargs)
        if request.response_type:
            grants.check_challenge(request)
            grants.resources_asked_for(request)
        scopes[:] = grants.scopes_granted(request, scopes)
        return bool(scopes)

    def _check_and_set_request_resource(self, request: Any) -> None:
        """Settle what a token is for. Its user must still be one whom the endpoints are for.

        Raises:
            OAuth2Error: ``invalid_target`` or ``invalid_grant``.
        """
        if not self.concerns_mcp(request):
            super()._check_and_set_request_resource(request)
            return
        if request.grant_type == "client_credentials":
            user, resources = grants.policy_of(request).service_account, grants.resources_asked_for(request)  # type: ignore[union-attr]
        else:
            user, resources = request.user, grants.resources_granted(request)
        if not grants.may_use(user, resources):
            raise errors.InvalidGrantError(description="This user may not use the endpoint.", request=request)
        request.resource = resources

    def _create_access_token(self, expires: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        """A client's own token is its acting user's: the endpoint compares it with the policy at every use."""
        if request.grant_type == "client_credentials" and self.concerns_mcp(request):
            request.user = grants.policy_of(request).service_account  # type: ignore[union-attr]
        return super()._create_access_token(expires, request, *args, **kwargs)


class Validator(MCPValidatorMixin):
    """For a site whose authorization server is there for MCP: its rules hold for every client."""

    def concerns_mcp(self, request: Any) -> bool:  # noqa: ARG002
        """Always."""
        return True
