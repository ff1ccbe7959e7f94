"""System checks of OAuth scopes: what ``DJANGO_MCP["SCOPES"]`` declares, and what asks for others."""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django.core.checks import CheckMessage, Error
from django.utils.functional import Promise
from django.utils.translation import gettext as _

from django_mcp import conf
from django_mcp.core.server import MCPServer, servers

TOKEN = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
"""A scope's name: printable ASCII without space, quote and backslash (RFC 6749, section 3.3)."""


def check_declared() -> Iterator[CheckMessage]:
    """Entries of ``SCOPES`` that are no scopes."""
    for name, value in conf.settings.SCOPES.items():
        for problem, hint in _problems(name, value):
            text = _("DJANGO_MCP['SCOPES'][%(name)r] %(problem)s.") % {"name": name, "problem": problem}
            yield Error(text, hint=hint, id="django_mcp.E008")


def _problems(name: Any, value: Any) -> Iterator[tuple[str, str]]:
    """What is wrong with an entry, and what to write."""
    if not isinstance(name, str) or not TOKEN.fullmatch(name):
        yield (
            _("is no scope's name"),
            _("Use ASCII letters, digits and marks without space, quote or backslash: 'mcp:read'."),
        )
    right = _(
        "Write what it lets a client do: 'Read your notes', or {'text': 'Read your notes', 'implies': ['mcp:list']}."
    )
    if not isinstance(value, Mapping):
        value = {"text": value}
    if not isinstance(value.get("text"), str | Promise) or not str(value["text"]).strip():
        yield _("says nothing for the person who is asked to agree"), right
    if strange := [key for key in value if key not in {"text", "implies"}]:
        yield (
            _("has a key %(key)r that nobody reads") % {"key": strange[0]},
            _(
                "Write what it lets a client do: 'Read your notes', or {'text': 'Read your notes', 'implies': "
                "['mcp:list']}; there are no other keys."
            ),
        )
    implied = value.get("implies", ())
    if not isinstance(implied, list | tuple | set | frozenset):
        yield _("implies %(implied)r, which is no list") % {"implied": implied}, right
        return
    for each in implied:
        if not _is_declared(each):
            yield _("implies %(each)r, which is not declared") % {"each": each}, _nearest(each)


def check_needed() -> Iterator[CheckMessage]:
    """Scopes that are needed somewhere, and which no client can be given, for they are not declared."""
    yield from _undeclared(_("DJANGO_MCP['DEFAULT_SCOPES'] has"), conf.settings.DEFAULT_SCOPES)
    for server in servers():
        try:
            own = sorted(server.scopes - set(conf.settings.DEFAULT_SCOPES), key=str)
        except TypeError:  # not all of them can be scopes, which is reported above for the setting
            continue
        yield from _undeclared(_("%(server)r needs") % {"server": server}, own, server)
        for registry in (server.tools, server.resources, server.templates, server.prompts):
            for primitive in registry.values():
                yield from _undeclared(
                    _("%(primitive)s on %(server)r needs") % {"primitive": primitive.label, "server": server},
                    sorted(primitive.scopes, key=str),
                )


def _undeclared(who: str, needed: Iterable[Any], server: MCPServer | None = None) -> Iterator[CheckMessage]:
    for name in needed:
        if not _is_declared(name):
            yield Error(
                _("%(who)s the scope %(name)r, which is not in DJANGO_MCP['SCOPES'].") % {"who": who, "name": name},
                hint=_nearest(name),
                obj=server,
                id="django_mcp.E007",
            )


def _is_declared(name: Any) -> bool:
    return isinstance(name, str) and name in conf.settings.SCOPES


def _nearest(name: Any) -> str:
    """Which scope was probably meant."""
    known = [each for each in conf.settings.SCOPES if isinstance(each, str)]
    if close := difflib.get_close_matches(str(name), known, n=1):
        return _("Did you mean %(meant)r?") % {"meant": close[0]}
    return _("Add it: 'SCOPES': {%(name)r: 'What it lets a client do'}. There are: %(known)s.") % {
        "name": str(name),
        "known": ", ".join(known) or _("none"),
    }
