"""Model Context Protocol (MCP) endpoints for Django sites.

All public names are exported here, except ``django_mcp.asgi.mcp_application`` and ``django_mcp.urls``. Their modules
are imported on first access, because few sites use all of them. ``__init__.pyi`` lists them.
"""

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

_MODULES = {
    imported.name: statement.module
    for statement in ast.parse(Path(__file__).with_suffix(".pyi").read_bytes()).body
    if isinstance(statement, ast.ImportFrom) and statement.module
    for imported in statement.names
}

__all__ = sorted(_MODULES)  # noqa: PLE0605 - as the stub has them


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
