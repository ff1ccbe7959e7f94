"""Arguments of a tool as people type them: ``title=Emma pages:=474 address.city=Bath``."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from django_mcp.management.calling.values import BadValue, Schema, alternatives, kind_of, resolved, typed


def read_arguments(given: Sequence[str], source: str | None, schema: Schema, tool: str) -> dict[str, Any]:
    """The arguments of a call.

    Args:
        given: ``name=text``, typed by the schema, or ``name:=JSON``.
        source: a file with a JSON object that they are added to; ``"-"`` for standard input.
        schema: of what the tool takes; empty where that is not known.
        tool: its name.

    Raises:
        CommandError: one of them is nothing for the tool.
    """
    arguments = {} if source is None else _from_file(source)
    for each in given:
        name, equals, text = each.partition("=")
        if not equals or not name:
            raise CommandError(f"{each!r}: arguments look like name=text or name:=JSON.{takes(schema, tool)}")
        raw = name.endswith(":")
        _put(arguments, name.removesuffix(":"), text, schema, tool, raw=raw)
    properties = schema.get("properties", {})
    missing = [name for name in schema.get("required", ()) if name not in arguments]
    if missing:
        raise CommandError(f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing.{takes(schema, tool)}")
    strange = [name for name in arguments if name not in properties]
    if strange and schema.get("additionalProperties") is False:
        raise CommandError(f"{tool} takes no {strange[0]!r}.{takes(schema, tool)}")
    return arguments


def takes(schema: Schema, tool: str) -> str:
    """What a tool takes, one argument a line."""
    properties = schema.get("properties", {})
    if not schema:
        return ""
    if not properties:
        return f"\n{tool} takes no arguments."
    lines = [f"\n{tool} takes:"]
    for name, each in properties.items():
        is_needed = name in schema.get("required", ())
        told = resolved(each, schema)
        default = f", {json.dumps(told['default'], ensure_ascii=False)} if left out" if "default" in told else ""
        words = f"  {told['description']}" if told.get("description") else ""
        lines.append(f"  {name}=<{kind_of(each, schema)}>{'' if is_needed else f' (optional{default})'}{words}")
    return "\n".join(lines)


def _from_file(source: str) -> dict[str, Any]:
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"--input {source}: {error}") from None
    try:
        value = json.loads(text)
    except ValueError as error:
        raise CommandError(f"--input {source} is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise CommandError(f'--input {source} must be a JSON object, like {{"name": "value"}}.')
    return value


def _put(arguments: dict[str, Any], name: str, text: str, schema: Schema, tool: str, *, raw: bool) -> None:
    """Put one value in its place, in objects within objects where its name has dots."""
    place, inner = arguments, schema
    path = [name] if name in schema.get("properties", {}) else name.split(".")
    for depth, part in enumerate(path):
        properties = inner.get("properties", {})
        if part not in properties and (inner.get("additionalProperties") is False or (depth == 0 and properties)):
            raise CommandError(f"{tool} takes no {'.'.join(path[: depth + 1])!r}.{takes(schema, tool)}")
        below = properties.get(part, {})
        if depth == len(path) - 1:
            place[part] = _value(place.get(part), name, text, below, schema, raw=raw)
            return
        inner = next((each for each in alternatives(below, schema) if each.get("type") == "object"), {})
        place = place.setdefault(part, {})
        if not isinstance(place, dict):
            raise CommandError(f"{name!r}: {part!r} has a value already that is no object.")


def _value(before: Any, name: str, text: str, schema: Mapping[str, Any], root: Schema, *, raw: bool) -> Any:
    if raw:
        try:
            return json.loads(text)
        except ValueError:
            raise CommandError(f"{name}:={text} is no JSON. Text is given as {name}={text}.") from None
    try:
        value = typed(schema, text, root)
    except BadValue as error:
        raise CommandError(f"{name}={text}: {name} must be {error}.") from None
    # Given once more, a list grows.
    return [*before, *value] if isinstance(before, list) and isinstance(value, list) else value
