"""Authorization server metadata (RFC 8414).

``/.well-known/openid-configuration`` is not served: it would promise OpenID Connect, and clients try it last
(2026-07-28, Authorization Server Metadata Discovery).
"""

from typing import Any

from django.urls import NoReverseMatch, reverse

from django_mcp.auth.grant_types import GRANT_TYPES
from django_mcp.auth.protected_resource import base_url
from django_mcp.auth.toolkit import oauth2_settings
from django_mcp.conf import APPROVALS_SCOPE, settings
from django_mcp.oauth import cimd
from django_mcp.transports.resource_metadata import public_document


def document() -> dict[str, Any]:
    """Return the metadata, which depends on configuration only, and on whether documents of clients can be fetched.

    Raises:
        NoReverseMatch: an endpoint is missing in ``oauth2_provider``.
    """
    methods = list(oauth2_settings.OAUTH2_TOKEN_ENDPOINT_AUTH_METHODS_SUPPORTED)
    found = {
        "issuer": base_url(),
        "authorization_endpoint": _url("authorize"),
        "token_endpoint": _url("token"),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": [name for name in oauth2_settings.OAUTH2_GRANT_TYPES_SUPPORTED if name in GRANT_TYPES],
        "token_endpoint_auth_methods_supported": methods,
        "code_challenge_methods_supported": ["S256"],
        # Never offline_access: refresh tokens do not depend on a scope (2026-07-28, Refresh Tokens). Nor the scope of
        # the approvals app: clients that request all that is listed would ask everybody for it.
        "scopes_supported": [scope for scope in settings.SCOPES if scope not in {"offline_access", APPROVALS_SCOPE}],
        "client_id_metadata_document_supported": cimd.is_advertised(),
        "authorization_response_iss_parameter_supported": True,
    }
    if oauth2_settings.DCR_ENABLED and (registration := _url_if_any("dcr-register")):
        found["registration_endpoint"] = registration
    if revocation := _url_if_any("revoke-token"):
        found |= {"revocation_endpoint": revocation, "revocation_endpoint_auth_methods_supported": methods}
    return found


metadata_view = public_document(document)


def _url(name: str) -> str:
    return base_url() + reverse(f"oauth2_provider:{name}")


def _url_if_any(name: str) -> str | None:
    try:
        return _url(name)
    except NoReverseMatch:
        return None
