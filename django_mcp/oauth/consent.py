"""Contents of the consent page, and helpers shared by all pages for users."""

import secrets
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _

from django_mcp.conf import settings
from django_mcp.core.permissions import declared, expanded, in_order
from django_mcp.core.principal import display_name
from django_mcp.core.server import MCPServer

LOOPBACK = {"localhost", "127.0.0.1", "::1"}
NO_TARGETS = {"javascript", "data", "vbscript", "file", "blob", "about"}
"""Schemes that browsers handle themselves: no redirect URI has one."""
_DEFAULT_PORTS = {"http": 80, "https": 443}


class Destination(NamedTuple):
    """The target of the redirect.

    Attributes:
        kind: ``"web"``, ``"loopback"`` (a program on the user's computer) or ``"program"`` (one with its own URL
            scheme).
        text: a host, or a description.
        detail: the address described; empty for a host.
    """

    kind: str
    text: str
    detail: str = ""


class ScopeText(NamedTuple):
    """A scope on the page: its text, and those of included scopes."""

    name: str
    text: str
    includes: Sequence[str]


def host_of(uri: str) -> str:
    """Return host and non-default port in ASCII, so that no character imitates another."""
    parts = urlsplit(uri)
    return _ascii(parts.hostname or "") + _port(parts)


def destination(redirect_uri: str) -> Destination:
    """Describe where a redirect URI leads (RFC 8252, section 7)."""
    parts = urlsplit(redirect_uri)
    if parts.scheme not in _DEFAULT_PORTS:
        detail = f"{parts.scheme}://{_ascii(parts.netloc)}" if parts.netloc else f"{parts.scheme}:"
        text = _("a program on this computer that opens “%(scheme)s” links") % {"scheme": f"{parts.scheme}:"}
        return Destination("program", text, detail)
    if parts.hostname in LOOPBACK:
        return Destination("loopback", _("a program on this computer"), host_of(redirect_uri))
    host = host_of(redirect_uri)
    return Destination("web", host if parts.scheme == "https" else f"{parts.scheme}://{host}")


def origin(application: Any) -> str:
    match application.registration_source:
        case "cimd":
            return _("described at %(host)s") % {"host": host_of(application.client_id)}
        case "dcr":
            return _("registered itself; nobody at this site has checked it")
    return _("registered by this site’s administrators")


def granted_scopes(asked: Iterable[str], default: Iterable[str], limit: Iterable[str] | None) -> tuple[str, ...]:
    """Return the known scopes of *asked*, else the default, within *limit*.

    A scope beyond the limit is replaced by those it includes within the limit.
    """
    known = frozenset(declared())
    scopes = known & frozenset(asked) or known & frozenset(default)
    if limit is not None:
        scopes = known & expanded(scopes) & expanded(frozenset(limit))
    return tuple(in_order(scopes).split())


def describe_scopes(scopes: Iterable[str]) -> list[ScopeText]:
    """Describe scopes. Included scopes are listed below the scope, each once."""
    names, known, covered = in_order(scopes).split(), declared(), set[str]()
    lines = []
    for name in names:
        if name not in covered and not any(_is_above(other, name) for other in names):
            below = [scope for scope in in_order(expanded(frozenset({name}))).split() if scope in known]
            lines.append(
                ScopeText(name, _words(name), [_words(scope) for scope in below if scope not in {*covered, name}])
            )
            covered.update(below)
    return lines


def _is_above(one: str, other: str) -> bool:
    return other in expanded(frozenset({one})) and one not in expanded(frozenset({other}))


def _words(name: str) -> str:
    scope = declared().get(name)
    return str(scope.text) if scope else name


def _ascii(host: str) -> str:
    if host.isascii():
        return f"[{host}]" if ":" in host and not host.startswith("[") and "]" not in host else host
    try:
        return host.encode("idna").decode()
    except UnicodeError:
        return host.encode("ascii", "backslashreplace").decode()


def _port(parts: SplitResult) -> str:
    try:
        port = parts.port
    except ValueError:
        return ""
    return "" if port is None or port == _DEFAULT_PORTS.get(parts.scheme) else f":{port}"


LONGEST = 60
"""Maximum length of a displayed name, with the sign that it is cut."""

_NEVER_SHOWN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories without display: control, format (bidirectional, zero-width), surrogate, private, unassigned,
separators.
"""

_INVISIBLE = dict.fromkeys(
    (
        *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0),
        *range(0x180B, 0x1810),
        *range(0xFE00, 0xFE10),
        *range(0xE0100, 0xE01F0),
    )
)
"""Invisible characters of other categories."""


def clean_name(name: str, longest: int = LONGEST) -> str:
    """Return a short line without characters that hide, reorder or break text. A longer one ends in an ellipsis.

    It is not escaped, and may be empty.
    """
    spaced = " ".join(name.translate(_INVISIBLE).split())
    shown = "".join(character for character in spaced if unicodedata.category(character) not in _NEVER_SHOWN)
    line = " ".join(shown.split())
    return line if len(line) <= longest else f"{line[: longest - 1].rstrip()}…"


CONTENT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'nonce-{nonce}'; img-src data:; base-uri 'none'; frame-ancestors 'none'"
)
"""Without ``form-action``, which Chromium also applies to the redirect after the form."""


def render_page(request: HttpRequest, template: str, context: dict[str, Any], status: int = 200) -> HttpResponse:
    """Render a page with security headers.

    Args:
        template: path below ``django_mcp/``.
    """
    nonce = secrets.token_urlsafe(16)
    host = urlsplit(settings.BASE_URL or "").netloc or request.get_host()
    user = getattr(request, "user", None)
    site = {"site_name": settings.TITLE or host, "site_host": host, "user": user}
    if user is not None and user.is_authenticated:
        site["user_name"] = display_name(user)
    context = {"style_nonce": nonce, **site, **context}
    response = TemplateResponse(request, f"django_mcp/{template}", context, status=status)
    response["Content-Security-Policy"] = CONTENT_SECURITY_POLICY.format(nonce=nonce)
    return add_security_headers(response)


def add_security_headers(response: HttpResponse) -> HttpResponse:
    response["X-Frame-Options"] = "DENY"
    response["Cache-Control"] = "no-store"
    # Not no-referrer: browsers would send "Origin: null", which Django's CSRF check rejects.
    response["Referrer-Policy"] = "same-origin"
    return response


def server_title(server: MCPServer) -> str:
    return str(server.implementation.get("title") or server.implementation["name"])
