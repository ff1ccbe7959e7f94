"""The fifty tools, registered as a site registers its own."""

from benchmarks.catalogue import TOOLS
from django_mcp import tool

for function in TOOLS:
    tool(function)
