"""Redaction of secrets and invisible characters in values that are logged or shown to people."""

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, takewhile
from typing import Any
from urllib.parse import unquote_plus
from weakref import WeakKeyDictionary

from django_mcp.conf import settings
from django_mcp.primitives.markers import Schemas, below, declares, is_secret, mentions_secrets
from django_mcp.primitives.prompt import Prompt
from django_mcp.primitives.tool import Tool
from django_mcp.protocol.json_schema import alternatives
from django_mcp.secret_names import NONE, PART, match

HIDDEN = "***"
MAX_STRING = 1000
"""Characters kept of one string."""
MAX_TOTAL = 8000
"""Characters kept of all arguments together."""
MAX_DEPTH = 30
MAX_JSON = 20_000
"""Characters of a text that is read as JSON for the log. Nothing of a longer one is shown."""
MAX_VALUES = 5000
"""Values of a call that are searched for secrets to remove from its error."""
MAX_SECRETS = 200
"""Secrets that are removed from an error."""
_MAX_KEY = 100
_MARGIN = 100
"""Characters read beyond a cut: half a credential is not recognised."""


def _loosely(text: str) -> str:
    # Any character may be percent-encoded: URLs are logged as they are sent.
    return "".join(f"(?:{re.escape(character)}|%{ord(character):02x})" for character in text)


_PARAMETERS = "|".join(map(_loosely, ("api_key", "access_token", "refresh_token")))
# Each alternative consumes what it has looked at, so that the time is linear in the length of a text.
_SECRETS = re.compile(
    rf"((?:{_PARAMETERS})(?:=|%3d))[^&\s\"'<>#]+"
    rf"|({_loosely('mcp_key_')}[0-9a-z]{{6}})[0-9a-z%]+"
    r"|(\bbearer(?:\s|\+|%20)+)(?!\w+=\")[a-z0-9._~+/%-]{20,}=*"
    r"|((?<=[a-z0-9]://)[^\s/?#@:\"'<>]{0,200}:)[^\s/?#@\"'<>]+(?=@)",
    re.IGNORECASE,
)
_MIN_LENGTH = len("api_key=x")
"""Shorter texts contain no credentials."""


def redact(text: str) -> str:
    """Return *text* with "***" for API keys, bearer tokens, passwords in URLs and values of key or token parameters.

    The first characters of an API key remain, because keys are listed by them. Takes about a second for 8 MB: cut what
    clients send first, with ``redact_beginning``.
    """
    if len(text) < _MIN_LENGTH:
        return text
    return _SECRETS.sub(lambda match: f"{match[1] or match[2] or match[3] or match[4]}***", text)


def redact_beginning(text: str, longest: int) -> str:
    return redact(text[: longest + _MARGIN])[:longest]


def redact_uri(uri: str, longest: int | None = None) -> str:
    """Return *uri* with "***" for user information, credentials and parameters with names of secrets.

    Args:
        uri: such as a resource's.
        longest: characters kept; None for all.
    """
    whole = uri if longest is None else uri[: longest + _MARGIN]
    first, *parts = _SEPARATOR.split(_USER.sub(rf"\1{HIDDEN}@", whole))
    for place in range(1, len(parts), 2):  # after their separators
        name, equals, value = parts[place].partition("=")
        if equals and (
            place > MAX_PARAMETERS or is_hidden(unquote_plus(name[:MAX_NAME]), value, settings.REDACTED_ARGUMENTS)
        ):
            parts[place] = f"{name}={HIDDEN}"
    return redact("".join([first, *parts]))[:longest]


MAX_PARAMETERS = 200
"""Parameters of a URI, and separators, whose names are looked at. The values of all others are hidden."""
_SEPARATOR = re.compile(r"([?&;#]|%3f|%26)", re.IGNORECASE)
_USER = re.compile(r"\A([a-z][a-z0-9+.-]*://)[^/?#@]*@", re.IGNORECASE)


def without(text: str, secrets: Iterable[str]) -> str:
    """Return *text* with "***" for *secrets*, which may be truncated, or escaped as in JSON or Python."""
    for secret in sorted((secret[: len(text)] for secret in secrets), key=len, reverse=True):
        for written in dict.fromkeys((secret, json.dumps(secret)[1:-1], repr(secret)[1:-1])):
            if len(written) >= _MIN_SECRET:
                text = _without(text, written)
    return text


def _without(text: str, secret: str) -> str:
    begin, place = secret[:_BEGINNING], 0
    while (place := text.find(begin, place)) >= 0:
        pairs = zip(text[place : place + len(secret)], secret, strict=False)
        end = place + len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
        text, place = text[:place] + HIDDEN + text[end:], place + len(HIDDEN)
    return text


_MIN_SECRET = 3
_BEGINNING = 40
"""Characters by which a truncated secret is recognised."""


def redacted(
    tool: Tool | Prompt | None,
    arguments: Any,
    *,
    longest: int | None = MAX_STRING,
    whole: int | None = MAX_TOTAL,
    within: str | None = None,
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
    """
    schemas = () if tool is None else _marked(tool)
    if not schemas:
        return _Copy({}, longest, whole).of(arguments, (), 0)
    # Each schema has its own references and redacts the result of the previous one.
    for root in _roots(schemas, within):
        arguments = _Copy(root, longest, whole).of(arguments, (root,), 0)
    return arguments


def secrets_in(tool: Tool | Prompt | None, arguments: Any, *, within: str | None = None) -> list[str] | None:
    """Return the texts that ``redacted`` hides in the same arguments; None if finding them takes too long."""
    secrets: list[str] = []
    schemas = () if tool is None else _marked(tool)
    try:
        for root in _roots(schemas, within) if schemas else ({},):
            _Copy(root, None, None, secrets).of(arguments, (root,) if root else (), 0)
    except _TooManyValues:
        return None
    return secrets


class _TooManyValues(Exception):
    """A call has too many values to find all secrets among them."""


def _roots(schemas: Schemas, within: str | None) -> Iterator[Mapping[str, Any]]:
    for schema in schemas:
        # Called through another tool, its arguments may also be misplaced at the top level.
        own = {} if within is None else {"properties": {**schema.get("properties", {}), within: schema}}
        yield {**schema, **own}


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
    worst = {
        name: next(reason for reason in (CUT, NAMED, SECRET) if reason in found) for name, found in withheld.items()
    }
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
    """A copy of one value within a size limit; see ``redacted`` and, for *by_declaration*, ``declared``.

    With a list *hidden* it collects what it hides, and raises ``_TooManyValues`` after ``MAX_VALUES`` values.
    """

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
        self._left = MAX_VALUES

    def of(self, value: Any, schemas: Schemas, depth: int) -> Any:
        if self.hidden is not None:
            self._left -= 1
            if self._left < 0:
                raise _TooManyValues
        text = self._of_json(value, schemas, depth) if isinstance(value, str) else value
        if text is value and self._may_hide(value, schemas):
            return self._hide(value, SECRET)
        match text:
            case None | bool() | int() | float():
                self._take(8)
                return value
            case str():
                return self._text(text)
            case _ if depth >= MAX_DEPTH or self.room == 0:
                self.withheld.add(CUT)
                return "…"
            case Mapping() | list() | tuple():
                is_object = isinstance(value, Mapping)
                return self._mapping(value, schemas, depth) if is_object else self._entries(value, schemas, depth)
        return self._text(str(value))

    def _may_hide(self, value: Any, schemas: Schemas) -> bool:
        # Such a value has an unexpected type, or is text that looks like JSON and could not be read.
        if self.by_declaration or not schemas or not isinstance(value, str | Mapping | list | tuple):
            return False
        forms = [form for schema in schemas for form in alternatives(schema, self.root)]
        kind = "string" if isinstance(value, str) else "object" if isinstance(value, Mapping) else "array"
        is_expected = any(form.get("type", kind) == kind for form in forms)
        if is_expected and not (isinstance(value, str) and value.lstrip()[:1] in {"{", "["}):
            return False
        return any(map(mentions_secrets, forms))

    def _mapping(self, value: Mapping[Any, Any], schemas: Schemas, depth: int) -> dict[str, Any]:
        names, copied = settings.REDACTED_ARGUMENTS, {}
        for number, (key, member) in enumerate(value.items()):
            if self.room == 0:
                copied["…"] = f"{len(value) - number} more"
                self.withheld.add(CUT)
                break
            name = str(key)
            inner = below(schemas, name, self.root) if schemas else ()
            if inner and is_secret(inner, self.root):
                reason = SECRET
            elif self.by_declaration:
                is_named = declares(schemas, name, self.root) and is_hidden(name, member, names)
                reason = NAMED if is_named else ""
            else:
                is_named = is_hidden(name, member, names) or (
                    name == "value" and is_hidden(_pair_name(value), member, names)
                )
                reason = NAMED if is_named else ""
            copied[self._key(name)] = self._hide(member, reason) if reason else self.of(member, inner, depth + 1)
        return copied

    def _entries(self, value: Iterable[Any], schemas: Schemas, depth: int) -> list[Any]:
        entries, copied = list(value), []
        for index, entry in enumerate(entries):
            if self.room == 0:
                copied.append(f"… {len(entries) - index} more")
                self.withheld.add(CUT)
                break
            inner = below(schemas, index, self.root) if schemas else ()
            hidden = inner and is_secret(inner, self.root)
            copied.append(self._hide(entry, SECRET) if hidden else self.of(entry, inner, depth + 1))
        return copied

    def _hide(self, value: Any, reason: str) -> str:
        if value != HIDDEN:  # else hidden by another schema of the tool
            self.withheld.add(reason)
        self._take(len(HIDDEN))
        self._collect(value)
        return HIDDEN

    def _collect(self, value: Any) -> None:
        if self.hidden is not None:
            self.hidden += islice(_texts(value), MAX_SECRETS + 1)
            if len(self.hidden) > MAX_SECRETS:
                raise _TooManyValues

    def _of_json(self, text: str, schemas: Schemas, depth: int) -> str:
        # Models often send objects as JSON strings.
        begin = text[: MAX_JSON + 1].lstrip()[:1]
        if depth >= MAX_DEPTH or begin not in {"{", "["} or (self.by_declaration and not schemas):
            return text
        if len(text) > MAX_JSON and (self.room is not None or self.hidden is not None):
            self.withheld.add(CUT)
            self._collect(text)
            return f"… ({len(text)} characters of JSON)"
        copy = _Copy(self.root, None, self.room, self.hidden, by_declaration=self.by_declaration)
        try:
            value = json.loads(text)
            copied = copy.of(value, schemas, depth)
        except (ValueError, RecursionError):
            return text
        if copied == value or (self.by_declaration and copy.withheld <= {CUT}):
            return text
        # The rewritten JSON lacks what parsing drops, such as the first of two equal keys.
        self.withheld |= {CUT, *copy.withheld}
        self._collect(text)  # a message may repeat all of it
        return json.dumps(copied, ensure_ascii=False)

    def _key(self, name: str) -> str:
        self._take(len(name))
        if len(name) > _MAX_KEY:
            self.withheld.add(CUT)
        begin = name[: _MAX_KEY + _MARGIN]
        return (begin if self.by_declaration else redact(begin))[:_MAX_KEY]

    def _text(self, text: str) -> str:
        if self.hidden is not None:
            return text
        most = min((limit for limit in (self.longest, self.room) if limit is not None), default=None)
        length = len(text)
        if most is None or length <= most:
            self._take(length)
            return text if self.by_declaration else redact(text)
        self._take(most)
        self.withheld.add(CUT)
        begin = text[:most] if self.by_declaration else redact_beginning(text, most)
        return f"{begin}… ({length} characters)"

    def _take(self, characters: int) -> None:
        if self.room is not None:
            self.room = max(self.room - characters, 0)


def _pair_name(value: Mapping[Any, Any]) -> str:
    return next((text for key in ("name", "key") if isinstance(text := value.get(key), str)), "")


def _texts(value: Any) -> Iterator[str]:
    match value:
        case None | bool():
            pass
        case Mapping():
            yield from (text for pair in value.items() for part in pair for text in _texts(part))
        case list() | tuple():
            yield from (text for part in value for text in _texts(part))
        case _:
            yield str(value)


MAX_NAME = 200
"""Characters of a name that are compared with names of secrets."""


def is_hidden(name: str, value: Any, names: Iterable[str]) -> bool:
    # These values only tell whether there is a secret.
    if value is None or isinstance(value, bool):
        return False
    is_number = isinstance(value, int | float)  # max_tokens=500
    return match(name[:MAX_NAME], tuple(names)) > (PART if is_number else NONE)


def _published(tool: Tool | Prompt) -> Schemas:
    both = (tool.definition.get("inputSchema"), getattr(getattr(tool, "arguments", None), "schema", None))
    return tuple(schema for schema in both if isinstance(schema, Mapping))


# Weak, as tools may be registered again; and with the definition that was read, which may be replaced.
_schemas: "WeakKeyDictionary[Tool | Prompt, tuple[Any, Schemas]]" = WeakKeyDictionary()


def _marked(tool: Tool | Prompt) -> Schemas:
    known = _schemas.get(tool)
    if known is None or known[0] is not tool.definition:
        found = tuple(schema for schema in _published(tool) if mentions_secrets(schema))
        known = _schemas[tool] = (tool.definition, found)
    return known[1]


def visible(text: str) -> str:
    """Return *text* with control, bidirectional and other invisible characters escaped."""
    return "".join(character if _is_harmless(character) else f"\\u{ord(character):04x}" for character in text)


def _is_harmless(character: str) -> bool:
    return character in "\n\t" or unicodedata.category(character) not in {"Cc", "Cf", "Cs", "Zl", "Zp"}


def one_line(text: Any, longest: int) -> str:
    shown = visible(" ".join(str(text).split())[: longest + 1])
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def bounded(text: str, longest: int) -> str:
    return visible(redact_beginning(text, longest))


def as_words(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)
