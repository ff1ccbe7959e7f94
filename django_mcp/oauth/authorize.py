"""The authorization endpoint: requests, and what the user is asked to agree to.

Nobody is asked to agree to what would fail afterwards: a request is tested before login and before consent. Requests
of people who are not logged in fetch nothing from elsewhere.
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
"""All that is read. ``approval_prompt``, with which a client could skip the consent, is not."""

PAGE_SECONDS = 30 * 60
"""How long somebody may think before they agree."""

SALT = "django_mcp.oauth.consent"


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """The parameters of one request, as they were sent.

    Attributes:
        values: each parameter's values, in the order they were sent.
    """

    values: Mapping[str, tuple[str, ...]]

    @classmethod
    def from_query(cls, query: QueryDict) -> "AuthorizationRequest":
        """What a query string asks for; an empty value counts as none (RFC 6749, section 3.1)."""
        given = {name: tuple(filter(None, query.getlist(name))) for name in PARAMETERS}
        return cls({name: values for name, values in given.items() if values})

    @classmethod
    def from_signed(cls, text: str, user: Any) -> "AuthorizationRequest":
        """What ``signed`` made for this user.

        Raises:
            signing.BadSignature: it was changed, is somebody else's, or older than ``PAGE_SECONDS``.
        """
        values = signing.loads(text, salt=f"{SALT}:{user.pk}", max_age=PAGE_SECONDS)
        return cls({name: tuple(each) for name, each in values.items()})

    def signed(self, user: Any) -> str:
        """The whole request for a form's field, so that nothing the page showed can be changed under way."""
        return signing.dumps(dict(self.values), salt=f"{SALT}:{user.pk}", compress=True)

    def get(self, name: str) -> str:
        """A parameter's last value; empty for none."""
        return self.values.get(name, ("",))[-1]

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes that are asked for."""
        return tuple(dict.fromkeys(self.get("scope").split()))

    @property
    def resources(self) -> tuple[str, ...]:
        """What access is asked to, as the client spells it; may be sent more than once (RFC 8707, section 2)."""
        return self.values.get("resource", ())

    def query(self, scopes: Iterable[str] | None = None) -> str:
        """The query string; *scopes* replace what was asked, unless that was sent twice, which is an error."""
        values = dict(self.values)
        if scopes is not None and len(values.get("scope", ())) < 2:  # noqa: PLR2004
            values["scope"] = (" ".join(scopes),)
        return urlencode({name: each for name, each in values.items() if any(each)}, doseq=True)

    def unprintable(self) -> bool:
        """Whether it holds control characters, which no such request needs and some databases refuse."""
        return any(character < " " for each in self.values.values() for value in each for character in value)

    def problem(self) -> str | None:
        """What is wrong with the proof key (PKCE), in words for the client's author; None where it is right.

        Only S256 is taken, and it has to be named: without a method, ``plain`` is meant (RFC 7636, section 4.3).
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
        return [server for uri, server in self.resources.items() if not grants.may_use(user, [uri])]

    def credentials(self) -> dict[str, Any]:
        """As the toolkit wants it. The client and what was read of it spare queries."""
        names = ("client_id", "response_type", "state", "code_challenge", "code_challenge_method")
        own = {"redirect_uri": self.request.redirect_uri, "resource": list(self.resources), "client": self.application}
        return {
            **{name: self.asked.get(name) or None for name in names},
            **own,
            "_django_mcp": grants.notes(self.request),
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
        AuthorizationError: for the person.
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
    """Refuse addresses to which nobody may be sent any more, though the client has them.

    Raises:
        AuthorizationError: the address is of a scheme the site no longer has, or no longer in ``EXTRA_REDIRECT_URIS``.
    """
    uri, application = request.redirect_uri, request.client
    right = redirect_ok(uri) if is_self_registered(application) else True
    if not right or urlsplit(uri).scheme not in application.get_allowed_schemes():
        raise AuthorizationError(_("This site does not redirect to addresses of the kind that the application uses."))


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


logger = logging.getLogger("django_mcp")


@method_decorator((login_not_required, csrf_protect), name="dispatch")
class AuthorizeView(AuthorizationView):  # type: ignore[misc]
    """``/o/authorize/``. Every redirect to a client names the issuer (RFC 9207), also those that tell an error."""

    http_method_names = ("get", "head", "post", "options")

    @classmethod
    def as_view(cls, **initkwargs: Any) -> Any:
        """The view, outside of ``ATOMIC_REQUESTS``: fetching a client's document must hold no transaction."""
        view = super().as_view(**initkwargs)
        for alias in connections:
            transaction.non_atomic_requests(using=alias)(view)
        return view

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Answer; what is wrong goes to the client where its redirect URI is known to be its own, else on a page."""
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

    # Not logged in

    def handle_no_permission(self) -> HttpResponse:
        """Test what can be tested, then send the person to log in; afterwards they come back."""
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
        """Whether testing fetches no client metadata document, for the client is stored and its document fresh."""
        client_id = asked.get("client_id")
        if not is_cimd_client_id(client_id) or asked.unprintable():
            return True
        known = get_application_model().objects.filter(client_id=client_id).first()
        return known is not None and (known.cimd_expires_at is None or known.cimd_expires_at > timezone.now())

    def to_login(self, asked: AuthorizationRequest) -> HttpResponse:
        """To the login page, and back to this request; without ``prompt``, which would lead there again."""
        login = resolve_url(self.get_login_url())
        back = f"{self.request.path}?{asked.query()}"
        if urlsplit(login).netloc:
            back = base_url() + back
        return redirect_to_login(back, login, self.get_redirect_field_name())

    def prompt(self) -> set[str]:
        """How the client wants the person to be asked (OpenID Connect Core, section 3.1.2.1)."""
        return set(self.request.GET.get("prompt", "").split())

    # Logged in

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:  # noqa: ARG002
        """The page, always: what was agreed to before counts for nothing (RFC 8252, section 8.6)."""
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
        """What the person decided. It is tested again, for much may have happened since the page."""
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
        """The page itself."""
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
        """Back to the client, with a code, ``access_denied``, or ``server_error`` (RFC 6749, section 4.1.2.1)."""
        asked, scopes = self.as_asked(proposal.asked), " ".join(proposal.scopes)
        try:
            uri, *_rest = self.create_authorization_response(asked, scopes, proposal.credentials(), allow)
        except OAuthToolkitError:
            raise
        except Exception:
            logger.exception("No authorization code could be made for client %s", proposal.application.pk)
            raise proposal.error("server_error", "The authorization server failed.") from None
        return self.redirect(uri, proposal.application)

    # For both

    def propose(self, asked: AuthorizationRequest) -> Proposal:
        """What the request comes to, when all is well with it.

        Raises:
            FatalClientError: client or redirect URI are not what they should be, so nobody is redirected.
            OAuthToolkitError: for the client.
            AuthorizationError: for the person.
        """
        if asked.unprintable():
            raise AuthorizationError(_unsafe())
        known = [scope for scope in asked.scopes if scope in declared()]
        _scopes, found = self.validate_authorization_request(self.as_asked(asked, known))
        return propose(asked, found["request"])

    def as_asked(self, asked: AuthorizationRequest, scopes: list[str] | None = None) -> HttpRequest:
        """The request as the toolkit is to see it: nothing but the parameters we know."""
        clean: HttpRequest = copy(self.request)
        clean.method, clean.POST = "GET", QueryDict()
        clean.META = {**self.request.META, "QUERY_STRING": asked.query(scopes)}
        return clean

    def redirect(self, redirect_to: str, application: Any) -> HttpResponse:
        """To the client, with the issuer: exactly one ``iss``, whatever the redirect URI has."""
        parts = urlsplit(redirect_to)
        kept = [each for each in parts.query.split("&") if each and each.partition("=")[0] != "iss"]
        query = "&".join([*kept, urlencode({"iss": base_url()})])
        response: HttpResponse = super().redirect(urlunsplit(parts._replace(query=query)), application)
        return response


def _unsafe() -> str:
    return _("The application that sent you here is unknown to this site, or its request is unsafe.")
