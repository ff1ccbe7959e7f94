"""Values from text by an object's JSON Schema, and forms of it: for the playground, its questions and ``mcp_call``."""

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from django import forms
from django.http import QueryDict
from django.utils.html import format_html
from django.utils.safestring import SafeString
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
YES, NO = frozenset({"yes", "y", "true", "on", "1"}), frozenset({"no", "n", "false", "off", "0"})
_INTEGER = re.compile(r"[+-]?[0-9]{1,4000}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")


class InvalidValue(Exception):
    """A text does not fit its schema. The message says what would fit.

    Attributes:
        value: what the text says nevertheless, for a tool to answer: a number outside its limits, or the text.
    """

    def __init__(self, message: str, value: Any) -> None:
        super().__init__(message)
        self.value = value


def convert_text(schema: Any, text: str, root: Schema) -> Any:
    """Return the value that a text says.

    Args:
        schema: of the value.
        text: a number, yes or no, a choice or its label, entries with commas between them, or JSON of an array or
            object.
        root: the schema that references resolve against.

    Raises:
        InvalidValue: it fits none of the schema's alternatives.
    """
    found = alternatives(schema, root)
    # Strings accept any input, so they are tried last: 3 becomes a number if the schema allows one.
    forms_of_value = sorted(found, key=lambda form: form.get("type") == "string")
    problems: list[InvalidValue] = []
    for form in forms_of_value:
        try:
            return _convert(form, text, root, is_only=len(found) == 1)
        except InvalidValue as error:
            problems.append(error)
    values = [error.value for error in problems if not isinstance(error.value, str)]
    words = " or ".join(dict.fromkeys(map(str, problems))) or "left out: no value is valid"
    raise InvalidValue(words, values[0] if values else text)


def _convert(schema: Schema, text: str, root: Schema, *, is_only: bool) -> Any:  # noqa: C901, PLR0911 - a table
    if allowed := choices_of(schema):
        return _chosen(allowed, text)
    match schema.get("type"):
        case "string":
            return _within(schema, "Length", text, len(text), "{} long")
        case "integer" | "number" as kind:
            return _within(schema, "imum", number := _number(text, kind), number, "a number of {}")
        case "boolean":
            # Beside other types, 1 is a number and yes is a text.
            word = text.strip().lower()
            if word in {"true", "false"} or (is_only and word in YES | NO):
                return word in YES
            raise InvalidValue("yes or no", text)
        case "null":
            if text in {"", "null"}:
                return None
            raise InvalidValue("null", text)
        case "array":
            if text.startswith("["):
                return _json(text, list, "a JSON array")
            return [
                convert_text(schema.get("items", {}), part.strip(), root) for part in text.split(",") if part.strip()
            ]
        case "object":
            return _json(text, dict, 'a JSON object, such as {"key": "value"}')
    return text


def _chosen(allowed: Choices, text: str) -> Any:
    for value, title in allowed:
        if text in {str(value), title}:
            return value
    raise InvalidValue(f"one of {', '.join(str(value) for value, _ in allowed)}", text)


def _number(text: str, kind: str) -> int | float:
    text = text.strip()
    if _INTEGER.fullmatch(text):
        return int(text)
    if kind == "number" and _NUMBER.fullmatch(text) and math.isfinite(value := float(text)):
        return value
    raise InvalidValue("a whole number" if kind == "integer" else "a number", text)


def _within(schema: Schema, part: str, value: Any, size: float, words: str) -> Any:
    for limit, sign, known in ((f"min{part}", 1, "at least"), (f"max{part}", -1, "at most")):
        bound = schema.get(limit)
        if isinstance(bound, int | float) and sign * (size - bound) < 0:
            unit = f" character{'' if bound == 1 else 's'}" if part == "Length" else ""
            raise InvalidValue(words.format(f"{known} {bound}{unit}"), value)
    return value


def _json(text: str, kind: type, words: str) -> Any:
    try:
        value = read_json(text)
    except NotJSON:
        raise InvalidValue(words, text) from None
    if not isinstance(value, kind):
        raise InvalidValue(words, value)
    return value


class NotJSON(ValueError):
    """The submitted text is not valid JSON."""


def read_json(text: str) -> Any:
    """Parse JSON as strictly as for a client's request.

    Raises:
        NotJSON: with a message for the user.
    """
    try:
        return decode(text.encode(errors="surrogatepass"))
    except ParseError as error:
        _body, _colon, reason = str(error.message).partition(": ")
        raise NotJSON(_("This is not valid JSON: %s") % reason) from None


def as_text(values: Any) -> str:
    return json.dumps(values, indent=2, ensure_ascii=False)


class SchemaField(forms.Field):
    """A property of the object. Only JSON is validated: what else is wrong, the tool says.

    Args:
        name: of the property.
        schema: of the property.
        root: the schema that references resolve against.
        required: the object must have it.
        one_line: use a single-line input for text.
    """

    def __init__(self, name: str, schema: Any, root: Schema, *, required: bool, one_line: bool) -> None:
        self.schema, self.is_needed, self._root = plain(schema, root), required, root
        items = self.schema.get("items") if self.schema.get("type") == "array" else None
        self.items = None if items is None else plain(items, root)
        choices = choices_of(self.schema if self.items is None else self.items)
        self.is_secret = isinstance(schema, Mapping) and is_secret((schema,), root)
        self.kind = self._kind(choices)
        self._labels = {json.dumps(value): words for value, words in choices or [(True, _("Yes")), (False, _("No"))]}
        widget = self._widget(one_line=one_line)
        super().__init__(required=False, widget=widget, label=self._label(name), help_text=self._help(schema))

    def _kind(self, choices: Choices | None) -> str:
        if choices is not None:
            return "choice" if self.items is None else "choices"
        match self.schema.get("type"):
            case "array" if self.items and self.items.get("type") in SCALARS and "prefixItems" not in self.schema:
                return "lines"
            case "boolean":
                return "tick" if self.is_needed else "choice"
            case "integer" | "number":
                return "number"
        return "json" if _types(self.schema) is None else "text"

    def _widget(self, *, one_line: bool) -> forms.Widget:  # noqa: PLR0911 - a table
        match self.kind:
            case "choices":
                return forms.CheckboxSelectMultiple(choices=[*self._labels.items()])
            case "choice":
                nothing = _("not sent (%(default)s)") % {"default": self.default} if self.default else _("not sent")
                return forms.Select(choices=[("", nothing), *self._labels.items()])
            case "tick":
                return forms.CheckboxInput()
        attrs: dict[str, Any] = {"placeholder": self.default} if self.default else {}
        match self.kind:
            case "json":
                attrs |= {"rows": 6, "spellcheck": "false", "class": "mcp-playground-code"}
            case "number":
                bounds = {"min": self.schema.get("minimum"), "max": self.schema.get("maximum")}
                step = "1" if self.schema.get("type") == "integer" else "any"
                # As text: a number would be written in the user's language.
                limits = {name: str(bound) for name, bound in bounds.items() if bound is not None}
                return forms.NumberInput({"step": step, **limits, **attrs})
            case "text" if self.is_secret:
                return forms.PasswordInput({"autocomplete": "new-password", **attrs})
            case "text" if one_line or self._is_short():
                widget = forms.TextInput({"autocomplete": "off", **attrs})
                widget.input_type = INPUTS.get(self.schema.get("format"), "text")
                return widget
        return forms.Textarea({"rows": 3 if self.kind == "lines" else 1, **attrs})

    def _is_short(self) -> bool:
        if self.schema.get("type") != "string" or self.schema.get("format") in INPUTS or "pattern" in self.schema:
            return True
        most = self.schema.get("maxLength")
        return isinstance(most, int | float) and most <= LONG

    # Words

    def _label(self, name: str) -> SafeString:
        title = str(self.schema.get("title") or name)
        code = "" if title == name else format_html(' <code translate="no">{}</code>', name)
        badge = format_html(' <span class="mcp-playground-badge">{}</span>', _("required")) if self.is_needed else ""
        return format_html('<span class="mcp-playground-label">{}</span>{}{}', title, code, badge)

    def _help(self, written: Any) -> SafeString:
        words = str(self.schema.get("description") or "")
        lines = _("One per line.") if self.kind == "lines" else ""
        found = format_html('{} <span translate="no" dir="ltr">{}</span>', lines, self.facts)
        found = format_html('<p class="mcp-playground-quiet">{}</p>', found)
        if words:
            found = format_html("<p>{}</p>{}", words, found)
        if self.kind == "json":
            value = '<pre class="mcp-playground-value" translate="no" dir="ltr" tabindex="0">{}</pre>'
            schema = format_html(value, as_text(written))
            found = format_html("{}<details><summary>{}</summary>{}</details>", found, _("Schema"), schema)
        return found

    @property
    def default(self) -> str:
        value = self.schema.get("default")
        if self.is_secret or value is None or value in ("", [], {}):
            return ""
        if self.kind == "choice":
            return self._labels.get(json.dumps(value), str(value))
        if self.kind == "lines" and isinstance(value, list):
            return " ".join(map(_plain_text, value))
        return _plain_text(value) if self.kind != "json" else json.dumps(value, ensure_ascii=False)

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

    # Values

    def clean(self, value: Any) -> Any:
        """Return the submitted value, or ``ABSENT`` if it is empty.

        Raises:
            ValidationError: it should be JSON and is not.
        """
        match self.kind:
            case "tick":
                return bool(value)
            case "choice":
                return json.loads(value) if value in self._labels else ABSENT
            case "choices":
                values = [json.loads(key) for key in value or () if key in self._labels]
                return values if values or self.is_needed else ABSENT
        text = str(value or "").replace("\r\n", "\n")
        match self.kind:
            case "lines":
                lines = [line for line in text.split("\n") if line.strip()]
                return [self._sent(line, self.items) for line in lines] if lines or self.is_needed else ABSENT
            case "json":
                return self._json(text) if text.strip() else ABSENT
        return self._sent(text, self.schema) if text else ABSENT

    def _sent(self, text: str, schema: Any) -> Any:
        known = [form for form in alternatives(schema, self._root) if form.get("type") != "null"]
        try:
            return convert_text({"anyOf": known}, text, self._root)
        except InvalidValue as error:
            return error.value

    def _json(self, text: str) -> Any:
        try:
            return read_json(text)
        except NotJSON as error:
            raise forms.ValidationError(str(error)) from None

    def initial_of(self, value: Any) -> Any:
        """Return a value as the widget shows it."""
        match self.kind:
            case "tick":
                return bool(value)
            case "choice":
                return json.dumps(value)
            case "choices":
                return [json.dumps(entry) for entry in value] if isinstance(value, list) else []
            case "lines" if isinstance(value, list):
                return "\n".join(map(_plain_text, value))
            case "json":
                return as_text(value)
        return _plain_text(value)


class SchemaForm(forms.Form):
    """A field for each property of an object.

    Args:
        schema: of the object; anything, as other programs send it.
        prefix: of the inputs' names, before a dot.
        one_line: use single-line inputs for text.
    """

    use_required_attribute = False
    data: QueryDict

    def __init__(self, schema: Any, prefix: str = "a", *, one_line: bool = False) -> None:
        super().__init__(prefix=prefix, label_suffix="")
        root: Schema = schema if isinstance(schema, Mapping) else {}
        whole = plain(root, root)
        properties, required = whole.get("properties"), whole.get("required")
        required = required if isinstance(required, list) else []
        for name, described in (properties if isinstance(properties, Mapping) else {}).items():
            self.fields[name] = SchemaField(name, described, root, required=name in required, one_line=one_line)

    def add_prefix(self, field_name: str) -> str:
        return f"{self.prefix}.{field_name}"

    def read(self, data: QueryDict) -> dict[str, Any] | None:
        """Return the submitted values without empty ones, or None if a field has an error."""
        self.data, self.is_bound, self._errors = data.copy(), True, None
        if not self.is_valid():
            return None
        return {name: value for name, value in self.cleaned_data.items() if value is not ABSENT}

    def fill(self, values: Mapping[str, Any]) -> None:
        for name, field in self._known().items():
            if name in values:
                self.initial[name] = field.initial_of(values[name])

    def fill_defaults(self) -> None:
        self.fill({name: field.schema["default"] for name, field in self._known().items() if "default" in field.schema})

    def forget(self, is_hidden: Callable[[str, str], bool]) -> None:
        """Show no value of the fields for which *is_hidden* is true, given name and submitted text."""
        for name in self.fields:
            if is_hidden(name, self.data.get(self.add_prefix(name), "")):
                self.initial.pop(name, None)
                self.data.pop(self.add_prefix(name), None)

    def secrets(self) -> list[str]:
        return [self.data.get(self.add_prefix(name), "") for name, field in self._known().items() if field.is_secret]

    def _known(self) -> Mapping[str, SchemaField]:
        return self.fields  # type: ignore[return-value]


def _plain_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _types(schema: Schema) -> frozenset[str] | None:
    types: list[Any] = [kind for part in alternatives(schema, schema) if (kind := part.get("type")) != "null"]
    return frozenset(types) if types and all(isinstance(name, str) and name in SCALARS for name in types) else None


def _counted(part: str, number: Any) -> str:
    number = number if isinstance(number, int) else 0  # a schema of a site may have anything here
    if part == "Length":
        return ngettext("{} character", "{} characters", number)
    return "{}" if part == "imum" else ngettext("{} entry", "{} entries", number)


def _range(low: Any, high: Any) -> str:
    if low is None:
        return f"≤ {high}"
    return f"≥ {low}" if high is None else f"{low}–{high}"
