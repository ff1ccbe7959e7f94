"""URI templates (RFC 6570) read backwards: from a URI to the variables that make it.

Supported: ``{name}`` (one path segment or part of one), ``{+name}`` (anything, slashes too), and ``{?a,b}`` at
the end (optional query parameters). That is what servers of the field use, and each can be matched without
guessing. Values are percent-decoded. What would then lead out of a folder (slashes that were quoted, ``..``, NUL, the
root) is no value: a function may join it to a path.
"""

import re
from urllib.parse import parse_qsl, unquote

_EXPRESSION = re.compile(r"\{([^{}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


class URITemplate:
    """A parsed template.

    Attributes:
        source: the template as written.
        variables: names in order of appearance.
        optional: those of them that come from ``{?…}`` and may be absent.
        is_lookup: values are only looked up, such as keys of rows, and any text will do.

    Raises:
        ValueError: no scheme, an operator that is not supported, a name used twice, or a bad name.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        if not _SCHEME.match(source):
            msg = f"{source!r} has no scheme; write something like 'travel://cities/{{city}}'"
            raise ValueError(msg)
        self.is_lookup = False
        query: list[str] = []
        path: list[str] = []
        simple: set[str] = set()
        pattern: list[str] = []
        end = 0
        for match in _EXPRESSION.finditer(source):
            pattern.append(re.escape(source[end : match.start()]))
            end = match.end()
            expression = match[1]
            if expression.startswith("?") and end == len(source):
                query = [self._name(name) for name in expression[1:].split(",")]
            else:
                path.append(name := self._name(expression.removeprefix("+")))
                if not expression.startswith("+"):
                    simple.add(name)
                # Neither "/" nor what starts a query or fragment belongs to a simple variable.
                pattern.append(f"(?P<{name}>{'.+' if expression.startswith('+') else '[^/?#]+'})")
        pattern.append(re.escape(source[end:]))
        if "{" in (literal := "".join(_EXPRESSION.split(source)[::2])) or "}" in literal:
            msg = f"{source!r} has an unbalanced brace"
            raise ValueError(msg)
        self.variables: tuple[str, ...] = (*path, *query)
        self.optional: frozenset[str] = frozenset(query)
        self._simple = frozenset(simple)
        if len(set(self.variables)) != len(self.variables):
            msg = f"{source!r} uses a variable twice"
            raise ValueError(msg)
        self._pattern = re.compile("".join(pattern))

    def _name(self, name: str) -> str:
        if not _NAME.fullmatch(name):
            msg = f"{self.source!r}: {{{name}}} is not supported; use {{name}}, {{+name}}, or a final {{?a,b}}"
            raise ValueError(msg)
        return name

    def match(self, uri: str) -> dict[str, str] | None:
        """The variables that give *uri*, or None where this template cannot."""
        base, query = uri, ""
        if self.optional:
            base, _, query = uri.partition("?")
        found = self._pattern.fullmatch(base)
        if found is None:
            return None
        values = {name: unquote(value) for name, value in found.groupdict().items()}
        if not self.is_lookup and any(_is_no_name(value, name in self._simple) for name, value in values.items()):
            return None
        for name, value in parse_qsl(query, keep_blank_values=True):
            if name not in self.optional or name in values:
                return None
            values[name] = value
        return values


def _is_no_name(value: str, is_simple: bool) -> bool:
    """Whether a decoded value would lead out of the folder that a function joins it to."""
    segments = re.split(r"[/\\]", value)
    return "\0" in value or ".." in segments or (len(segments) > 1 and (is_simple or not segments[0]))
