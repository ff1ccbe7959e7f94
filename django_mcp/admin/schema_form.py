"""HTML forms from the JSON Schema of an object: fields and the values they send."""

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_mcp.primitives.markers import is_secret
from django_mcp.protocol.errors import ParseError
from django_mcp.protocol.json_schema import Choices, Schema, alternatives, choices_of, plain
from django_mcp.protocol.jsonrpc import decode

ABSENT: Any = object()
"""Marker for a value that is not sent."""
LONG = 255
"""Maximum length for which a single-line input is used."""
INPUTS: Mapping[Any, str] = {"date": "date", "email": "email", "uri": "url"}
"""Formats with an HTML input type. There is none for date-times with an offset."""
SCALARS = {"string", "integer", "number", "boolean"}
_INTEGER = re.compile(r"[+-]?[0-9]{1,4000}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")


class NotJSON(ValueError):
    """The submitted text is not valid JSON."""


class Field:
    """A property of the object.

    Args:
        root: the schema that references resolve against.
        prefix: prefix of the input's name.
        one_line: use single-line inputs for texts.

    Attributes:
        kind: type of widget; see ``templates/admin/django_mcp/playground/field.html``.
        text: the input's text.
        ticked: selected values, as in ``options``.
        problem: validation error.
    """

    def __init__(
        self, name: str, schema: Any, root: Schema, *, required: bool, prefix: str = "", one_line: bool = False
    ) -> None:
        self.name = name
        self.html_name = f"{prefix}.{name}"
        self.required = required
        self.one_line = one_line
        self.schema = plain(schema, root)
        self.written = schema
        items = self.schema.get("items") if self.schema.get("type") == "array" else None
        self.items = None if items is None else plain(items, root)
        self.choices = choices_of(self.schema if self.items is None else self.items)
        self.is_secret = isinstance(schema, Mapping) and is_secret((schema,), root)
        self.kind = self._kind()
        self.text = ""
        self.ticked: list[str] = []
        self.problem = ""

    def _kind(self) -> str:
        if self.choices is not None:
            return "choice" if self.items is None else "choices"
        match self.schema.get("type"):
            case "array" if self.items and self.items.get("type") in SCALARS and "prefixItems" not in self.schema:
                return "lines"
            case "boolean":
                return "tick" if self.required else "choice"
            case "integer" | "number":
                return "number"
            case "string":
                return self._kind_of_text()
        return "json" if _types(self.schema) is None else "text"

    def _kind_of_text(self) -> str:
        if self.is_secret:
            return "password"
        is_short = self.one_line or self.schema.get("format") in INPUTS or "pattern" in self.schema
        return "text" if is_short or _number(self.schema.get("maxLength"), math.inf) <= LONG else "long"

    # Rendering

    @property
    def id(self) -> str:
        return f"id_{re.sub('[^A-Za-z0-9_-]', '-', self.html_name)}"

    @property
    def label(self) -> str:
        return str(self.schema.get("title") or self.name)

    @property
    def help(self) -> str:
        return str(self.schema.get("description") or "")

    @property
    def input(self) -> str:
        return "password" if self.is_secret else INPUTS.get(self.schema.get("format"), "text")

    @property
    def step(self) -> str:
        return "1" if self.schema.get("type") == "integer" else "any"

    @property
    def least(self) -> Any:
        return self.schema.get("minimum", "")

    @property
    def most(self) -> Any:
        return self.schema.get("maximum", "")

    @property
    def default(self) -> str:
        value = self.schema.get("default")
        if self.is_secret or value is None or value in ("", [], {}):
            return ""
        return " ".join(self._texts(value)) if isinstance(value, list) and self.kind == "lines" else self._text(value)

    @property
    def facts(self) -> str:
        kind = " | ".join(sorted(_types(self.schema) or ())) or str(self.schema.get("type") or "")
        return " · ".join(filter(None, (kind, str(self.schema.get("format") or ""), *self._limits())))

    def _limits(self) -> list[str]:
        found = []
        for part in ("imum", "Length", "Items"):
            low, high = self.schema.get(f"min{part}"), self.schema.get(f"max{part}")
            if low is not None or high is not None:
                found.append(_counted(part, low if high is None else high).format(_range(low, high)))
        if pattern := self.schema.get("pattern"):
            found.append(str(pattern))
        return found

    @property
    def options(self) -> list[tuple[str, str, bool]]:
        return [(key, words, key in self.ticked) for key, words in self._keys()]

    def _keys(self) -> list[tuple[str, str]]:
        choices: Choices = self.choices or [(True, _("Yes")), (False, _("No"))]
        return [(json.dumps(value), words) for value, words in choices]

    @property
    def schema_text(self) -> str:
        return json.dumps(self.written, indent=2, ensure_ascii=False)

    # Values

    def read(self, data: QueryDict) -> Any:
        """Return the submitted value, or ``ABSENT`` if it is empty, and keep the text in the input.

        Raises:
            NotJSON: a JSON field has invalid JSON.
        """
        if self.kind in {"choice", "choices", "tick"}:
            return self._chosen(data.getlist(self.html_name))
        self.text = data.get(self.html_name, "").replace("\r\n", "\n")
        match self.kind:
            case "lines":
                lines = [line for line in self.text.split("\n") if line.strip()]
                return [_scalar(line, self.items or {}) for line in lines] if lines or self.required else ABSENT
            case "json":
                return self._json()
        return _scalar(self.text, self.schema) if self.text else ABSENT

    def _chosen(self, sent: list[str]) -> Any:
        if self.kind == "tick":
            self.ticked = sent
            return bool(sent)
        known = {key for key, _words in self._keys()}
        self.ticked = [value for value in sent if value in known]
        values = [json.loads(text) for text in self.ticked]
        if self.kind == "choices":
            return values if values or self.required else ABSENT
        return values[0] if values else ABSENT

    def _json(self) -> Any:
        if not self.text.strip():
            return ABSENT
        try:
            return read_json(self.text)
        except NotJSON as error:
            self.problem = str(error)
            raise

    def fill(self, value: Any) -> None:
        match self.kind:
            case "tick":
                self.ticked = ["on"] if value else []
            case "choice":
                self.ticked = [json.dumps(value)]
            case "choices":
                self.ticked = [json.dumps(entry) for entry in value] if isinstance(value, list) else []
            case "lines" if isinstance(value, list):
                self.text = "\n".join(self._texts(value))
            case _:
                self.text = self._text(value)

    def _texts(self, values: list[Any]) -> list[str]:
        return [value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in values]

    def _text(self, value: Any) -> str:
        if self.kind == "choice":
            return dict(self._keys()).get(json.dumps(value), str(value))
        if isinstance(value, str) and self.kind != "json":
            return value
        return json.dumps(value, ensure_ascii=False, indent=2 if self.kind == "json" else None)


def read_json(text: str) -> Any:
    """Parse JSON as strictly as for a client's request.

    Raises:
        NotJSON: with a message for the user.
    """
    try:
        return decode(text.encode())
    except ParseError as error:
        _body, _colon, reason = str(error.message).partition(": ")
        raise NotJSON(_("This is not valid JSON: %s") % reason) from None


def _scalar(text: str, schema: Schema) -> Any:
    stripped = text.strip()
    types = _types(schema) or ()
    if "boolean" in types and stripped in {"true", "false"}:
        return stripped == "true"
    if ("integer" in types or "number" in types) and _INTEGER.fullmatch(stripped):
        return int(stripped)
    if "number" in types and _NUMBER.fullmatch(stripped) and math.isfinite(value := float(stripped)):
        return value
    # Invalid text is returned unchanged, so that the tool reports the error.
    return text


def _types(schema: Schema) -> frozenset[str] | None:
    types: list[Any] = [kind for part in alternatives(schema, schema) if (kind := part.get("type")) != "null"]
    return frozenset(types) if types and all(isinstance(name, str) and name in SCALARS for name in types) else None


def _number(value: Any, otherwise: float) -> float:
    return value if isinstance(value, int | float) else otherwise


def _counted(part: str, number: Any) -> str:
    number = number if isinstance(number, int) else 0  # a schema of a site may have anything here
    if part == "Length":
        return ngettext("{} character", "{} characters", number)
    return "{}" if part == "imum" else ngettext("{} entry", "{} entries", number)


def _range(low: Any, high: Any) -> str:
    if low is None:
        return f"≤ {high}"
    return f"≥ {low}" if high is None else f"{low}–{high}"


class SchemaForm:
    """Fields for the properties of an object. The tool validates the values."""

    def __init__(self, schema: Any, prefix: str = "a", *, one_line: bool = False) -> None:
        root: Schema = schema if isinstance(schema, Mapping) else {}
        whole = plain(root, root)
        properties, required = whole.get("properties"), whole.get("required")
        required = required if isinstance(required, list) else []
        self.fields = [
            Field(name, schema, root, required=name in required, prefix=prefix, one_line=one_line)
            for name, schema in (properties if isinstance(properties, Mapping) else {}).items()
        ]

    def read(self, data: QueryDict) -> dict[str, Any] | None:
        """Return the submitted values without empty ones, or None if a JSON field is invalid."""
        values: dict[str, Any] = {}
        is_read = True
        for field in self.fields:
            try:
                value = field.read(data)
            except NotJSON:
                is_read = False
            else:
                if value is not ABSENT:
                    values[field.name] = value
        return values if is_read else None

    def fill(self, values: Mapping[str, Any]) -> None:
        for field in self.fields:
            if field.name in values:
                field.fill(values[field.name])

    def fill_defaults(self) -> None:
        self.fill({field.name: field.schema["default"] for field in self.fields if "default" in field.schema})

    def forget(self, is_secret: Callable[[Field], bool]) -> None:
        for field in filter(is_secret, self.fields):
            field.text, field.ticked = "", []


def as_text(values: Any) -> str:
    return json.dumps(values, indent=2, ensure_ascii=False)
