"""What packages under ``contrib`` make tools with, besides the public names."""

from django.db import Error

from django_mcp.adapters.late_tools import LateTool
from django_mcp.core.database import rolled_back
from django_mcp.core.decorators import servers_of
from django_mcp.core.generated import function, shaped
from django_mcp.core.registry import every_server
from django_mcp.core.selection import Where
from django_mcp.exposure.field_types import json_type
from django_mcp.primitives.base import untranslated
from django_mcp.primitives.function import EMPTY, Parameter
from django_mcp.primitives.schema import ArgumentError, Arguments, json_schema, property_name, typed_dict
from django_mcp.primitives.tool import Tool
from django_mcp.primitives.validation_errors import (
    abridged,
    missing_argument,
    sentences,
    shortened,
    with_article,
    written,
)

NO_DATABASE = (Error,)
"""Raised where the database cannot be reached, or where ``migrate`` was not run yet."""

__all__ = [
    "EMPTY",
    "NO_DATABASE",
    "ArgumentError",
    "Arguments",
    "LateTool",
    "Parameter",
    "Tool",
    "Where",
    "abridged",
    "every_server",
    "function",
    "json_schema",
    "json_type",
    "missing_argument",
    "property_name",
    "rolled_back",
    "sentences",
    "servers_of",
    "shaped",
    "shortened",
    "typed_dict",
    "untranslated",
    "with_article",
    "written",
]
