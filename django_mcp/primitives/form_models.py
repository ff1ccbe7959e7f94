"""Forms from pydantic models."""

import math
from collections.abc import Collection, Mapping
from decimal import Decimal
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db.models import Choices
from pydantic import BaseModel, PydanticUserError, ValidationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind
from pydantic_core import to_json

from django_mcp.primitives.form_shapes import (
    ALLOWED,
    FORMATS,
    check_property,
    keys_of,
    options_of,
    refuse_secret,
    sentences,
)

_NULLABLE = "x-nullable"


class _FormSchema(GenerateJsonSchema):
    """A model's schema with the titles of choices, and with a mark where other schemas say that null is allowed."""

    ignored_warning_kinds: set[JsonSchemaWarningKind] = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False

    def nullable_schema(self, schema: Any) -> dict[str, Any]:
        return {**self.generate_inner(schema["schema"]), _NULLABLE: True}

    def decimal_schema(self, schema: Any) -> dict[str, Any]:
        found = {"type": "number"}
        self.update_with_validations(found, schema, self.ValidationsMapping.numeric)
        return found

    def encode_default(self, dft: Any) -> Any:
        return float(dft) if isinstance(dft, Decimal) else super().encode_default(dft)

    def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> dict[str, Any]:  # noqa: ARG002
        return {}  # which is refused by the name of its field

    def enum_schema(self, schema: Any) -> dict[str, Any]:
        found = super().enum_schema(schema)
        if issubclass(schema["cls"], Choices) and found.get("type") == "string":
            titled = [{"const": member.value, "title": str(member.label)} for member in schema["members"]]
            return {"type": "string", "oneOf": titled}
        return found


class ModelForm:
    """A form made from a pydantic model.

    A field that may be None, or has a default, need not be filled in. What a form cannot say of a field, such as a
    pattern, is left out of the schema; the model checks it all the same.

    Raises:
        ImproperlyConfigured: a field no form can ask for.
    """

    def __init__(self, model: type[BaseModel], label: str) -> None:
        self._model = model
        label = f"{label} {model.__name__}"
        try:
            whole = model.model_json_schema(schema_generator=_FormSchema)
        except PydanticUserError as error:
            msg = f"{label}: a field has no JSON Schema. {ALLOWED} {error}"
            raise ImproperlyConfigured(msg) from error
        definitions = whole.get("$defs", {})
        whole = _resolved(whole, definitions)
        self.schema: dict[str, Any] = {"type": "object", "properties": {}}
        nullable = set()
        for name, schema in whole.get("properties", {}).items():
            found = _resolved(schema, definitions)
            refuse_secret(name, found, label)
            if found.pop(_NULLABLE, False):
                nullable.add(name)
            self.schema["properties"][name] = found = _restricted(found)
            check_property(name, found, label)
        required = whole.get("required", [])
        self._blank = [name for name in required if name in nullable]
        if required := [name for name in required if name not in nullable]:
            self.schema["required"] = required

    @property
    def names(self) -> set[str]:
        """Of the fields, as they are on the wire."""
        return set(self.schema["properties"])

    def read(self, content: Mapping[str, Any]) -> tuple[BaseModel | None, list[str]]:
        """The model's instance, or what is wrong with *content*."""
        filled = {**dict.fromkeys(self._blank), **content}
        try:
            return self._model.model_validate_json(to_json(filled)), []
        except ValidationError as error:
            return None, sentences(error)


def _resolved(schema: Mapping[str, Any], definitions: Mapping[str, Any], *, with_items: bool = True) -> dict[str, Any]:
    """A copy with what stands behind its ``$ref`` and that of its items; deeper, no form can ask for it anyway."""
    found = dict(schema)
    if "$ref" in found:
        defined = definitions[found.pop("$ref").rpartition("/")[2]]
        found = {**defined, **found}
        if found.get("title") == defined.get("title"):  # the name of a class, which means nothing to a person
            found.pop("title", None)
    if with_items and isinstance(found.get("items"), dict):
        found["items"] = _resolved(found["items"], definitions, with_items=False)
    return found


def _restricted(schema: dict[str, Any]) -> dict[str, Any]:
    """The question in the keys a form may use, as far as that is possible."""
    found = _limited(_single(schema))
    if found.get("format") not in FORMATS:
        found.pop("format", None)
    if isinstance(items := found.get("items"), dict):
        items = _single(items)
        # The choices of an array stand in anyOf, that of one string in oneOf (schema.ts, EnumSchema).
        found["items"] = {"anyOf": items["oneOf"]} if "oneOf" in items else _only(items, ("type", "enum"))
    keys = keys_of(found)
    if found.get("default") is None:
        found.pop("default", None)
    elif keys and isinstance(found["default"], list):  # of a set, in any order
        order = {option: index for index, option in enumerate(options_of(found) or ())}
        found["default"].sort(key=lambda chosen: order.get(chosen, len(order)))
    return _only(found, keys) if keys else found


def _single(schema: Mapping[str, Any]) -> dict[str, Any]:
    """With a choice of one as a choice; and as nothing at all where the choices are no strings."""
    found = dict(schema)
    if "const" in found:
        found["enum"] = [found.pop("const")]
    if "enum" in found and found.get("type") != "string":
        found.pop("type", None)
    return found


def _limited(schema: dict[str, Any]) -> dict[str, Any]:
    """With limits that are part of what is allowed, there being no others in a form."""
    whole = schema.get("type") == "integer"
    if (above := schema.get("exclusiveMinimum")) is not None:
        schema["minimum"] = max(math.floor(above) + 1 if whole else above, schema.get("minimum", -math.inf))
    if (below := schema.get("exclusiveMaximum")) is not None:
        schema["maximum"] = min(math.ceil(below) - 1 if whole else below, schema.get("maximum", math.inf))
    return schema


def _only(schema: Mapping[str, Any], keys: Collection[str]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key in keys}
