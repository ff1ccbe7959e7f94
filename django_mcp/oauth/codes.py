"""Authorization codes: bound to client, person, redirect URI, proof key and endpoints, and good for one use."""

import logging
from typing import Any

from oauthlib.oauth2.rfc6749 import errors

from django_mcp.oauth import reading, rules
from django_mcp.oauth.checksums import family_of
from django_mcp.oauth.toolkit import OAuth2Validator, get_refresh_token_model

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
            rules.check_challenge(request)
            request.resource = rules.resources_asked_for(request)
            if rules.is_blocked(request):
                raise errors.UnauthorizedClientError(request=request)
            if not rules.may_use(request.user, request.resource):
                description = "This user may not use the endpoint."
                raise errors.AccessDeniedError(description=description, request=request)
        return super()._create_authorization_code(request, code, expires)

    def validate_code(self, client_id: str, code: str, client: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        """Whether the code is this client's, unused and fresh, and its person still active.

        A code that is gone may have been used: then what was issued for it is revoked (RFC 6749, section 4.1.2).
        """
        if self.concerns_mcp(request):
            grant = reading.grant_of(request)
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
        return reading.grant_of(request).code_challenge

    def get_code_challenge_method(self, code: str, request: Any) -> Any:
        """S256."""
        if not self.concerns_mcp(request):
            return super().get_code_challenge_method(code, request)
        return reading.grant_of(request).code_challenge_method

    def confirm_redirect_uri(
        self, client_id: str, code: str, redirect_uri: str, client: Any, request: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Whether it is the one the code was sent to, character by character."""
        if not self.concerns_mcp(request):
            return super().confirm_redirect_uri(client_id, code, redirect_uri, client, request, *args, **kwargs)
        return reading.grant_of(request).redirect_uri_allowed(redirect_uri)

    def invalidate_authorization_code(self, client_id: str, code: str, request: Any, *args: Any, **kwargs: Any) -> None:
        """Nothing, where saving the tokens has done it."""
        if not reading.notes(request).used:
            super().invalidate_authorization_code(client_id, code, request, *args, **kwargs)

    def _save_bearer_token(self, token: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        """Take the code out and save its tokens in one transaction, so that of several at once just one gets any.

        Raises:
            InvalidGrantError: another request was faster.
        """
        if request.grant_type == "authorization_code" and self.concerns_mcp(request):
            super().invalidate_authorization_code(request.client_id, request.code, request)
            reading.notes(request).used = True
        return super()._save_bearer_token(token, request, *args, **kwargs)


def revoke_issued_for(code: str, client: Any) -> None:
    """Revoke what was issued to a client for a code, if anything was."""
    model, family = get_refresh_token_model(), family_of(code)
    if model.objects.filter(token_family=family, application=client).exists():
        logger.warning("Client %s used an authorization code twice: all tokens from it are revoked.", client.pk)
        model.revoke_family(family)
