"""The authorization endpoint: request validation, consent page and response.

Requests are validated before login and consent, so that users do not agree to what would fail. Anonymous requests cause
no outgoing requests.
"""

import logging
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit, urlunsplit

from django.contrib.auth import logout
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import redirect_to_login
from django.core import signing
from django.db import connections, transaction
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import resolve_url
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.utils.translation import gettext as _
from django.views.decorators.csrf import csrf_protect
from oauthlib.oauth2.rfc6749.errors import CustomOAuth2Error

from django_mcp.auth.protected_resource import base_url
from django_mcp.auth.toolkit import (
    AuthorizationView,
    FatalClientError,
    OAuthToolkitError,
    get_application_model,
    is_cimd_client_id,
)
from django_mcp.core.permissions import declared
from django_mcp.core.server import MCPServer
from django_mcp.oauth import consent, grants
from django_mcp.oauth.consent import clean_name, granted, page, protect, title_of
from django_mcp.oauth.grants import (
    S256_CHALLENGE,
    chosen_resources,
    default_scopes,
    known_resources,
    why_not_a_resource,
)
from django_mcp.oauth.register import redirect_ok

PARAMETERS = (
    "response_type",
    "client_id",
    "redirect_uri",
    "scope",
    "state",
    "code_challenge",
    "code_challenge_method",
    "resource",
)
"""Parameters that are read. ``approval_prompt`` is not: it could skip the consent."""

PAGE_SECONDS = 30 * 60
"""Lifetime of a consent page in seconds."""

SALT = "django_mcp.oauth.consent"


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """The parameters of an authorization request, as sent."""

    values: Mapping[str, tuple[str, ...]]

    @classmethod
    def from_query(cls, query: QueryDict) -> "AuthorizationRequest":
        """Parse a query string. Empty values count as missing (RFC 6749, section 3.1)."""
        given = {name: tuple(filter(None, query.getlist(name))) for name in PARAMETERS}
        return cls({name: values for name, values in given.items() if values})

    @classmethod
    def from_signed(cls, text: str, user: Any) -> "AuthorizationRequest":
        """Restore the result of ``signed``.

        Raises:
            signing.BadSignature: changed, signed for another user, or older than ``PAGE_SECONDS``.
        """
        values = signing.loads(text, salt=f"{SALT}:{user.pk}", max_age=PAGE_SECONDS)
        return cls({name: tuple(each) for name, each in values.items()})

    def signed(self, user: Any) -> str:
        """Return a signed form field, so that the request cannot change after the page is shown."""
        return signing.dumps(dict(self.values), salt=f"{SALT}:{user.pk}", compress=True)

    def get(self, name: str) -> str:
        """Return the last value of a parameter, or ""."""
        return self.values.get(name, ("",))[-1]

    @property
    def scopes(self) -> tuple[str, ...]:
        """Requested scopes."""
        return tuple(dict.fromkeys(self.get("scope").split()))

    @property
    def resources(self) -> tuple[str, ...]:
        """Values of ``resource``, which may be repeated (RFC 8707, section 2)."""
        return self.values.get("resource", ())

    def query(self, scopes: Iterable[str] | None = None) -> str:
        """Return the query string with *scopes* replaced.

        A repeated ``scope`` is kept, for the toolkit to reject.
        """
        values = dict(self.values)
        if scopes is not None and len(values.get("scope", ())) < 2:  # noqa: PLR2004
            values["scope"] = (" ".join(scopes),)
        return urlencode({name: each for name, each in values.items() if any(each)}, doseq=True)

    def unprintable(self) -> bool:
        """Return True if a value has control characters, which some databases reject."""
        return any(character < " " for each in self.values.values() for value in each for character in value)

    def problem(self) -> str | None:
        """Return an ``error_description`` for repeated parameters or invalid PKCE, or None.

        The method must be named: without one, ``plain`` applies (RFC 7636, section 4.3).
        """
        twice = [name for name, each in self.values.items() if len(each) > 1 and name != "resource"]
        if twice:
            return f"{twice[0]} must not be repeated."
        if not self.get("code_challenge"):
            return "code_challenge is missing: use PKCE with S256."
        if self.get("code_challenge_method") != "S256":
            return "code_challenge_method must be S256."
        if not S256_CHALLENGE.fullmatch(self.get("code_challenge")):
            return "code_challenge must be a SHA-256 in base64url: 43 characters."
        return None


class AuthorizationError(Exception):
    """An error shown to the user instead of being sent to the client.

    Args:
        text: for the user.
        detail: for the client's developer.
    """

    def __init__(self, text: str, detail: str = "", status: int = 400) -> None:
        super().__init__(text)
        self.text, self.detail, self.status = text, detail, status


class Proposal(NamedTuple):
    """The grant that the user is asked to approve.

    Attributes:
        request: oauthlib's validated request.
        resources: endpoints by identifier.
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
        """True if consent may be skipped; never for clients that registered themselves."""
        return bool(self.application.skip_authorization and not is_self_registered(self.application))

    def closed_to(self, user: Any) -> list[MCPServer]:
        """Return the endpoints this user may not use."""
        return [server for uri, server in self.resources.items() if not grants.may_use(user, [uri])]

    def credentials(self) -> dict[str, Any]:
        """Return the toolkit's credentials, with the client and rows already read."""
        names = ("client_id", "response_type", "state", "code_challenge", "code_challenge_method")
        own = {"redirect_uri": self.request.redirect_uri, "resource": list(self.resources), "client": self.application}
        return {
            **{name: self.asked.get(name) or None for name in names},
            **own,
            "_django_mcp": grants.notes(self.request),
        }

    def error(self, code: str, description: str) -> OAuthToolkitError:
        """Return an error for the client (RFC 6749, section 4.1.2.1)."""
        return error_for(self.request, code, description)


def propose(asked: AuthorizationRequest, request: Any) -> Proposal:
    """Validate a request and return what it would grant.

    Args:
        request: oauthlib's, with valid client and redirect URI.

    Raises:
        AuthorizationError: for the user.
        OAuthToolkitError: for the client.
    """
    check_redirect(request)
    if problem := asked.problem():
        raise error_for(request, "invalid_request", problem)
    if problem := resource_problem(asked):
        raise error_for(request, "invalid_target", problem)
    policy = grants.policy_of(request)
    if policy is not None and policy.blocked:
        raise AuthorizationError(_("This site’s administrators have blocked the application."), status=403)
    resources = {uri: known_resources()[uri] for uri in chosen_resources(asked.resources)}
    scopes = granted(asked.scopes, default_scopes(resources), None if policy is None else policy.scopes)
    if not scopes:
        raise error_for(request, "invalid_scope", "None of the requested scopes may be granted to this client.")
    return Proposal(asked, request, resources, scopes)


def check_redirect(request: Any) -> None:
    """Check that settings still allow the client's redirect URI.

    Raises:
        AuthorizationError: they do not.
    """
    uri, application = request.redirect_uri, request.client
    right = redirect_ok(uri) if is_self_registered(application) else True
    if not right or urlsplit(uri).scheme not in application.get_allowed_schemes():
        raise AuthorizationError(_("This site does not allow the redirect URI of the application."))


def resource_problem(asked: AuthorizationRequest) -> str | None:
    """Return an ``error_description`` for invalid resources, or None."""
    try:
        chosen_resources(asked.resources)
    except ValueError:
        return why_not_a_resource(asked.resources)
    return None


def is_self_registered(application: Any) -> bool:
    """Return True unless the site's administrators registered the client."""
    return str(application.registration_source) != "manual"


def error_for(request: Any, code: str, description: str) -> OAuthToolkitError:
    """Return an error for the redirect URI of oauthlib's *request*."""
    error = CustomOAuth2Error(error=code, description=description, state=request.state or None)
    return OAuthToolkitError(error=error, redirect_uri=request.redirect_uri)


logger = logging.getLogger("django_mcp")


@method_decorator((login_not_required, csrf_protect), name="dispatch")
class AuthorizeView(AuthorizationView):  # type: ignore[misc]
    """``/o/authorize/``. Every redirect to a client names the issuer (RFC 9207)."""

    http_method_names = ("get", "head", "post", "options")

    @classmethod
    def as_view(cls, **initkwargs: Any) -> Any:
        """Return a view without ``ATOMIC_REQUESTS``: no transaction stays open while a client's document is fetched."""
        view = super().as_view(**initkwargs)
        for alias in connections:
            transaction.non_atomic_requests(using=alias)(view)
        return view

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Send errors to a verified redirect URI, or show them on a page."""
        try:
            return protect(super().dispatch(request, *args, **kwargs))
        except AuthorizationError as refused:
            return page(
                request, "oauth/refused.html", {"text": refused.text, "detail": refused.detail}, status=refused.status
            )
        except FatalClientError as error:
            problem = error.oauthlib_error
            detail = f"{problem.error}: {problem.description}"
            return page(request, "oauth/refused.html", {"text": _unsafe(), "detail": detail}, status=400)
        except OAuthToolkitError as error:
            problem = error.oauthlib_error
            return protect(self.redirect(problem.in_uri(problem.redirect_uri), None))

    # Anonymous users

    def handle_no_permission(self) -> HttpResponse:
        """Validate the request, then redirect to the login page and back."""
        asked = AuthorizationRequest.from_query(self.request.GET)
        proposal = self.propose(asked) if self.is_free_to_test(asked) else None
        if proposal is None and (problem := asked.problem() or resource_problem(asked)):
            raise AuthorizationError(_unsafe(), problem)
        if "none" not in self.prompt():
            return self.to_login(asked)
        if proposal is None:
            raise AuthorizationError(
                _("Log in to this site first, then start again from the application."), "login_required"
            )
        raise proposal.error("login_required", "The user must log in.")

    def is_free_to_test(self, asked: AuthorizationRequest) -> bool:
        """Return True if validation fetches no client metadata document."""
        client_id = asked.get("client_id")
        if not is_cimd_client_id(client_id) or asked.unprintable():
            return True
        known = get_application_model().objects.filter(client_id=client_id).first()
        return known is not None and (known.cimd_expires_at is None or known.cimd_expires_at > timezone.now())

    def to_login(self, asked: AuthorizationRequest) -> HttpResponse:
        """Redirect to the login page and back, without ``prompt``, which would loop."""
        login = resolve_url(self.get_login_url())
        back = f"{self.request.path}?{asked.query()}"
        if urlsplit(login).netloc:
            back = base_url() + back
        return redirect_to_login(back, login, self.get_redirect_field_name())

    def prompt(self) -> set[str]:
        """Return the values of ``prompt`` (OpenID Connect Core, section 3.1.2.1)."""
        return set(self.request.GET.get("prompt", "").split())

    # Authenticated users

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:  # noqa: ARG002
        """Show the consent page. Earlier consent does not count (RFC 8252, section 8.6)."""
        asked = AuthorizationRequest.from_query(request.GET)
        proposal = self.propose(asked)
        if "login" in self.prompt():
            return self.to_login(asked)
        if proposal.is_trusted and not proposal.closed_to(request.user):
            return self.answer(proposal, allow=True)
        if "none" in self.prompt():
            raise proposal.error("consent_required", "The user must give consent.")
        return self.ask(proposal)

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:  # noqa: ARG002
        """Process the decision, after validating the request again."""
        try:
            asked = AuthorizationRequest.from_signed(request.POST.get("asked", ""), request.user)
        except signing.BadSignature:
            text = _("This page has expired or belongs to another user. Start again from the application.")
            raise AuthorizationError(text) from None
        if "switch" in request.POST:
            logout(request)
            return self.to_login(asked)
        proposal = self.propose(asked)
        allow = "allow" in request.POST
        if allow and proposal.closed_to(request.user):
            return self.ask(proposal)
        return self.answer(proposal, allow=allow)

    def ask(self, proposal: Proposal) -> HttpResponse:
        """Render the consent page."""
        closed = proposal.closed_to(self.request.user)
        context = {
            "action": f"{self.request.path}?{proposal.asked.query()}",
            "asked": proposal.asked.signed(self.request.user),
            "name": clean_name(proposal.application.name) or _("An application without a name"),
            "origin": consent.origin(proposal.application),
            "is_self_registered": is_self_registered(proposal.application),
            "destination": consent.destination(proposal.request.redirect_uri),
            "endpoints": [{"title": title_of(each), "url": uri} for uri, each in proposal.resources.items()],
            "scopes": consent.in_words(proposal.scopes),
            "closed": [title_of(each) for each in closed],
        }
        return page(self.request, "oauth/authorize.html", context, status=403 if closed else 200)

    def answer(self, proposal: Proposal, *, allow: bool) -> HttpResponse:
        """Redirect with a code, ``access_denied`` or ``server_error`` (RFC 6749, section 4.1.2.1)."""
        asked, scopes = self.as_asked(proposal.asked), " ".join(proposal.scopes)
        try:
            uri, *_rest = self.create_authorization_response(asked, scopes, proposal.credentials(), allow)
        except OAuthToolkitError:
            raise
        except Exception:
            logger.exception("The authorization code for client %s could not be created", proposal.application.pk)
            raise proposal.error("server_error", "The authorization server failed.") from None
        return self.redirect(uri, proposal.application)

    # Helpers

    def propose(self, asked: AuthorizationRequest) -> Proposal:
        """Validate with the toolkit, then with ``propose()``.

        Raises:
            FatalClientError: client or redirect URI is invalid.
            OAuthToolkitError: for the client.
            AuthorizationError: for the user.
        """
        if asked.unprintable():
            raise AuthorizationError(_unsafe())
        known = [scope for scope in asked.scopes if scope in declared()]
        _scopes, found = self.validate_authorization_request(self.as_asked(asked, known))
        return propose(asked, found["request"])

    def as_asked(self, asked: AuthorizationRequest, scopes: list[str] | None = None) -> HttpRequest:
        """Return a copy of the request with known parameters only."""
        clean: HttpRequest = copy(self.request)
        clean.method, clean.POST = "GET", QueryDict()
        clean.META = {**self.request.META, "QUERY_STRING": asked.query(scopes)}
        return clean

    def redirect(self, redirect_to: str, application: Any) -> HttpResponse:
        """Redirect with exactly one ``iss`` parameter."""
        parts = urlsplit(redirect_to)
        kept = [each for each in parts.query.split("&") if each and each.partition("=")[0] != "iss"]
        query = "&".join([*kept, urlencode({"iss": base_url()})])
        response: HttpResponse = super().redirect(urlunsplit(parts._replace(query=query)), application)
        return response


def _unsafe() -> str:
    return _("The application that sent you here is unknown to this site, or its request is unsafe.")
