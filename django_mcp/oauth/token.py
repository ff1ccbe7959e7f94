"""The token and revocation endpoints (RFC 6749, section 3.2; RFC 7009). Every response is JSON."""

from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import BadRequest, SuspiciousOperation
from django.db import connections, transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.decorators import method_decorator
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.debug import sensitive_post_parameters

from django_mcp.auth.grant_types import GRANT_TYPES, served
from django_mcp.auth.toolkit import OAuthLibCore, get_access_token_model
from django_mcp.auth.toolkit import RevokeTokenView as ToolkitRevokeView
from django_mcp.auth.toolkit import TokenView as ToolkitTokenView
from django_mcp.conf import settings
from django_mcp.transports.base import with_cors

FORM = "application/x-www-form-urlencoded"
LONGEST = 64 * 1024
"""Maximum size of a body in bytes."""

PARAMETERS = frozenset(
    {
        *("grant_type", "client_id", "client_secret", "scope", "resource"),
        *("username", "password"),  # of other applications of the site
        *("token", "token_type_hint"),
        *(name for grant_type in GRANT_TYPES.values() for name in grant_type.parameters),
    }
)
"""Parameters that are read. Others would overwrite attributes of oauthlib's request."""


class TokenOAuthLibCore(OAuthLibCore):  # type: ignore[misc]
    """Passes only known parameters to oauthlib."""

    def extract_body(self, request: HttpRequest) -> list[tuple[str, str]]:
        # resource may be repeated.
        return [pair for pair in super().extract_body(request) if pair[0] in PARAMETERS]


class ClientEndpointMixin:
    """Base of both views, with JSON errors for malformed requests, and CORS."""

    @classmethod
    def get_oauthlib_core(cls) -> TokenOAuthLibCore:
        # The toolkit would use a core that a view it inherits from has cached.
        return TokenOAuthLibCore(cls.get_server())  # type: ignore[attr-defined]

    @classmethod
    def as_view(cls, **initkwargs: Any) -> Any:
        # Without ATOMIC_REQUESTS: revocations after a replay must survive its error.
        view = with_cors(super().as_view(**initkwargs), methods=["POST"])  # type: ignore[misc]
        for alias in connections:
            transaction.non_atomic_requests(using=alias)(view)
        return csrf_exempt(login_not_required(view))

    @method_decorator(sensitive_post_parameters())
    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if request.method != "POST":
            response = _error("invalid_request", "Send a POST request.", 405)
            response["Allow"] = "POST, OPTIONS"
        elif problem := problem_of(request):
            response = _error("invalid_request", problem)
        else:
            response = super().dispatch(request, *args, **kwargs)  # type: ignore[misc]
            response["Content-Type"] = "application/json"
            if response.status_code == 401 and request.headers.get("Authorization"):  # noqa: PLR2004
                response["WWW-Authenticate"] = 'Basic realm="OAuth client"'  # RFC 6749, section 5.2
        # RFC 6749, section 5.1
        response["Cache-Control"] = "no-store"
        response["Pragma"] = "no-cache"
        return response


class TokenView(ClientEndpointMixin, ToolkitTokenView):  # type: ignore[misc]
    """``/o/token/``."""

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:  # noqa: ARG002
        # The device flow is not offered.
        name = request.POST.get("grant_type", "")
        if name.startswith("urn:") and name not in GRANT_TYPES:
            known = ", ".join(served(services=settings.CLIENT_CREDENTIALS))
            return _error("unsupported_grant_type", f"grant_type must be one of {known}.")
        try:
            response: HttpResponse = self.authorization_flow_token_response(request)
        except get_access_token_model().DoesNotExist:
            # The toolkit reloads the token it has saved, which a concurrent request may have revoked.
            return _error("invalid_grant", "The code or refresh token was used twice at the same time.")
        return response


class RevokeView(ClientEndpointMixin, ToolkitRevokeView):  # type: ignore[misc]
    """``/o/revoke_token/``."""


def problem_of(request: HttpRequest) -> str | None:
    if request.META.get("QUERY_STRING"):
        return "Send parameters in the body. Parameters in the URL are logged by servers."
    if request.content_type != FORM:
        return f"Content-Type must be {FORM}."
    if not request.headers.get("Authorization", "").isascii():
        return "The Authorization header must be ASCII."
    try:
        values = _read(request)
    except (SuspiciousOperation, BadRequest):
        return f"The body must be UTF-8 and at most {LONGEST} bytes."
    if any("\0" in text for name, texts in values.items() for text in (name, *texts)):
        return "The body must not contain NUL characters."
    repeated = [name for name, texts in values.items() if len(texts) > 1 and name in PARAMETERS - {"resource"}]
    return f"{repeated[0]} must not be repeated." if repeated else None


def _read(request: HttpRequest) -> dict[str, list[str]]:
    if len(request.body) > LONGEST:
        raise BadRequest
    return {name: request.POST.getlist(name) for name in request.POST}


def _error(code: str, description: str, status: int = 400) -> HttpResponse:
    return JsonResponse({"error": code, "error_description": description}, status=status)
