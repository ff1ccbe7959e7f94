"""What of a call's arguments people may read: no secrets, and not more than they can take in."""

import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import takewhile
from typing import Any
from urllib.parse import unquote_plus
from weakref import WeakKeyDictionary

from django_mcp.conf import settings
from django_mcp.primitives.prompt import Prompt
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
    r"|(\bbearer(?:\s|\+|%20)+)(?!\w+=\")[a-z0-9._~+/%-]{20,}=*"
    r"|((?<=[a-z0-9]://)[^\s/?#@:\"'<>]{0,200}:)[^\s/?#@\"'<>]+(?=@)",
    re.IGNORECASE,
)
_SHORTEST = len("api_key=x")
"""What is shorter holds none of them, as most names and many arguments."""


def redact(text: str) -> str:
    """*text* with "***" for API keys, bearer tokens, and in URLs passwords and the values of ``api_key``.

    The first characters of a key stay, those under which it is listed.
    """
    if len(text) < _SHORTEST:
        return text
    return _SECRETS.sub(lambda match: f"{match[1] or match[2] or match[3] or match[4]}***", text)


def redact_uri(uri: str) -> str:
    """*uri* with "***" for user information, for credentials, and for parameters that are called like a secret."""
    names = settings.REDACTED_ARGUMENTS

    def parameter(match: re.Match[str]) -> str:
        return f"{match[1]}{match[2]}={HIDDEN}" if is_hidden(unquote_plus(match[2]), match[3], names) else match[0]

    return redact(_PARAMETER.sub(parameter, _USER.sub(rf"\1{HIDDEN}@", uri)))


_PARAMETER = re.compile(r"([?&;#]|%3f|%26)([^=&;#?]+)=([^&;#]*)", re.IGNORECASE)
_USER = re.compile(r"\A([a-z][a-z0-9+.-]*://)[^/?#@]*@", re.IGNORECASE)


def without(text: str, secrets: Iterable[str]) -> str:
    """*text* with "***" for *secrets*, which may be cut short, and written as JSON or Python writes them."""
    for secret in sorted(secrets, key=len, reverse=True):
        for written in dict.fromkeys((secret, json.dumps(secret)[1:-1], repr(secret)[1:-1])):
            if len(written) >= _SHORTEST_SECRET:
                text = _without(text, written)
    return text


def _without(text: str, secret: str) -> str:
    begin, place = secret[:_BEGINNING], 0
    while (place := text.find(begin, place)) >= 0:
        pairs = zip(text[place : place + len(secret)], secret, strict=False)
        end = place + len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
        text, place = text[:place] + HIDDEN + text[end:], place + len(HIDDEN)
    return text


_SHORTEST_SECRET = 3
_BEGINNING = 40
"""Characters of a secret by which it is recognised where a message has cut it."""


def redacted(
    tool: Tool | Prompt | None,
    arguments: Any,
    *,
    longest: int | None = LONGEST,
    whole: int | None = WHOLE,
    within: str | None = None,
    hidden: list[str] | None = None,
) -> Any:
    """The arguments of a call, without secrets and cut short, as a JSON value of its own.

    Hidden is what the tool's schema marks (``Secret``), what is called like ``DJANGO_MCP["REDACTED_ARGUMENTS"]``, and
    credentials wherever they stand.

    Args:
        tool: which was called, where it is known.
        arguments: as they came, or checked: what JSON cannot hold is shown as text.
        longest: characters that are kept of a string; None for all.
        whole: characters that are kept in all; None for all.
        within: the argument in which those of the tool are, where it is called through another.
        hidden: gets the texts that were hidden.
    """
    schemas = () if tool is None else _marked(tool)
    if not schemas:
        return _Copy({}, longest, whole, hidden).of(arguments, (), 0)
    # Each schema has references of its own. What the first one left is shown to the next one.
    for schema in schemas:
        # Where it is called through another tool, its arguments may stand in the wrong place as well.
        own = {} if within is None else {"properties": {**schema.get("properties", {}), within: schema}}
        root = {**schema, **own}
        arguments = _Copy(root, longest, whole, hidden).of(arguments, (root,), 0)
    return arguments


class _Copy:
    """Copies one value, as long as there is room."""

    def __init__(
        self, root: Mapping[str, Any], longest: int | None, whole: int | None, hidden: list[str] | None
    ) -> None:
        self.root = root
        self.hidden = hidden
        self.longest = longest
        self.room = whole

    def of(self, value: Any, schemas: Schemas, depth: int) -> Any:
        """A copy of *value*, which *schemas* describe."""
        match value:
            case None | bool() | int() | float():
                self._take(8)
                return value
            case str():
                return self._text(self._of_json(value, schemas, depth))
            case _ if depth >= DEEPEST or self.room == 0:
                return "…"
            case Mapping():
                return self._mapping(value, schemas, depth)
            case list() | tuple():
                return self._entries(value, schemas, depth)
        return self._text(str(value))

    def _mapping(self, value: Mapping[Any, Any], schemas: Schemas, depth: int) -> dict[str, Any]:
        names, copied = settings.REDACTED_ARGUMENTS, {}
        # A pair, as lists of headers and of form fields have them.
        called = next((each for name in ("name", "key") if isinstance(each := value.get(name), str)), "")
        for number, (key, each) in enumerate(value.items()):
            if self.room == 0:
                copied["…"] = f"{len(value) - number} more"
                break
            name = str(key)
            inner = below(schemas, name, self.root) if schemas else ()
            hidden = (inner and is_secret(inner, self.root)) or is_hidden(name, each, names)
            hidden = hidden or (name == "value" and is_hidden(called, each, names))
            copied[self._key(name)] = self._hide(each) if hidden else self.of(each, inner, depth + 1)
        return copied

    def _entries(self, value: Iterable[Any], schemas: Schemas, depth: int) -> list[Any]:
        entries, copied = list(value), []
        for index, each in enumerate(entries):
            if self.room == 0:
                copied.append(f"… {len(entries) - index} more")
                break
            inner = below(schemas, index, self.root) if schemas else ()
            hidden = inner and is_secret(inner, self.root)
            copied.append(self._hide(each) if hidden else self.of(each, inner, depth + 1))
        return copied

    def _hide(self, value: Any) -> str:
        self._take(len(HIDDEN))
        if self.hidden is not None:
            self.hidden += _texts(value)
        return HIDDEN

    def _of_json(self, text: str, schemas: Schemas, depth: int) -> str:
        """*text*; where it is JSON with something to hide, as models send it, that without."""
        if depth >= DEEPEST or text.lstrip()[:1] not in {"{", "["}:
            return text
        try:
            value = json.loads(text)
            copied = _Copy(self.root, None, None, self.hidden).of(value, schemas, depth)
        except (ValueError, RecursionError):
            return text
        if copied == value:
            return text
        if self.hidden is not None:
            self.hidden.append(text)  # a message may repeat the whole of it
        return json.dumps(copied, ensure_ascii=False)

    def _key(self, name: str) -> str:
        self._take(len(name))
        return redact(name)[:_LONGEST_KEY]

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


def _texts(value: Any) -> list[str]:
    """All texts and numbers in a value, names included."""
    match value:
        case None | bool():
            return []
        case Mapping():
            return [text for pair in value.items() for each in pair for text in _texts(each)]
        case list() | tuple():
            return [text for each in value for text in _texts(each)]
    return [str(value)]


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


_schemas: "WeakKeyDictionary[Tool | Prompt, tuple[Any, Schemas]]" = WeakKeyDictionary()


def _marked(tool: Tool | Prompt) -> Schemas:
    """The schemas of a tool that mark something: what is published, and what the signature says."""
    known = _schemas.get(tool)
    if known is None or known[0] is not tool.definition:
        published = tool.definition.get("inputSchema")
        made = getattr(getattr(tool, "arguments", None), "schema", None)
        found = tuple(each for each in (published, made) if isinstance(each, Mapping) and mentions_secrets(each))
        known = _schemas[tool] = (tool.definition, found)
    return known[1]
