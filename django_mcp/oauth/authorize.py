"""The authorization endpoint: request validation, consent page and response.

Requests are validated before login and consent, so that users do not agree to what would fail. Anonymous requests cause
no outgoing requests.

Only a decision of the user redirects to a client that registered itself. Errors before it are shown on a page with a
link: anyone can register a client, and could have the site send people anywhere (RFC 9700, section 4.11.2).
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
from django.core.exceptions import DisallowedRedirect
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
    OAuthLibCore,
    OAuthToolkitError,
    get_application_model,
    is_cimd_client_id,
)
from django_mcp.core.permissions import declared, expanded
from django_mcp.core.server import MCPServer
from django_mcp.oauth import cimd, consent, grants
from django_mcp.oauth.cimd import DocumentError
from django_mcp.oauth.consent import add_security_headers, clean_name, granted_scopes, render_page, server_title
from django_mcp.oauth.grants import (
    S256_CHALLENGE,
    chosen_resources,
    default_scopes,
    is_self_registered,
    known_resources,
    skips_consent,
    why_not_a_resource,
)
from django_mcp.oauth.redirect_uris import is_allowed_redirect_uri

logger = logging.getLogger("django_mcp")


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

LONGEST = 16 * 1024
"""Maximum length of a query string in characters: anyone can have it parsed, several times."""

SALT = "django_mcp.oauth.consent"


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """The parameters of an authorization request, as sent."""

    values: Mapping[str, tuple[str, ...]]

    @classmethod
    def from_query(cls, query: QueryDict) -> "AuthorizationRequest":
        # Empty values count as missing (RFC 6749, section 3.1).
        given = {name: tuple(filter(None, query.getlist(name))) for name in PARAMETERS}
        return cls({name: values for name, values in given.items() if values})

    def get(self, name: str) -> str:
        return self.values.get(name, ("",))[-1]

    @property
    def scopes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.get("scope").split()))

    @property
    def resources(self) -> tuple[str, ...]:
        # The parameter may be repeated (RFC 8707, section 2).
        return self.values.get("resource", ())

    def query(self, scopes: Iterable[str] | None = None) -> str:
        """Return the query string with *scopes* replaced.

        A repeated ``scope`` is kept, for the toolkit to reject.
        """
        values = dict(self.values)
        if scopes is not None and len(values.get("scope", ())) < 2:  # noqa: PLR2004
            values["scope"] = (" ".join(scopes),)
        return urlencode({name: texts for name, texts in values.items() if any(texts)}, doseq=True)

    def unprintable(self) -> bool:
        # Some databases reject control characters.
        return any(character < " " for texts in self.values.values() for value in texts for character in value)

    def problem(self) -> str | None:
        """Return an ``error_description`` for repeated parameters or invalid PKCE, or None.

        The method must be named: without one, ``plain`` applies (RFC 7636, section 4.3).
        """
        twice = [name for name, texts in self.values.items() if len(texts) > 1 and name != "resource"]
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
        heading: for the user; by default that the application could not be connected.
    """

    def __init__(self, text: str, detail: str = "", status: int = 400, heading: str = "") -> None:
        super().__init__(text)
        self.text, self.detail, self.status, self.heading = text, detail, status, heading


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
        return self.request.client

    @property
    def is_trusted(self) -> bool:
        return skips_consent(self.application, self.request.redirect_uri)

    @property
    def shown(self) -> dict[str, Any]:
        """Return the content of the consent page that the user decides about, as JSON."""
        client = self.application
        return {
            "client": [client.client_id, clean_name(client.name), str(client.registration_source)],
            "redirect_uri": self.request.redirect_uri,
            "resources": list(self.resources),
            "scopes": list(self.scopes),
            "included": sorted(expanded(frozenset(self.scopes))),
        }

    def signed(self, user: Any) -> str:
        """Return a form field with the request and what is shown of it, for this user."""
        return signing.dumps([dict(self.asked.values), self.shown], salt=f"{SALT}:{user.pk}", compress=True)

    def closed_to(self, user: Any) -> list[MCPServer]:
        return [server for uri, server in self.resources.items() if not grants.may_use(user, [uri])]

    def credentials(self, user: Any) -> dict[str, Any]:
        """Return the toolkit's credentials, with the client, rows already read, and what the user agreed to."""
        grants.state_of(self.request).agreed = grants.Agreement(user, frozenset(self.resources), frozenset(self.scopes))
        names = ("client_id", "response_type", "state", "code_challenge", "code_challenge_method")
        own = {"redirect_uri": self.request.redirect_uri, "resource": list(self.resources), "client": self.application}
        return {
            **{name: self.asked.get(name) or None for name in names},
            **own,
            "_django_mcp": grants.state_of(self.request),
        }

    def error(self, code: str, description: str) -> OAuthToolkitError:
        # RFC 6749, section 4.1.2.1
        return error_for(self.request, code, description)


def restore(text: str, user: Any) -> tuple[AuthorizationRequest, dict[str, Any]]:
    """Return the request and what was shown, from ``Proposal.signed``.

    Raises:
        signing.BadSignature: changed, signed for another user, or older than ``PAGE_SECONDS``.
    """
    values, shown = signing.loads(text, salt=f"{SALT}:{user.pk}", max_age=PAGE_SECONDS)
    return AuthorizationRequest({name: tuple(texts) for name, texts in values.items()}), shown


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
        text = _(
            "The administrators of this site have blocked the application that sent you here, so it cannot act for "
            "you. If you need it, ask them."
        )
        raise AuthorizationError(text, status=403, heading=_("This application is blocked"))
    resources = {uri: known_resources()[uri] for uri in chosen_resources(asked.resources)}
    scopes = granted_scopes(asked.scopes, default_scopes(resources), None if policy is None else policy.scopes)
    if not scopes:
        raise error_for(request, "invalid_scope", "None of the requested scopes may be granted to this client.")
    return Proposal(asked, request, resources, scopes)


def check_redirect(request: Any) -> None:
    """Check that settings still allow the client's redirect URI.

    Raises:
        AuthorizationError: they do not.
    """
    uri, application = request.redirect_uri, request.client
    if not is_allowed(uri, application):
        raise AuthorizationError(_("This site does not allow the redirect URI of the application."))


def is_allowed(uri: str, application: Any) -> bool:
    right = is_allowed_redirect_uri(uri) if is_self_registered(application) else True
    return right and urlsplit(uri).scheme in application.get_allowed_schemes()


def resource_problem(asked: AuthorizationRequest) -> str | None:
    try:
        chosen_resources(asked.resources)
    except ValueError:
        return why_not_a_resource(asked.resources)
    return None


def error_for(request: Any, code: str, description: str) -> OAuthToolkitError:
    return OAuthToolkitError(error=CustomOAuth2Error(error=code, description=description, request=request))


class AuthorizeOAuthLibCore(OAuthLibCore):  # type: ignore[misc]
    """Tells the validator that a request comes from ``AuthorizeView``."""

    def extract_headers(self, request: HttpRequest) -> dict[str, Any]:
        # No header of a request has the key.
        return {**super().extract_headers(request), grants.OWN_VIEW: True}


@method_decorator((login_not_required, csrf_protect), name="dispatch")
class AuthorizeView(AuthorizationView):  # type: ignore[misc]
    """``/o/authorize/``. Every redirect to a client names the issuer (RFC 9207).

    Attributes:
        other_view: serves requests that do not concern MCP, on a site with an authorization server of its own: a view
            of the toolkit, as ``AuthorizationView.as_view()``.
    """

    http_method_names = ("get", "head", "post", "options")
    other_view: Any = None

    @classmethod
    def as_view(cls, **initkwargs: Any) -> Any:
        # Without ATOMIC_REQUESTS: no transaction stays open while a client's document is fetched.
        view = super().as_view(**initkwargs)
        for alias in connections:
            transaction.non_atomic_requests(using=alias)(view)
        return view

    @classmethod
    def get_oauthlib_core(cls) -> AuthorizeOAuthLibCore:
        # The toolkit would use a core that a view it inherits from has cached.
        return AuthorizeOAuthLibCore(cls.get_server())

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        is_short = len(request.META.get("QUERY_STRING", "")) <= LONGEST
        if is_short and self.other_view is not None and not concerns_mcp(request):
            response: HttpResponse = self.other_view(request, *args, **kwargs)
            return response
        try:
            if not is_short:
                raise AuthorizationError(_unsafe(), f"invalid_request: the query is longer than {LONGEST} characters")
            return add_security_headers(super().dispatch(request, *args, **kwargs))
        except AuthorizationError as refused:
            context = {"heading": refused.heading, "text": refused.text, "detail": refused.detail}
            return render_page(request, "oauth/refused.html", context, status=refused.status)
        except DocumentError as refused:
            heading = _("The application could not be identified")
            context = {"heading": heading, "text": refused.text, "detail": refused.detail}
            response = render_page(request, "oauth/refused.html", context, status=refused.status)
            if refused.retry_after is not None:
                response["Retry-After"] = str(refused.retry_after)
            return response
        except FatalClientError as error:
            problem = error.oauthlib_error
            detail = f"{problem.error}: {problem.description}"
            return render_page(request, "oauth/refused.html", {"text": _unsafe(), "detail": detail}, status=400)
        except OAuthToolkitError as error:
            return self.report(error.oauthlib_error)

    # Anonymous users

    def handle_no_permission(self) -> HttpResponse:
        asked = AuthorizationRequest.from_query(self.request.GET)
        proposal = self.propose(asked) if self.is_free_to_test(asked) else None
        if proposal is None and (problem := asked.problem() or resource_problem(asked)):
            raise AuthorizationError(_unsafe(), problem)
        if not self.is_silent():
            return self.to_login(asked)
        if proposal is None:
            raise AuthorizationError(_log_in_first(), "login_required", heading=_("Log in first"))
        raise proposal.error("login_required", "The user must log in.")

    def is_free_to_test(self, asked: AuthorizationRequest) -> bool:
        """Return True if validation fetches no client metadata document."""
        client_id = asked.get("client_id")
        if not is_cimd_client_id(client_id) or asked.unprintable():
            return True
        known = get_application_model().objects.filter(client_id=client_id).first()
        return known is not None and (known.cimd_expires_at is None or known.cimd_expires_at > timezone.now())

    def to_login(self, asked: AuthorizationRequest) -> HttpResponse:
        login = resolve_url(self.get_login_url())
        back = self.address(asked)
        if urlsplit(login).netloc:
            back = base_url() + back
        try:
            return redirect_to_login(back, login, self.get_redirect_field_name())
        except DisallowedRedirect:  # newer releases of Django redirect to no address of more than 2048 characters
            detail = "the request is too long to be sent by way of the login"
            raise AuthorizationError(_log_in_first(), detail, heading=_("Log in first")) from None

    def address(self, asked: AuthorizationRequest) -> str:
        # prompt stays for the consent page alone: others would loop.
        return f"{self.request.path}?{asked.query()}{'&prompt=consent' if self.prompt() else ''}"

    def prompt(self) -> set[str]:
        # OpenID Connect Core, section 3.1.2.1
        return set(" ".join(self.request.GET.getlist("prompt")).split())

    def is_silent(self) -> bool:
        return self.prompt() == {"none"}

    # Authenticated users

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:  # noqa: ARG002
        # Earlier consent does not count (RFC 8252, section 8.6).
        asked = AuthorizationRequest.from_query(request.GET)
        proposal = self.propose(asked)
        if "login" in self.prompt():
            return self.to_login(asked)
        # A HEAD request is no visit: programs look at links with it.
        may_skip = request.method == "GET" and (not self.prompt() or self.is_silent())
        if may_skip and proposal.is_trusted and not proposal.closed_to(request.user):
            return self.answer(proposal, allow=True)
        if self.is_silent():
            raise proposal.error("consent_required", "The user must give consent.")
        return self.ask(proposal)

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:  # noqa: ARG002
        """Process the decision, after validating the request again.

        If the page would show something else by now, it is shown again: what was shown is what is granted. To deny, the
        redirect URI must be the same.
        """
        try:
            asked, shown = restore(request.POST.get("asked", ""), request.user)
        except signing.BadSignature:
            text = _("This page has expired or belongs to another user. Start again from the application.")
            raise AuthorizationError(text, heading=_("This page has expired")) from None
        if "switch" in request.POST:
            logout(request)
            return self.to_login(asked)
        proposal = self.propose(asked)
        allow = "allow" in request.POST and "deny" not in request.POST
        now = proposal.shown
        has_changed = now != shown if allow else now["redirect_uri"] != shown["redirect_uri"]
        if has_changed or (allow and proposal.closed_to(request.user)):
            return self.ask(proposal, has_changed=has_changed)
        return self.answer(proposal, allow=allow)

    def ask(self, proposal: Proposal, *, has_changed: bool = False) -> HttpResponse:
        closed = proposal.closed_to(self.request.user)
        context = {
            "action": self.address(proposal.asked),
            "asked": proposal.signed(self.request.user),
            "name": clean_name(proposal.application.name) or _("An application without a name"),
            "origin": consent.origin(proposal.application),
            "is_self_registered": is_self_registered(proposal.application),
            "destination": consent.destination(proposal.request.redirect_uri),
            "endpoints": [
                {"title": server_title(resource), "url": uri} for uri, resource in proposal.resources.items()
            ],
            "scopes": consent.describe_scopes(proposal.scopes),
            "closed": [server_title(server) for server in closed],
            "has_changed": has_changed,
        }
        return render_page(self.request, "oauth/authorize.html", context, status=403 if closed else 200)

    def answer(self, proposal: Proposal, *, allow: bool) -> HttpResponse:
        """Redirect with a code, ``access_denied`` or ``server_error`` (RFC 6749, section 4.1.2.1)."""
        asked, scopes = self.as_asked(proposal.asked), " ".join(proposal.scopes)
        credentials = proposal.credentials(self.request.user)
        try:
            uri, *_rest = self.create_authorization_response(asked, scopes, credentials, allow)
        except FatalClientError:  # the client or its redirect URI is gone: no redirect
            raise
        except OAuthToolkitError as error:
            uri = error.oauthlib_error.in_uri(proposal.request.redirect_uri)
        except Exception:
            logger.exception("The authorization code for client %s could not be created", proposal.application.pk)
            failure = proposal.error("server_error", "The authorization server failed.")
            uri = failure.oauthlib_error.in_uri(proposal.request.redirect_uri)
        return self.redirect(uri, proposal.application)

    def report(self, problem: Any) -> HttpResponse:
        uri = with_issuer(problem.in_uri(problem.redirect_uri))
        application = get_application_model().objects.filter(client_id=problem.client_id).first()
        if application is not None and not is_self_registered(application):
            return add_security_headers(self.redirect(uri, None))
        context: dict[str, Any] = {"text": _unaccepted(), "detail": f"{problem.error}: {problem.description}"}
        if application is not None and is_allowed(problem.redirect_uri, application):
            context |= {"back": uri, "destination": consent.destination(problem.redirect_uri)}
        return render_page(self.request, "oauth/refused.html", context, status=400)

    # Helpers

    def propose(self, asked: AuthorizationRequest) -> Proposal:
        """Validate with the toolkit, then with ``propose()``.

        Raises:
            FatalClientError: client or redirect URI is invalid.
            OAuthToolkitError: for the client.
            AuthorizationError, DocumentError: for the user.
        """
        if asked.unprintable():
            raise AuthorizationError(_unsafe())
        if self.request.user.is_authenticated:
            cimd.find_client(asked.get("client_id"), self.request)
        known = declared()
        scopes = [scope for scope in asked.scopes if scope in known]
        _scopes, found = self.validate_authorization_request(self.as_asked(asked, scopes))
        return propose(asked, found["request"])

    def as_asked(self, asked: AuthorizationRequest, scopes: list[str] | None = None) -> HttpRequest:
        clean: HttpRequest = copy(self.request)
        clean.method, clean.POST = "GET", QueryDict()
        clean.META = {**self.request.META, "QUERY_STRING": asked.query(scopes)}
        return clean

    def redirect(self, redirect_to: str, application: Any) -> HttpResponse:
        response: HttpResponse = super().redirect(with_issuer(redirect_to), application)
        return response


def with_issuer(uri: str) -> str:
    """Return a URI with exactly one ``iss`` parameter (RFC 9207)."""
    parts = urlsplit(uri)
    kept = [pair for pair in parts.query.split("&") if pair and pair.partition("=")[0] != "iss"]
    return urlunsplit(parts._replace(query="&".join([*kept, urlencode({"iss": base_url()})])))


def concerns_mcp(request: HttpRequest) -> bool:
    """Return True for a request that names an endpoint, or of a client that registered itself, or of our page."""
    asked = AuthorizationRequest.from_query(request.GET)
    if "asked" in request.POST or grants.known(asked.resources):
        return True
    clients = asked.values.get("client_id", ())
    found = get_application_model().objects.filter(
        client_id__in=[client_id for client_id in clients if "\0" not in client_id]
    )
    return any(map(is_cimd_client_id, clients)) or any(map(is_self_registered, found))


def _log_in_first() -> str:
    return _("Log in to this site first, then start again from the application.")


def _unaccepted() -> str:
    return _("This site does not accept the request of the application that sent you here.")


def _unsafe() -> str:
    return _("The application that sent you here is unknown to this site, or its request is unsafe.")
