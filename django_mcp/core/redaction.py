"""Redaction of secrets and invisible characters in values that are logged or shown to people."""

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import takewhile
from typing import Any
from urllib.parse import unquote_plus
from weakref import WeakKeyDictionary

from django_mcp.conf import settings
from django_mcp.primitives.markers import Schemas, below, declares, is_secret, mentions_secrets
from django_mcp.primitives.prompt import Prompt
from django_mcp.primitives.tool import Tool

HIDDEN = "***"
LONGEST = 1000
"""Characters kept of one string."""
WHOLE = 8000
"""Characters kept of all arguments together."""
DEEPEST = 30
_LONGEST_KEY = 100
_INSIDE_WORDS = 5
"""Minimum length of a name that is also found inside words: "token" in "accesstoken", but not "card" in "discard"."""


def _loosely(text: str) -> str:
    """Return a pattern for *text* in which any character may be percent-encoded."""
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
"""Shorter texts contain no credentials."""


def redact(text: str) -> str:
    """Return *text* with "***" for API keys, bearer tokens, passwords in URLs and values of key or token parameters.

    The first characters of an API key remain, because keys are listed by them.
    """
    if len(text) < _SHORTEST:
        return text
    return _SECRETS.sub(lambda match: f"{match[1] or match[2] or match[3] or match[4]}***", text)


def redact_uri(uri: str) -> str:
    """Return *uri* with "***" for user information, credentials and parameters with names of secrets."""
    names = settings.REDACTED_ARGUMENTS

    def parameter(match: re.Match[str]) -> str:
        return f"{match[1]}{match[2]}={HIDDEN}" if is_hidden(unquote_plus(match[2]), match[3], names) else match[0]

    return redact(_PARAMETER.sub(parameter, _USER.sub(rf"\1{HIDDEN}@", uri)))


_PARAMETER = re.compile(r"([?&;#]|%3f|%26)([^=&;#?]+)=([^&;#]*)", re.IGNORECASE)
_USER = re.compile(r"\A([a-z][a-z0-9+.-]*://)[^/?#@]*@", re.IGNORECASE)


def without(text: str, secrets: Iterable[str]) -> str:
    """Return *text* with "***" for *secrets*, which may be truncated, or escaped as in JSON or Python."""
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
"""Characters by which a truncated secret is recognised."""


def redacted(
    tool: Tool | Prompt | None,
    arguments: Any,
    *,
    longest: int | None = LONGEST,
    whole: int | None = WHOLE,
    within: str | None = None,
    hidden: list[str] | None = None,
) -> Any:
    """Return the arguments of a call as a JSON value, without secrets and truncated.

    Hides what the tool's schema marks (``Secret``), arguments named in ``DJANGO_MCP["REDACTED_ARGUMENTS"]``, and
    credentials anywhere.

    Args:
        tool: the called tool, if known.
        arguments: raw or validated. Values that are not JSON become text.
        longest: characters kept of a string; None for all.
        whole: characters kept in total; None for all.
        within: the argument that contains the tool's, if called through another tool.
        hidden: collects the hidden texts.
    """
    schemas = () if tool is None else _marked(tool)
    if not schemas:
        return _Copy({}, longest, whole, hidden).of(arguments, (), 0)
    # Each schema has its own references and redacts the result of the previous one.
    for schema in schemas:
        # Called through another tool, its arguments may also be misplaced at the top level.
        own = {} if within is None else {"properties": {**schema.get("properties", {}), within: schema}}
        root = {**schema, **own}
        arguments = _Copy(root, longest, whole, hidden).of(arguments, (root,), 0)
    return arguments


# For people who approve a call

SECRET, NAMED, CUT = "secret", "named", "cut"
"""Reasons to withhold a value from approvers: marked as a secret by the schema; declared under a name of
``DJANGO_MCP["REDACTED_ARGUMENTS"]``; too long or too deep."""


def declared(
    tool: Tool, arguments: Mapping[str, Any], *, longest: int | None, whole: int | None
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the arguments of a call for approvers, and what is withheld from them.

    What is approved must be what was shown, so callers must not be able to hide anything. Only values that the tool's
    own schema declares are hidden, never because of their content.

    Args:
        tool: the called tool.
        arguments: as sent by the caller.
        longest: characters kept of a string; None for all.
        whole: characters kept in total; None for all.

    Returns:
        The arguments as a JSON value, and for each argument not shown in full the reason (``SECRET``, ``NAMED``,
        ``CUT``).
    """
    withheld: dict[str, set[str]] = {}
    for schema in _published(tool):
        arguments = _hidden_as_declared(_Copy(schema, None, None, by_declaration=True), arguments, withheld)
    arguments = _hidden_as_declared(_Copy({}, longest, whole, by_declaration=True), arguments, withheld)
    worst = {name: next(each for each in (CUT, NAMED, SECRET) if each in found) for name, found in withheld.items()}
    return dict(arguments), worst


def _hidden_as_declared(
    copy: "_Copy", arguments: Mapping[str, Any], withheld: dict[str, set[str]]
) -> Mapping[str, Any]:
    copied: dict[str, Any] = {}
    schemas = (copy.root,) if copy.root else ()
    for number, (name, value) in enumerate(arguments.items()):
        if copy.room == 0:
            copied["…"] = f"{len(arguments) - number} more"
            withheld.setdefault("…", set()).add(CUT)
            break
        copy.withheld = set()
        ((shown, copied_value),) = copy.of({name: value}, schemas, 0).items()
        copied[shown] = copied_value
        if copy.withheld:
            withheld.setdefault(shown, set()).update(copy.withheld)
    return copied


class _Copy:
    """A copy of one value within a size limit; see ``redacted`` and, for *by_declaration*, ``declared``."""

    def __init__(
        self,
        root: Mapping[str, Any],
        longest: int | None,
        whole: int | None,
        hidden: list[str] | None = None,
        *,
        by_declaration: bool = False,
    ) -> None:
        self.root = root
        self.hidden = hidden
        self.longest = longest
        self.room = whole
        self.by_declaration = by_declaration
        self.withheld: set[str] = set()

    def of(self, value: Any, schemas: Schemas, depth: int) -> Any:
        """Return a copy of *value*, described by *schemas* of ``root``."""
        match value:
            case None | bool() | int() | float():
                self._take(8)
                return value
            case str():
                return self._text(self._of_json(value, schemas, depth))
            case _ if depth >= DEEPEST or self.room == 0:
                self.withheld.add(CUT)
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
                self.withheld.add(CUT)
                break
            name = str(key)
            inner = below(schemas, name, self.root) if schemas else ()
            if inner and is_secret(inner, self.root):
                reason = SECRET
            elif self.by_declaration:
                is_named = declares(schemas, name, self.root) and is_hidden(name, each, names)
                reason = NAMED if is_named else ""
            else:
                is_named = is_hidden(name, each, names) or (
                    name == "value" and is_hidden(_pair_name(value), each, names)
                )
                reason = NAMED if is_named else ""
            copied[self._key(name)] = self._hide(each, reason) if reason else self.of(each, inner, depth + 1)
        return copied

    def _entries(self, value: Iterable[Any], schemas: Schemas, depth: int) -> list[Any]:
        entries, copied = list(value), []
        for index, each in enumerate(entries):
            if self.room == 0:
                copied.append(f"… {len(entries) - index} more")
                self.withheld.add(CUT)
                break
            inner = below(schemas, index, self.root) if schemas else ()
            hidden = inner and is_secret(inner, self.root)
            copied.append(self._hide(each, SECRET) if hidden else self.of(each, inner, depth + 1))
        return copied

    def _hide(self, value: Any, reason: str) -> str:
        if value != HIDDEN:  # else hidden by another schema of the tool
            self.withheld.add(reason)
        self._take(len(HIDDEN))
        if self.hidden is not None:
            self.hidden += _texts(value)
        return HIDDEN

    def _of_json(self, text: str, schemas: Schemas, depth: int) -> str:
        """Return *text*, redacted inside if it is JSON, which models send as strings."""
        if depth >= DEEPEST or text.lstrip()[:1] not in {"{", "["} or (self.by_declaration and not schemas):
            return text
        copy = _Copy(self.root, None, None, self.hidden, by_declaration=self.by_declaration)
        try:
            value = json.loads(text)
            copied = copy.of(value, schemas, depth)
        except (ValueError, RecursionError):
            return text
        if copied == value or (self.by_declaration and copy.withheld <= {CUT}):
            return text
        # The rewritten JSON lacks what parsing drops, such as the first of two equal keys.
        self.withheld |= {CUT, *copy.withheld}
        if self.hidden is not None:
            self.hidden.append(text)  # a message may repeat all of it
        return json.dumps(copied, ensure_ascii=False)

    def _key(self, name: str) -> str:
        self._take(len(name))
        if len(name) > _LONGEST_KEY:
            self.withheld.add(CUT)
        return (name if self.by_declaration else redact(name))[:_LONGEST_KEY]

    def _text(self, text: str) -> str:
        # Redacted before truncation: half a credential is not recognised.
        most = min((each for each in (self.longest, self.room) if each is not None), default=None)
        length = len(text)
        if most is None or length <= most:
            self._take(length)
            return text if self.by_declaration else redact(text)
        self._take(most)
        self.withheld.add(CUT)
        begin = text[: most + _LONGEST_KEY]
        return f"{(begin if self.by_declaration else redact(begin))[:most]}… ({length} characters)"

    def _take(self, characters: int) -> None:
        if self.room is not None:
            self.room = max(self.room - characters, 0)


def _pair_name(value: Mapping[Any, Any]) -> str:
    """Return the name of a name-value pair, as in lists of headers or form fields."""
    return next((text for key in ("name", "key") if isinstance(text := value.get(key), str)), "")


def _texts(value: Any) -> list[str]:
    match value:
        case None | bool():
            return []
        case Mapping():
            return [text for pair in value.items() for each in pair for text in _texts(each)]
        case list() | tuple():
            return [text for each in value for text in _texts(each)]
    return [str(value)]


def is_hidden(name: str, value: Any, names: Iterable[str]) -> bool:
    """Return True if an argument's name says that its value is secret.

    Booleans and None are shown: they only say whether there is a secret.
    """
    if value is None or isinstance(value, bool):
        return False
    is_number = isinstance(value, int | float)  # max_tokens=500
    return _called(name[:200], tuple(names)) > is_number


@lru_cache(maxsize=2000)
def _called(name: str, names: tuple[str, ...]) -> int:
    """Return 2 if a word of *name* is one of *names*, 1 if it contains one, else 0."""
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


def _published(tool: Tool | Prompt) -> Schemas:
    both = (tool.definition.get("inputSchema"), getattr(getattr(tool, "arguments", None), "schema", None))
    return tuple(each for each in both if isinstance(each, Mapping))


_schemas: "WeakKeyDictionary[Tool | Prompt, tuple[Any, Schemas]]" = WeakKeyDictionary()


def _marked(tool: Tool | Prompt) -> Schemas:
    known = _schemas.get(tool)
    if known is None or known[0] is not tool.definition:
        found = tuple(each for each in _published(tool) if mentions_secrets(each))
        known = _schemas[tool] = (tool.definition, found)
    return known[1]


def visible(text: str) -> str:
    """Return *text* with control, bidirectional and other invisible characters escaped."""
    return "".join(each if _is_harmless(each) else f"\\u{ord(each):04x}" for each in text)


def _is_harmless(character: str) -> bool:
    return character in "\n\t" or unicodedata.category(character) not in {"Cc", "Cf", "Cs", "Zl", "Zp"}


def one_line(text: Any, longest: int) -> str:
    """Return *text* in one line of at most *longest* characters."""
    shown = visible(" ".join(str(text).split()))
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def bounded(text: str, longest: int) -> str:
    """Return the first *longest* characters of *text*, without credentials and invisible characters."""
    return visible(redact(text)[:longest])


def as_words(value: Any) -> str:
    """Return a str unchanged, and any other JSON value indented with sorted keys."""
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)
