"""Every schema of the agency is one that all clients and providers of models take."""

import pytest

from demo_project.travel.endpoints import office, open_, staff
from django_mcp import MCPServer
from django_mcp import server as agency
from django_mcp.revisions.legacy.downgrade import shape
from tests.schemas import refused


@pytest.mark.parametrize("server", [agency, staff, office, open_], ids=lambda each: each.name)
def test_no_schema_has_what_a_client_or_a_provider_refuses(server: MCPServer, travel: None) -> None:
    for tool in server.tools.values():
        assert tool.find_failure() is None
    listed = [tool.definition for tool in server.tools.values()]
    assert listed
    assert {each["name"]: found for each in listed if (found := [*refused(each)])} == {}
    older = shape({"tools": listed}, "tools/list", "2025-11-25")["tools"]
    assert {each["name"] for each in older if each.get("outputSchema", {"type": "object"})["type"] != "object"} == set()


def test_the_walker_finds_what_is_refused() -> None:
    person = {"anyOf": [{"$ref": "#/$defs/person"}], "properties": {"a b": {"type": ["string", "null"]}}}
    found = refused({"inputSchema": {"oneOf": []}, "outputSchema": {**person, "$defs": {}}})
    assert set(found) == {
        "inputSchema: no object with properties",
        "inputSchema: oneOf",
        "outputSchema: no type",
        "outputSchema: $defs",
        "outputSchema: anyOf at the root",
        "outputSchema.anyOf: $ref",
        "outputSchema.a b: a list of types",
    }
