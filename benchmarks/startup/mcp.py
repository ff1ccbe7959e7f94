"""A handful of tools."""

from benchmarks.catalogue import TOOLS
from django_mcp import tool

for function in TOOLS[:6]:
    tool(function)
