"""Matching of URIs against URI templates (RFC 6570).

Supported are the forms that can be matched without ambiguity: ``{name}`` (a path segment or part of one), ``{+name}``
(any text, slashes included), and ``{?a,b}`` at the end (optional query parameters). Values are percent-decoded once.
"""

import re
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from urllib.parse import parse_qsl, unquote

_EXPRESSION = re.compile(r"\{([^{}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_SLASH = re.compile(r"[/\\]")
_ROOT = re.compile(r"[/\\]|[A-Za-z]:")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def leads_out(value: str) -> bool:
    """Return True if a decoded value may lead out of a folder that a function joins it to.

    This is an absolute path (POSIX, or a drive or share of Windows), a path with a ``..`` segment, and text with NUL or
    another control character. Paths are those of every platform, whichever the site runs on.
    """
    is_parent = any(segment.strip() == ".." for segment in _SLASH.split(value))  # Windows ignores spaces at the end
    return is_parent or _ROOT.match(value) is not None or _CONTROL.search(value) is not None


def has_slash(value: str) -> bool:
    return _SLASH.search(value) is not None


class URITemplate:
    """A parsed template.

    Attributes:
        source: the template as written.
        variables: names in order of appearance.
        optional: names of ``{?…}``, which may be absent.
        segments: names of ``{name}``, whose values are a segment or part of one.

    Raises:
        ValueError: no scheme, an unsupported operator, a duplicate name, or an invalid one.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        if not _SCHEME.match(source):
            msg = f"{source!r} has no scheme. Use a URI template such as 'travel://cities/{{city}}'."
            raise ValueError(msg)
        query: list[str] = []
        path: list[str] = []
        simple: set[str] = set()
        # Literals, and for each variable between them the characters that end it: a simple one ends at "/", "?"
        # and "#".
        parts: list[str] = []
        stops: list[str] = []
        end, literal = 0, ""
        for match in _EXPRESSION.finditer(source):
            literal, end = source[end : match.start()], match.end()
            expression = match[1]
            if expression.startswith("?") and end == len(source):
                query = [self._name(name) for name in expression[1:].split(",")]
            else:
                path.append(name := self._name(expression.removeprefix("+")))
                if not expression.startswith("+"):
                    simple.add(name)
                parts.append(literal)
                stops.append("\n" if expression.startswith("+") else "/?#")
                literal = ""
        parts.append(literal + source[end:])
        if "{" in (literals := "".join(_EXPRESSION.split(source)[::2])) or "}" in literals:
            msg = f"{source!r} has an unbalanced brace."
            raise ValueError(msg)
        self.variables: tuple[str, ...] = (*path, *query)
        self.optional: frozenset[str] = frozenset(query)
        self.segments: frozenset[str] = frozenset(simple)
        if len(set(self.variables)) != len(self.variables):
            msg = f"{source!r} uses a variable twice."
            raise ValueError(msg)
        self._path = tuple(path)
        self._parts = tuple(parts)
        self._stops = tuple(stops)

    def _name(self, name: str) -> str:
        if not _NAME.fullmatch(name):
            msg = f"{self.source!r}: {{{name}}} is not supported. Use {{name}}, {{+name}}, or {{?a,b}} at the end."
            raise ValueError(msg)
        return name

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the variables that give *uri*, or None. Linear in the length of *uri*, which clients choose."""
        base, query = uri, ""
        if self.optional:
            base, _, query = uri.partition("?")
        found = self._split(base)
        if found is None:
            return None
        values = {name: unquote(value) for name, value in zip(self._path, found, strict=True)}
        for name, value in parse_qsl(query, keep_blank_values=True):
            if name not in self.optional or name in values:
                return None
            values[name] = value
        return values

    def _split(self, uri: str) -> list[str] | None:
        # Variables match greedily, from left to right.
        first, last = self._parts[0], self._parts[-1]
        if not self._stops:
            return [] if uri == first else None
        if not (uri.startswith(first) and uri.endswith(last)) or len(uri) < len(first) + len(last):
            return None
        text = uri[len(first) : len(uri) - len(last)]
        # From the end: the positions from which the rest of the template matches the rest of the text.
        places = [{len(text)}]
        for stops, literal in zip(self._stops[:0:-1], self._parts[-2:0:-1], strict=True):
            starts = _starts(text, stops, places[-1])
            places.append({at for found in starts if text.startswith(literal, at := found - len(literal)) and at >= 0})
        found, start = [], 0
        for stops, literal, ends in zip(self._stops, self._parts[1:], reversed(places), strict=True):
            stop = min((at for position in stops if (at := text.find(position, start)) >= 0), default=len(text))
            end = next((at for at in range(stop, start, -1) if at in ends), None)
            if end is None:
                return None
            found.append(text[start:end])
            start = end + len(literal)
        return found


def _starts(text: str, stops: str, ends: AbstractSet[int]) -> Iterable[int]:
    # A variable has at least one character, and none of *stops*.
    is_inside = False
    for at in range(len(text) - 1, -1, -1):
        is_inside = text[at] not in stops and (is_inside or at + 1 in ends)
        if is_inside:
            yield at
