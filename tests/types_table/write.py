"""Write ``docs/types.md`` from the cases: ``python -m tests.types_table.write``."""

import importlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import django

PAGE = Path(__file__).resolve().parents[2] / "docs" / "types.md"
SOURCES = {
    "Annotations of functions": "python",
    "Fields of forms": "forms",
    "Fields of serializers": "rest_framework",
    "Parameters of django-ninja": "ninja",
}
HEAD = """# Types

The JSON Schema of each supported type, and the error that a model reads for an invalid value. The tables are generated
from the endpoint's own answers by `python -m tests.types_table.write`, and tested.
"""


def page() -> str:
    """The page as it should be. Needs Django set up, and a database."""
    parts = [HEAD]
    for title, name in SOURCES.items():
        cases = importlib.import_module(f"tests.types_table.{name}").CASES
        head = f"## {title}\n\n| type | JSON Schema | invalid value | error |\n|---|---|---|---|\n"
        parts.append(head + "".join(f"| {' | '.join(row)} |\n" for row in map(_row, cases)))
    return "\n".join(parts)


def _row(case: Any) -> Iterator[str]:
    from django_mcp import AllowAny, MCPServer
    from django_mcp.core.server import restore_all, snapshots
    from tests.clients import MODERN, Client

    before = snapshots()
    try:
        server = MCPServer("types-table", authentication=[AllowAny()])
        case.publish(server)
        (tool,) = server.tools.values()
        schema = tool.definition["inputSchema"]
        answer = Client(server, MODERN, "view").call(tool.name, **{case.argument: case.bad})
    finally:
        restore_all(before)
    assert answer.result.get("isError"), f"{case.label} takes {case.bad!r}"
    told = _whole(schema["properties"][case.argument], schema.get("$defs", {}))
    yield _code(case.label)
    yield _code(json.dumps(told, ensure_ascii=False))
    yield _code(json.dumps(case.bad, ensure_ascii=False))
    yield _plain(answer.text)


def _whole(schema: Any, known: Mapping[str, Any]) -> Any:
    """*schema* with what it refers to in its place."""
    if isinstance(schema, list):
        return [_whole(each, known) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        others = {key: value for key, value in schema.items() if key != "$ref"}
        return {**_whole(known[schema["$ref"].rpartition("/")[2]], known), **others}
    return {key: _whole(value, known) for key, value in schema.items() if key != "discriminator"}


def _code(text: str) -> str:
    return f"`{text.replace('|', chr(92) + '|')}`"


def _plain(text: str) -> str:
    for special in "\\|*_<>`[]":
        text = text.replace(special, f"\\{special}")
    return text.replace("\n", " ")


def main() -> None:
    """Write the page, with a database of its own."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()
    from django.test.utils import (
        setup_databases,
        setup_test_environment,
        teardown_databases,
        teardown_test_environment,
    )

    setup_test_environment()
    made = setup_databases(verbosity=0, interactive=False)
    try:
        PAGE.write_text(page())
    finally:
        teardown_databases(made, verbosity=0)
        teardown_test_environment()


if __name__ == "__main__":
    main()
