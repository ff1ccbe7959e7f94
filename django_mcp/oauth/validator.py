"""What the authorization server grants, and to whom: django-oauth-toolkit's validator, held to MCP's rules.

``Validator`` is for a site whose authorization server is there for MCP. A site that had one before puts
``MCPValidatorMixin`` before its own validator, whose clients then keep the rules they had.
"""

from typing import Any

from oauthlib.oauth2.rfc6749 import errors

from django_mcp.oauth import reading, rules
from django_mcp.oauth.codes import CodeRules
from django_mcp.oauth.redirects import is_registered
from django_mcp.oauth.refresh import RefreshRules
from django_mcp.oauth.toolkit import GRANT_TYPE_MAPPING, AbstractApplication


class MCPValidatorMixin(CodeRules, RefreshRules):
    """MCP's rules for requests that concern MCP; all others go to the next class.

    - Tokens are for the endpoints that were named when the user agreed, and for no others (RFC 8707).
    - Codes, by S256, and refresh tokens are the only grants; and client credentials for clients the site chose.
    - Unknown scopes are left out instead of refused.
    - Users who are inactive, or for whom an endpoint is not, get nothing; nor do clients that are blocked.
    """

    def concerns_mcp(self, request: Any) -> bool:
        """Whether it names an endpoint, goes on from what was issued for one, or its client registered itself."""
        application = reading.application_of(request)
        if application is not None and application.registration_source != "manual":
            return True
        return bool(rules.known([*reading.requested(request), *reading.stored(request)]))

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
        if rules.is_blocked(request):
            return False
        if grant_type == "client_credentials":
            return rules.is_service(request)
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
            rules.check_challenge(request)
            rules.resources_asked_for(request)
        scopes[:] = rules.scopes_granted(request, scopes)
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
            user, resources = reading.policy_of(request).acts_as, rules.resources_asked_for(request)  # type: ignore[union-attr]
        else:
            user, resources = request.user, rules.resources_granted(request)
        if not rules.may_use(user, resources):
            raise errors.InvalidGrantError(description="This user may not use the endpoint.", request=request)
        request.resource = resources

    def _create_access_token(self, expires: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        """A client's own token is its acting user's: the endpoint compares it with the policy at every use."""
        if request.grant_type == "client_credentials" and self.concerns_mcp(request):
            request.user = reading.policy_of(request).acts_as  # type: ignore[union-attr]
        return super()._create_access_token(expires, request, *args, **kwargs)


class Validator(MCPValidatorMixin):
    """For a site whose authorization server is there for MCP: its rules hold for every client."""

    def concerns_mcp(self, request: Any) -> bool:  # noqa: ARG002
        """Always."""
        return True
