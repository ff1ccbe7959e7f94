"""What a tool gives, against the schema that it promises."""

from collections.abc import Mapping
from typing import Any


def problems(schema: Mapping[str, Any], value: Any) -> list[str]:
    """What is wrong with a value, in one line for each problem (JSON Schema 2020-12)."""
    found = _validator()(schema).iter_errors(value)
    return [f"{each.json_path}: {each.message}" for each in found]


def broken(schema: Mapping[str, Any]) -> str:
    """What is wrong with a schema itself; empty for nothing."""
    validator = _validator()
    found = next(validator(validator.META_SCHEMA).iter_errors(schema), None)
    return "" if found is None else f"{found.json_path}: {found.message}"


def _validator() -> Any:
    """The class of validators.

    Raises:
        ImportError: the package is missing; the message says what to do.
    """
    try:
        from jsonschema import Draft202012Validator  # noqa: PLC0415 - only tests need it
    except ImportError as error:
        msg = (
            "MCPClient checks what tools give against their schemas, with the package jsonschema: "
            "pip install 'django-mcp-toolkit[test]'. MCPClient(schemas=False) does without."
        )
        raise ImportError(msg) from error
    return Draft202012Validator
