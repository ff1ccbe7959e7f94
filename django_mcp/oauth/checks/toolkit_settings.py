"""``OAUTH2_PROVIDER`` held against ``oauth_defaults``: which value is weaker, what is safe, and why.

Safe values are never repeated here: they come from the function itself, so the two cannot drift apart. A key without
a rule below is compared as it is.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from django.apps import apps
from django.conf import settings as django_settings
from django.core.checks import CheckMessage, Error, Warning  # noqa: A004
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from django_mcp import conf
from django_mcp.auth.checks.base import uses_oauth
from django_mcp.oauth.checks.weaker import (
    Weaker,
    adds,
    differs,
    has_no_such_class,
    is_no_subclass,
    is_no_validator,
    is_off,
    is_positive,
    lacks,
    lasts,
    never,
)
from django_mcp.oauth.defaults import DAY, oauth_defaults

LONGEST = {"ACCESS_TOKEN_EXPIRE_SECONDS": 8 * 60 * 60, "REFRESH_TOKEN_EXPIRE_SECONDS": 90 * DAY}
"""Seconds up to which a longer life than the default's is a matter of taste: a working day for what opens everything
to a thief, and a quarter for a client that nobody used."""


class Rule(NamedTuple):
    """How a value may be weaker than the safe one.

    Attributes:
        weaker: takes the value and the safe one.
        why: what the weaker one does.
        is_error: it breaks OAuth 2.1, or the server.
    """

    weaker: Weaker
    why: str
    is_error: bool = False


OLD = gettext_noop("OAuth 2.1 has no such grant: it hands tokens or passwords to programs that should not see them")
METADATA = gettext_noop("clients would be told of what is refused, or not of what they need")
RULES: Mapping[str, Rule] = {
    "SCOPES": Rule(lacks, gettext_noop("no client can be given a scope that the toolkit does not know"), is_error=True),
    "DEFAULT_SCOPES": Rule(adds, gettext_noop("a client that asks for nothing would be given more than the default")),
    "ACCESS_TOKEN_EXPIRE_SECONDS": Rule(
        lasts(LONGEST["ACCESS_TOKEN_EXPIRE_SECONDS"]),
        gettext_noop("a stolen token opens the endpoint until it expires"),
    ),
    "REFRESH_TOKEN_EXPIRE_SECONDS": Rule(
        lasts(LONGEST["REFRESH_TOKEN_EXPIRE_SECONDS"]),
        gettext_noop("a client that nobody uses keeps its access for so long"),
    ),
    "REFRESH_TOKEN_GRACE_PERIOD_SECONDS": Rule(
        is_positive,
        gettext_noop(
            "the toolkit's grace answers HTTP 500 where tokens are hashed; "
            "DJANGO_MCP['REFRESH_GRACE_SECONDS'] replaces it"
        ),
        is_error=True,
    ),
    "ROTATE_REFRESH_TOKEN": Rule(
        is_off, gettext_noop("OAuth 2.1 wants refresh tokens of public clients replaced"), is_error=True
    ),
    "REFRESH_TOKEN_REUSE_PROTECTION": Rule(is_off, gettext_noop("a stolen refresh token would go unnoticed")),
    "PKCE_REQUIRED": Rule(is_off, gettext_noop("whoever intercepts a code could redeem it (RFC 7636)"), is_error=True),
    "REQUEST_APPROVAL_PROMPT": Rule(
        differs, gettext_noop("people would not be asked again before a client gets access")
    ),
    "ALLOW_LOCALHOST_LOOPBACK": Rule(is_off, gettext_noop("Claude Code, Cursor and Codex listen on http://localhost")),
    "ALLOWED_REDIRECT_URI_SCHEMES": Rule(
        differs,
        gettext_noop("codes would be sent to programs that are not meant, or not to those in EXTRA_REDIRECT_URIS"),
    ),
    "OAUTH2_RESPONSE_TYPES_SUPPORTED": Rule(differs, METADATA),
    "OAUTH2_GRANT_TYPES_SUPPORTED": Rule(differs, METADATA),
    "OAUTH2_TOKEN_ENDPOINT_AUTH_METHODS_SUPPORTED": Rule(differs, METADATA),
    "COMPLIANT_BCP_RFC9700_IMPLICIT_GRANT": Rule(is_off, OLD),
    "COMPLIANT_BCP_RFC9700_PASSWORD_GRANT": Rule(is_off, OLD),
    "COMPLIANT_BCP_RFC9700_PKCE_METHOD": Rule(
        is_off, gettext_noop("PKCE with 'plain' protects nothing"), is_error=True
    ),
    "COMPLIANT_BCP_RFC9700_ACCESS_TOKEN_TRANSPORT": Rule(
        is_off, gettext_noop("tokens in addresses end in logs (RFC 9700)")
    ),
    "COMPLIANT_BCP_RFC9700_AUTHZ_RESPONSE_ISS": Rule(
        is_off, gettext_noop("clients could not tell which server answered (RFC 9207), and some refuse")
    ),
    "COMPLIANT_BCP_RFC9700_TOKEN_STORAGE": Rule(
        is_off, gettext_noop("whoever reads the database could use the tokens in it"), is_error=True
    ),
    "DCR_ENABLED": Rule(never, ""),
    "CIMD_ENABLED": Rule(never, ""),
    "CIMD_METADATA_FETCHER": Rule(
        is_no_subclass, gettext_noop("documents of real clients would be refused, and private addresses fetched")
    ),
    "CIMD_REGISTRATION_PERMISSION_CLASSES": Rule(
        has_no_such_class, gettext_noop("nothing would limit how many are fetched")
    ),
    "OAUTH2_VALIDATOR_CLASS": Rule(
        is_no_validator,
        gettext_noop("tokens would not be bound to an endpoint, nor refused to who may not have them"),
        is_error=True,
    ),
    # Not among the defaults, for the toolkit's own are right.
    "ALLOW_URI_WILDCARDS": Rule(differs, gettext_noop("OAuth 2.1 wants redirect URIs compared exactly"), is_error=True),
    "AUTHORIZATION_CODE_EXPIRE_SECONDS": Rule(
        lasts(10 * 60), gettext_noop("a code should live ten minutes at most (RFC 6749)")
    ),
}
UNKNOWN = Rule(differs, gettext_noop("oauth_defaults() has another value"))


def check_toolkit_settings() -> Iterator[CheckMessage]:
    """Each value of ``OAUTH2_PROVIDER`` that is weaker than what ``oauth_defaults`` gives."""
    if uses_oauth() and not getattr(django_settings, "OAUTH2_PROVIDER", None):
        yield Error(
            _("OAUTH2_PROVIDER is missing, and the toolkit's own defaults are for sites older than OAuth 2.1."),
            hint=_(
                "Write, after DJANGO_MCP: from django_mcp.oauth import oauth_defaults; OAUTH2_PROVIDER = "
                "oauth_defaults(DJANGO_MCP)"
            ),
            id="django_mcp.E016",
        )
    for key, value, safe in compared():
        rule = RULES.get(key, UNKNOWN)
        if key != "OIDC_ISS_ENDPOINT" and rule.weaker(value, safe):
            kind, number = (Error, "django_mcp.E016") if rule.is_error else (Warning, "django_mcp.W008")
            yield kind(
                _("OAUTH2_PROVIDER[%(key)r] is %(value)r: %(why)s.") % {"key": key, "value": value, "why": _(rule.why)},
                hint=_advice(key, safe),
                id=number,
            )


def _advice(key: str, safe: Any) -> str:
    longest = _(" %(longest)s is the most.") % {"longest": LONGEST[key]} if key in LONGEST else ""
    return _("Write OAUTH2_PROVIDER = oauth_defaults(DJANGO_MCP), which has %(safe)r.%(longest)s") % {
        "safe": safe,
        "longest": longest,
    }


def check_issuer() -> Iterator[CheckMessage]:
    """An issuer that is not the site, so that clients refuse the metadata (RFC 8414, section 3.3)."""
    for key, value, safe in compared():
        if key == "OIDC_ISS_ENDPOINT" and value != safe:
            yield Error(
                _("OAUTH2_PROVIDER['OIDC_ISS_ENDPOINT'] is %(value)r, and DJANGO_MCP['BASE_URL'] says %(safe)r.")
                % {"value": value, "safe": safe},
                hint=_("Write OAUTH2_PROVIDER = oauth_defaults(DJANGO_MCP) after DJANGO_MCP; they must be the same."),
                id="django_mcp.E017",
            )


def compared() -> Iterator[tuple[str, Any, Any]]:
    """Key, the site's value and the safe one; nothing where other checks say that OAuth cannot work at all."""
    given = getattr(django_settings, "OAUTH2_PROVIDER", None)
    if not uses_oauth() or not apps.is_installed("oauth2_provider") or not given or not isinstance(given, Mapping):
        return
    from django_mcp.oauth.toolkit import oauth2_settings  # noqa: PLC0415 - needs the app registry

    stock: Mapping[str, Any] = oauth2_settings.defaults
    safe = {key: stock[key] for key in RULES if key in stock}
    try:
        safe |= oauth_defaults(conf.given())
    except Exception:  # noqa: BLE001 - no BASE_URL, or scopes that are none: both are reported
        return
    for key, right in safe.items():
        yield key, given.get(key, stock.get(key)), right
