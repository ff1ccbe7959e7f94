"""What a person is asked to agree to. It is made twice: for the page, and again when they have decided."""

from typing import Any, NamedTuple
from urllib.parse import urlsplit

from django.utils.translation import gettext as _
from oauthlib.oauth2.rfc6749.errors import CustomOAuth2Error

from django_mcp.core.server import MCPServer
from django_mcp.oauth import reading, rules
from django_mcp.oauth.authorization_request import AuthorizationRequest
from django_mcp.oauth.consent import granted
from django_mcp.oauth.redirects import redirect_ok
from django_mcp.oauth.resources import chosen_resources, default_scopes, known_resources, why_not_a_resource
from django_mcp.oauth.toolkit import OAuthToolkitError


class Refused(Exception):
    """The request cannot be used, and its client cannot be told: it is shown to the person.

    Args:
        text: what is wrong and what can be done, for people.
        detail: for whoever wrote the client.
        status: of the response.
    """

    def __init__(self, text: str, detail: str = "", status: int = 400) -> None:
        super().__init__(text)
        self.text, self.detail, self.status = text, detail, status


class Proposal(NamedTuple):
    """What is granted if the person agrees now.

    Attributes:
        asked: the client's request.
        request: oauthlib's view of it, tested; it knows the client.
        resources: the endpoints, by identifier.
        scopes: in order.
    """

    asked: AuthorizationRequest
    request: Any
    resources: dict[str, MCPServer]
    scopes: tuple[str, ...]

    @property
    def application(self) -> Any:
        """The client."""
        return self.request.client

    @property
    def is_trusted(self) -> bool:
        """Whether the site's owner lets the client do without consent. One that registered itself never may."""
        return bool(self.application.skip_authorization and not is_self_registered(self.application))

    def closed_to(self, user: Any) -> list[MCPServer]:
        """Endpoints that are not for this user."""
        return [server for uri, server in self.resources.items() if not rules.may_use(user, [uri])]

    def credentials(self) -> dict[str, Any]:
        """As the toolkit wants it. The client and what was read of it spare queries."""
        names = ("client_id", "response_type", "state", "code_challenge", "code_challenge_method")
        own = {"redirect_uri": self.request.redirect_uri, "resource": list(self.resources), "client": self.application}
        return {
            **{name: self.asked.get(name) or None for name in names},
            **own,
            "_django_mcp": reading.notes(self.request),
        }

    def error(self, code: str, description: str) -> OAuthToolkitError:
        """An error for the client, with its state (RFC 6749, section 4.1.2.1)."""
        return error_for(self.request, code, description)


def propose(asked: AuthorizationRequest, request: Any) -> Proposal:
    """What *asked* comes to.

    Args:
        asked: the client's request.
        request: the same as oauthlib's, whose client and redirect URI are tested.

    Raises:
        Refused: for the person.
        OAuthToolkitError: for the client.
    """
    check_redirect(request)
    if problem := asked.problem():
        raise error_for(request, "invalid_request", problem)
    if problem := resource_problem(asked):
        raise error_for(request, "invalid_target", problem)
    policy = reading.policy_of(request)
    if policy is not None and policy.blocked:
        raise Refused(_("This site’s administrators have blocked the application."), status=403)
    resources = {uri: known_resources()[uri] for uri in chosen_resources(asked.resources)}
    scopes = granted(asked.scopes, default_scopes(resources), None if policy is None else policy.scopes)
    if not scopes:
        raise error_for(request, "invalid_scope", "None of these scopes may be granted to this client.")
    return Proposal(asked, request, resources, scopes)


def check_redirect(request: Any) -> None:
    """Refuse addresses to which nobody may be sent any more, though the client has them.

    Raises:
        Refused: the address is of a scheme the site no longer has, or no longer in ``EXTRA_REDIRECT_URIS``.
    """
    uri, application = request.redirect_uri, request.client
    right = redirect_ok(uri) if is_self_registered(application) else True
    if not right or urlsplit(uri).scheme not in application.get_allowed_schemes():
        raise Refused(_("The application’s address is of a kind that this site sends nobody to."))


def resource_problem(asked: AuthorizationRequest) -> str | None:
    """What is wrong with the resources, in words for the client's author; None where they are right."""
    try:
        chosen_resources(asked.resources)
    except ValueError:
        return why_not_a_resource(asked.resources)
    return None


def is_self_registered(application: Any) -> bool:
    """Whether nobody at the site put the client there."""
    return str(application.registration_source) != "manual"


def error_for(request: Any, code: str, description: str) -> OAuthToolkitError:
    """An error that is sent to the redirect URI of oauthlib's *request*, with its state."""
    error = CustomOAuth2Error(error=code, description=description, state=request.state or None)
    return OAuthToolkitError(error=error, redirect_uri=request.redirect_uri)
