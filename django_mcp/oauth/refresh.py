"""Refresh tokens: rotated with every use, and good for a moment more after their client has replaced them.

Several processes of one client refresh with the same token at the same time. Without a grace period the second would
be taken for a thief, and lose the first its tokens too. django-oauth-toolkit has such a period, but hands out the
first one's tokens again, which it can only where it stores them in clear text. Here the second gets tokens of its own.
"""

import logging
from collections.abc import Iterable
from typing import Any, NamedTuple

from django.db import router, transaction
from django.db.models import Q
from oauthlib.oauth2.rfc6749 import errors

from django_mcp.core.permissions import declared, expanded
from django_mcp.oauth import grace, reading, rules
from django_mcp.oauth.checksums import checksum_of, family_of
from django_mcp.oauth.consent import granted
from django_mcp.oauth.toolkit import OAuth2Validator, get_refresh_token_model, oauth2_settings

logger = logging.getLogger("django_mcp")


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
            if row is not None and grace.was_superseded(row, client):
                if grace.is_full(row):
                    return False
                reading.notes(request).superseded = row
                request.user, request.refresh_token, request.refresh_token_instance = row.user, refresh_token, None
                return True
            valid = super().validate_refresh_token(refresh_token, client, request, *args, **kwargs)
        return valid and row is not None and row.user.is_active

    @staticmethod
    def _hold(request: Any) -> Any:
        """The token's row as it is now, until the transaction ends: the toolkit reads it again.

        Were it replaced by another request in between, the toolkit would take this one for a thief.
        """
        row = reading.refresh_token_of(request)
        if row is not None:
            row = reading.notes(request).refresh_token = grace.locked(row)
        return row

    def get_original_scopes(self, refresh_token: str, request: Any, *args: Any, **kwargs: Any) -> Any:
        """The scopes of the tokens that are replaced, as far as the client may still have them.

        Raises:
            InvalidGrantError: it may have none of them any more.
        """
        superseded = reading.notes(request).superseded
        if superseded is not None:
            original = getattr(grace.successor_of(superseded), "scope", "")
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
                get_refresh_token_model().revoke_family(reading.refresh_token_of(request).token_family)
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
        live = get_refresh_token_model().objects.filter(pk=reading.refresh_token_of(request).pk, revoked=None)
        if grace.lock(live):
            return
        row = grace.locked(reading.refresh_token_of(request))
        if row is None or not grace.was_superseded(row, request.client):
            raise Reused
        if grace.is_full(row):
            raise errors.InvalidGrantError(request=request)
        logger.info(
            "Refresh token %s of user %s and client %s was used again within its grace period.",
            *(row.pk, row.user_id, row.application_id),
        )
        reading.notes(request).superseded, request.refresh_token_instance = row, None

    def _create_refresh_token(self, request: Any, refresh_token_code: str, access_token: Any, previous: Any) -> Any:
        """Into the family of the token it replaces, be it as a sibling, or of the code it is issued for."""
        if previous is None and self.concerns_mcp(request):
            if request.grant_type == "authorization_code":
                previous = Family(family_of(request.code))
            else:
                previous = reading.notes(request).superseded
        return super()._create_refresh_token(request, refresh_token_code, access_token, previous)

    def revoke_token(self, token: str, token_type_hint: str | None, request: Any, *args: Any, **kwargs: Any) -> None:
        """Revoke a token of the client, and all that came from the same login (RFC 7009, section 2.1)."""
        checksum, model = checksum_of(token), get_refresh_token_model()
        own = model.objects.filter(application_id=getattr(request.client, "pk", None))
        for row in own.filter(Q(token_checksum=checksum) | Q(access_token__token_checksum=checksum)):
            if self.concerns_mcp(request) or rules.known(row.resource or ()):
                model.revoke_family(row.token_family)
        super().revoke_token(token, token_type_hint, request, *args, **kwargs)


def _still_allowed(request: Any, scopes: Iterable[str]) -> list[str]:
    """Of scopes that were granted once, those the client may have now."""
    policy = reading.policy_of(request)
    return list(granted(scopes, (), None if policy is None else policy.scopes))
