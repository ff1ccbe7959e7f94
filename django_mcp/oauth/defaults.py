"""``oauth_defaults()``, which returns the setting ``OAUTH2_PROVIDER``."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

DAY = 24 * 60 * 60


def oauth_defaults(django_mcp: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    """Return ``OAUTH2_PROVIDER`` for an OAuth 2.1 authorization server for MCP clients.

    System checks report values that are weakened.

    Args:
        django_mcp: the ``DJANGO_MCP`` setting.
        changes: settings that override the returned ones.

    Raises:
        ImproperlyConfigured: ``BASE_URL`` is missing.
    """
    from django_mcp.auth import grant_types  # noqa: PLC0415 - a settings module must not touch lazy settings
    from django_mcp.conf import Settings, with_own_scopes  # noqa: PLC0415 - likewise

    known = with_own_scopes(
        Settings(
            **{
                key: django_mcp[key]
                for key in (
                    *("BASE_URL", "SCOPES", "DEFAULT_SCOPES"),
                    *("EXTRA_REDIRECT_URIS", "CLIENT_CREDENTIALS", "CLIENT_DOCUMENTS", "APPROVALS_APP"),
                )
                if key in django_mcp
            }
        )
    )
    if not known.BASE_URL:
        msg = "oauth_defaults() needs DJANGO_MCP['BASE_URL'], the site's public address: 'https://travel.example.com'."
        raise ImproperlyConfigured(msg)
    schemes = [urlsplit(uri).scheme for uri in known.EXTRA_REDIRECT_URIS]
    return {
        # The issuer, even without OpenID Connect.
        "OIDC_ISS_ENDPOINT": known.BASE_URL.rstrip("/"),
        "SCOPES": {
            name: value["text"] if isinstance(value, Mapping) else value for name, value in known.SCOPES.items()
        },
        "DEFAULT_SCOPES": list(known.DEFAULT_SCOPES),
        "ACCESS_TOKEN_EXPIRE_SECONDS": 60 * 60,
        "REFRESH_TOKEN_EXPIRE_SECONDS": 30 * DAY,
        # Replaced by REFRESH_TOKEN_GRACE_TTL, which works with hashed tokens.
        "REFRESH_TOKEN_GRACE_PERIOD_SECONDS": 0,
        "ROTATE_REFRESH_TOKEN": True,
        "REFRESH_TOKEN_REUSE_PROTECTION": True,
        "PKCE_REQUIRED": True,
        "REQUEST_APPROVAL_PROMPT": "force",
        # Claude Code, Codex and VS Code listen on http://localhost or 127.0.0.1, on any port (RFC 8252, section 7.3).
        "ALLOW_LOCALHOST_LOOPBACK": True,
        "ALLOWED_REDIRECT_URI_SCHEMES": list(dict.fromkeys(["http", "https", *schemes])),
        "OAUTH2_RESPONSE_TYPES_SUPPORTED": ["code"],
        "OAUTH2_GRANT_TYPES_SUPPORTED": grant_types.served(services=known.CLIENT_CREDENTIALS),
        "OAUTH2_TOKEN_ENDPOINT_AUTH_METHODS_SUPPORTED": ["none", "client_secret_post", "client_secret_basic"],
        "COMPLIANT_BCP_RFC9700_IMPLICIT_GRANT": True,
        "COMPLIANT_BCP_RFC9700_PASSWORD_GRANT": True,
        "COMPLIANT_BCP_RFC9700_PKCE_METHOD": True,
        "COMPLIANT_BCP_RFC9700_ACCESS_TOKEN_TRANSPORT": True,
        "COMPLIANT_BCP_RFC9700_AUTHZ_RESPONSE_ISS": True,
        "COMPLIANT_BCP_RFC9700_TOKEN_STORAGE": True,
        "DCR_ENABLED": True,
        "CIMD_ENABLED": known.CLIENT_DOCUMENTS,
        "CIMD_METADATA_FETCHER": "django_mcp.oauth.cimd.MetadataFetcher",
        "OAUTH2_VALIDATOR_CLASS": "django_mcp.oauth.validator.Validator",
        **changes,
    }
