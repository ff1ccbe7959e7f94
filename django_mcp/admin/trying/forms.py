"""A form made from the schema of an object."""

import json
from collections.abc import Mapping
from typing import Any

from django.http import QueryDict

from django_mcp.admin.trying.fields import ABSENT, Field, NotJSON
from django_mcp.protocol.json_schema import Schema, plain


class SchemaForm:
    """Fields for the properties of an object. Whether what they give is right is for the tool to say.

    Args:
        schema: of the object.
        prefix: begins the names of its inputs.
        one_line: texts have no lines.
    """

    def __init__(self, schema: Any, prefix: str = "a", *, one_line: bool = False) -> None:
        root: Schema = schema if isinstance(schema, Mapping) else {}
        whole = plain(root, root)
        properties, required = whole.get("properties"), whole.get("required")
        required = required if isinstance(required, list) else []
        self.fields = [
            Field(name, each, root, required=name in required, prefix=prefix, one_line=one_line)
            for name, each in (properties if isinstance(properties, Mapping) else {}).items()
        ]

    def read(self, data: QueryDict) -> dict[str, Any] | None:
        """What was typed, without what was left empty; None where a field that is JSON has none."""
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
        """Put values into the fields."""
        for field in self.fields:
            if field.name in values:
                field.fill(values[field.name])

    def fill_defaults(self) -> None:
        """Put in what the schema proposes."""
        self.fill({each.name: each.schema["default"] for each in self.fields if "default" in each.schema})

    @property
    def has_secrets(self) -> bool:
        """Whether anything is not to be shown again."""
        return any(each.is_secret for each in self.fields)


def as_text(values: Any) -> str:
    """JSON to be edited."""
    return json.dumps(values, indent=2, ensure_ascii=False)
