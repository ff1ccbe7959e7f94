"""The authorization endpoint (RFC 6749, section 3.1): people see who asks for what, and agree or do not.

Nobody is asked to agree to what would fail afterwards: a request is tested before login and before consent. Requests
of people who are not logged in fetch nothing from elsewhere.
"""

import logging
from copy import copy
from typing import Any
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

from django_mcp.auth.identifiers import base_url
from django_mcp.core.permissions import declared
from django_mcp.oauth import consent
from django_mcp.oauth.authorization_request import AuthorizationRequest
from django_mcp.oauth.names import clean_name
from django_mcp.oauth.pages import page, protect, title_of
from django_mcp.oauth.proposals import Proposal, Refused, is_self_registered, propose, resource_problem
from django_mcp.oauth.toolkit import (
    AuthorizationView,
    FatalClientError,
    OAuthToolkitError,
    get_application_model,
    is_cimd_client_id,
)

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
        except Refused as refused:
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
            raise Refused(_unsafe(), problem)
        if "none" not in self.prompt():
            return self.to_login(asked)
        if proposal is None:
            raise Refused(_("Log in to this site first, then start again from the application."), "login_required")
        raise proposal.error("login_required", "The user has to log in.")

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
            raise proposal.error("consent_required", "The user has to agree.")
        return self.ask(proposal)

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:  # noqa: ARG002
        """What the person decided. It is tested again, for much may have happened since the page."""
        try:
            asked = AuthorizationRequest.from_signed(request.POST.get("asked", ""), request.user)
        except signing.BadSignature:
            text = _("This page is too old, or was made for somebody else. Start again from the application.")
            raise Refused(text) from None
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
            Refused: for the person.
        """
        if asked.unprintable():
            raise Refused(_unsafe())
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
    return _("The application that sent you here is unknown to this site, or asks in a way that is not safe.")
