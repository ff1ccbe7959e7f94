"""Arguments that clients send as text: numbers, truth values, null, lists and objects, read where nothing is lost.

Some clients turn every value into text, and their models cannot correct it. The rule is the same for functions, models,
forms and APIs, whose arguments all pass ``TextValues`` before they are validated, and for answers to elicitation forms
(``protocol.jsonrpc.parse`` reads arguments that are one text as a whole):

* Only where the schema takes no text. An argument that is a string, a choice among strings, a date or of any type keeps
  what was sent.
* Only if the text is the JSON of a value of a type that the schema takes; of truth values also ``True`` and ``False``.
  ``007`` and ``1,5`` are not JSON. A fraction with more digits than a float has stays text.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal, DecimalException
from typing import Any

from django_mcp.protocol.errors import ParseError
from django_mcp.protocol.json_schema import alternatives, describing
from django_mcp.protocol.jsonrpc import decode

_KINDS: Mapping[type, tuple[str, ...]] = {
    type(None): ("null",),
    bool: ("boolean",),
    int: ("integer", "number"),
    float: ("number",),
    list: ("array",),
    dict: ("object",),
}
READABLE = frozenset({str, list, dict})
"""Types of values that may be text or have text inside."""
_NOTHING = object()


class TextValues:
    """Reads values that were sent as text.

    Args:
        schemas: the possible schemas of a value.
        root: the schema that references resolve against.
        known: what was made for other places of the same schema, which may contain itself.
    """

    def __init__(
        self,
        schemas: tuple[Any, ...],
        root: Mapping[str, Any],
        known: "dict[tuple[int, ...], TextValues] | None" = None,
    ) -> None:
        self._root = root
        self._known = {} if known is None else known
        forms = [form for schema in schemas for form in alternatives(schema, root)]
        self._forms = [part for form in forms for part in form.get("anyOf") or form.get("oneOf") or [form]]
        listed = [
            (form, [*form.get("enum", ()), *([form["const"]] if "const" in form else [])]) for form in self._forms
        ]
        self._texts = {value for _, values in listed for value in values if isinstance(value, str)}
        self._takes_text = any(form.get("type", "string") == "string" and not values for form, values in listed)
        self._kinds = {form["type"] for form in self._forms if isinstance(form.get("type"), str)}
        self._kinds |= {kind for _, values in listed for value in values for kind in _KINDS.get(type(value), ())}
        self._names = {name for form in self._forms for name in form.get("properties", ())}
        self._firsts = max((len(form.get("prefixItems", ())) for form in self._forms), default=0)
        self._parts: dict[Any, TextValues | None] = {}

    @property
    def is_of_interest(self) -> bool:
        # Text needs no reading where strings, or values of any type, are allowed.
        kinds = self._kinds & {"array", "object"} if self._takes_text else self._kinds - {"string"}
        return bool(kinds)

    def read(self, value: Any) -> Any:
        """Return the value that is meant by text, here or inside of lists and objects; else *value* itself."""
        if isinstance(value, str):
            if self._takes_text or value in self._texts:
                return value
            meant = self._meant(value)
            return value if meant is _NOTHING else self.read(meant)
        if isinstance(value, list):
            made = [self._read_part(index, entry, self._forms) for index, entry in enumerate(value)]
            return made if any(new is not old for new, old in zip(made, value, strict=True)) else value
        if isinstance(value, dict):
            forms = describing(value, self._forms, self._root)
            read = {key: self._read_part(key, entry, forms) for key, entry in value.items()}
            return read if any(read[key] is not entry for key, entry in value.items()) else value
        return value

    def _meant(self, text: str) -> Any:
        if "boolean" in self._kinds and text.strip().lower() in {"true", "false"}:
            return text.strip().lower() == "true"
        try:
            value = decode(text.encode())
        except (ParseError, ValueError):  # the latter for half of a surrogate pair
            return _NOTHING
        kinds = _KINDS.get(type(value), ())
        if type(value) is float:
            if not _is_exact(text, value):
                return _NOTHING
            if value.is_integer() and "number" not in self._kinds:
                value = int(value)
                kinds = ("integer",)
        return value if self._kinds.intersection(kinds) else _NOTHING

    def _read_part(self, key: Any, value: Any, forms: Sequence[Any]) -> Any:
        if type(value) not in READABLE:
            return value
        reader = self._part(key, forms)
        return value if reader is None else reader.read(value)

    def _part(self, key: Any, forms: Sequence[Any]) -> "TextValues | None":
        name = min(key, self._firsts) if isinstance(key, int) else key if key in self._names else None
        place = (name, *map(id, forms)) if forms is not self._forms else name
        if place not in self._parts:
            self._parts[place] = self._made([part for form in forms for part in _parts_of(form, key)])
        return self._parts[place]

    def _made(self, parts: list[Any]) -> "TextValues | None":
        if not parts or not all(isinstance(part, Mapping) for part in parts):  # True takes anything
            return None
        where = tuple(sorted(map(id, parts)))
        if where not in self._known:
            self._known[where] = TextValues(tuple(parts), self._root, self._known)
        found = self._known[where]
        return found if found.is_of_interest else None


def readers(schema: Mapping[str, Any]) -> dict[str, TextValues]:
    """Return the readers of an object's properties that are not text, or have parts that are not."""
    made = {name: TextValues((part,), schema) for name, part in schema["properties"].items()}
    return {name: reader for name, reader in made.items() if reader.is_of_interest}


def read_members(values: dict[str, Any], readers: Mapping[str, TextValues]) -> dict[str, Any]:
    """Return *values* with what is meant by those that were sent as text. It is the same object if there are none."""
    read = values
    for name, reader in readers.items():
        value = values.get(name)
        if type(value) not in READABLE:
            continue
        try:
            meant = reader.read(value)
        except RecursionError:  # text within text, each as deep as a message may be
            continue
        if meant is not value:
            read = {**read, name: meant}
    return read


def _is_exact(text: str, value: float) -> bool:
    try:
        return Decimal(text.strip()) == Decimal(repr(value))
    except DecimalException:
        return False


def _parts_of(form: Mapping[str, Any], key: Any) -> list[Any]:
    # Schemas of other types have no parts.
    if isinstance(key, int):
        if form.get("type", "array") != "array":
            return []
        first = form.get("prefixItems", ())
        return [first[key] if key < len(first) else form.get("items", True)]
    if form.get("type", "object") != "object":
        return []
    return [form.get("properties", {}).get(key, form.get("additionalProperties", True))]
