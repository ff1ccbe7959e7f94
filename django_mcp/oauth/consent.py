"""What the consent page says. Everything a client says of itself is somebody's claim, and shown as one."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

from django.utils.translation import gettext as _

from django_mcp.core.permissions import declared, expanded, in_order

LOOPBACK = {"localhost", "127.0.0.1", "::1"}
_DEFAULT_PORTS = {"http": 80, "https": 443}


class Destination(NamedTuple):
    """Where the user is sent with the answer.

    Attributes:
        kind: ``"web"``, ``"loopback"``: a program that listens on the user's computer, or ``"program"``: one that
            opens links of its own scheme.
        text: for people: a host, or words.
        detail: the address behind the words; empty for a host.
    """

    kind: str
    text: str
    detail: str = ""


class ScopeText(NamedTuple):
    """A scope on the page: its words, and those of scopes it includes."""

    name: str
    text: str
    includes: Sequence[str]


def host_of(uri: str) -> str:
    """Host and, where it is not the usual one, port of a URI, in ASCII, so that no letter looks like another."""
    parts = urlsplit(uri)
    return _ascii(parts.hostname or "") + _port(parts)


def destination(redirect_uri: str) -> Destination:
    """Where a redirect URI leads (RFC 8252, section 7)."""
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
    """How this site came to know an application, in words."""
    match application.registration_source:
        case "cimd":
            return _("described at %(host)s") % {"host": host_of(application.client_id)}
        case "dcr":
            return _("registered itself; nobody at this site has checked it")
    return _("registered by this site’s administrators")


def granted(asked: Iterable[str], default: Iterable[str], limit: Iterable[str] | None) -> tuple[str, ...]:
    """The scopes that are granted, in order: of those asked for the known ones, or the default, within a limit.

    A scope beyond the limit is replaced by what it includes and the limit has.
    """
    known = frozenset(declared())
    scopes = known & frozenset(asked) or known & frozenset(default)
    if limit is not None:
        scopes = known & expanded(scopes) & expanded(frozenset(limit))
    return tuple(in_order(scopes).split())


def in_words(scopes: Iterable[str]) -> list[ScopeText]:
    """Scopes in words, each text once: what a scope includes is below it."""
    names, known, told = in_order(scopes).split(), declared(), set[str]()
    lines = []
    for name in names:
        if name not in told and not any(_is_above(other, name) for other in names):
            below = [each for each in in_order(expanded(frozenset({name}))).split() if each in known]
            lines.append(ScopeText(name, _words(name), [_words(each) for each in below if each not in {*told, name}]))
            told.update(below)
    return lines


def _is_above(one: str, other: str) -> bool:
    """Whether *one* includes *other*, and is not included in turn."""
    return other in expanded(frozenset({one})) and one not in expanded(frozenset({other}))


def _words(name: str) -> str:
    scope = declared().get(name)
    return str(scope.text) if scope else name


def _ascii(host: str) -> str:
    """A host in its ASCII form: ``xn--…`` for names in other letters."""
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
