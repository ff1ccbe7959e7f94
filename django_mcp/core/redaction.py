"""What of a call's arguments people may read: no secrets, and not more than they can take in."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

from django_mcp.conf import settings
from django_mcp.primitives.secrets import Schemas, below, is_secret, mentions_secrets
from django_mcp.primitives.tool import Tool

HIDDEN = "***"
LONGEST = 1000
"""Characters of one string that are kept."""
WHOLE = 8000
"""Characters of all arguments together that are kept."""
DEEPEST = 30
_LONGEST_KEY = 100
_INSIDE_WORDS = 5
"""A name of this length is looked for inside words too: "token" in "accesstoken", but "card" not in "discard"."""


def _loosely(text: str) -> str:
    """A pattern for *text* of which any character may be percent-encoded."""
    return "".join(f"(?:{re.escape(character)}|%{ord(character):02x})" for character in text)


_PARAMETERS = "|".join(map(_loosely, ("api_key", "access_token", "refresh_token")))
_SECRETS = re.compile(
    rf"((?:{_PARAMETERS})(?:=|%3d))[^&\s\"'<>#]+"
    rf"|({_loosely('mcp_key_')}[0-9a-z]{{6}})[0-9a-z%]+"
    r"|(\bbearer(?:\s|\+|%20)+)(?!\w+=\")[a-z0-9._~+/%-]{20,}=*",
    re.IGNORECASE,
)
_SHORTEST = len("api_key=x")
"""What is shorter holds none of them, as most names and many arguments."""


def redact(text: str) -> str:
    """*text* with "***" for API keys, bearer tokens, and the values of ``api_key`` and ``access_token`` in URLs.

    The first characters of a key stay, those under which it is listed.
    """
    if len(text) < _SHORTEST:
        return text
    return _SECRETS.sub(lambda match: f"{match[1] or match[2] or match[3]}***", text)


def redacted(tool: Tool | None, arguments: Any, *, longest: int | None = LONGEST, whole: int | None = WHOLE) -> Any:
    """The arguments of a call, without secrets and cut short, as a JSON value of its own.

    Hidden is what the tool's schema marks (``Secret``), what is called like ``DJANGO_MCP["REDACTED_ARGUMENTS"]``, and
    credentials wherever they stand.

    Args:
        tool: which was called, where it is known.
        arguments: as they came, or checked: what JSON cannot hold is shown as text.
        longest: characters that are kept of a string; None for all.
        whole: characters that are kept in all; None for all.
    """
    schemas = () if tool is None else _marked(tool)
    if not schemas:
        return _Copy((), {}, longest, whole).of(arguments, (), 0)
    # Each schema has references of its own. What the first one left is shown to the next one.
    for schema in schemas:
        arguments = _Copy((schema,), schema, longest, whole).of(arguments, (schema,), 0)
    return arguments


class _Copy:
    """Copies one value, as long as there is room."""

    def __init__(self, schemas: Schemas, root: Mapping[str, Any], longest: int | None, whole: int | None) -> None:
        self.schemas = schemas
        self.root = root
        self.longest = longest
        self.room = whole

    def of(self, value: Any, schemas: Schemas, depth: int) -> Any:
        """A copy of *value*, which *schemas* describe."""
        match value:
            case None | bool() | int() | float():
                self._take(8)
                return value
            case str():
                return self._text(value)
            case _ if depth >= DEEPEST or self.room == 0:
                return "…"
            case Mapping():
                return self._mapping(value, schemas, depth)
            case list() | tuple():
                return self._entries(value, schemas, depth)
        return self._text(str(value))

    def _mapping(self, value: Mapping[Any, Any], schemas: Schemas, depth: int) -> dict[str, Any]:
        names, copied = settings.REDACTED_ARGUMENTS, {}
        for number, (key, each) in enumerate(value.items()):
            if self.room == 0:
                copied["…"] = f"{len(value) - number} more"
                break
            name = str(key)
            inner = below(schemas, name, self.root) if schemas else ()
            hidden = (inner and is_secret(inner, self.root)) or is_hidden(name, each, names)
            copied[self._key(name)] = self._hide() if hidden else self.of(each, inner, depth + 1)
        return copied

    def _entries(self, value: Iterable[Any], schemas: Schemas, depth: int) -> list[Any]:
        entries, copied = list(value), []
        for index, each in enumerate(entries):
            if self.room == 0:
                copied.append(f"… {len(entries) - index} more")
                break
            inner = below(schemas, index, self.root) if schemas else ()
            hidden = inner and is_secret(inner, self.root)
            copied.append(self._hide() if hidden else self.of(each, inner, depth + 1))
        return copied

    def _hide(self) -> str:
        self._take(len(HIDDEN))
        return HIDDEN

    def _key(self, name: str) -> str:
        self._take(len(name))
        return redact(name[:_LONGEST_KEY])

    def _text(self, text: str) -> str:
        # Redacted before it is cut: half a credential is not recognised.
        most = min((each for each in (self.longest, self.room) if each is not None), default=None)
        length = len(text)
        if most is None or length <= most:
            self._take(length)
            return redact(text)
        self._take(most)
        return f"{redact(text[: most + _LONGEST_KEY])[:most]}… ({length} characters)"

    def _take(self, characters: int) -> None:
        if self.room is not None:
            self.room = max(self.room - characters, 0)


def is_hidden(name: str, value: Any, names: Iterable[str]) -> bool:
    """Whether an argument's value is not to be shown because of what the argument is called.

    Whether there is a secret may be read: True, False and None are no secrets.
    """
    if value is None or isinstance(value, bool):
        return False
    is_number = isinstance(value, int | float)  # max_tokens=500
    return _called(name[:200], tuple(names)) > is_number


@lru_cache(maxsize=2000)
def _called(name: str, names: tuple[str, ...]) -> int:
    """2 where one of *names* is among the words of *name*, 1 where it is inside of one, else 0."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    words = f"_{re.sub(r'[^a-z0-9]+', '_', spaced)}_"
    joined, found = words.replace("_", ""), 0
    for each in names:
        part = re.sub(r"[^a-z0-9]+", "_", each.lower()).strip("_")
        if f"_{part}_" in words:
            return 2
        plain = part.replace("_", "")
        if f"_{plain}_" in words or (len(plain) >= _INSIDE_WORDS and plain in joined):
            found = 1
    return found


_schemas: "WeakKeyDictionary[Tool, tuple[Any, Schemas]]" = WeakKeyDictionary()


def _marked(tool: Tool) -> Schemas:
    """The schemas of a tool that mark something: what is published, and what the signature says."""
    known = _schemas.get(tool)
    if known is None or known[0] is not tool.definition:
        published = tool.definition.get("inputSchema")
        made = getattr(getattr(tool, "arguments", None), "schema", None)
        found = tuple(each for each in (published, made) if isinstance(each, Mapping) and mentions_secrets(each))
        known = _schemas[tool] = (tool.definition, found)
    return known[1]
