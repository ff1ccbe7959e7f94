"""Parameters that clients repeat in a header."""

import datetime
import enum
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Optional

import pytest
from django.core.exceptions import ImproperlyConfigured
from jsonschema import Draft202012Validator
from mcp.shared.inbound import find_invalid_x_mcp_header, mcp_param_headers, x_mcp_header_map
from pydantic import BaseModel, Field, SecretStr

from django_mcp import MCPServer, tool
from django_mcp.primitives.markers import HeaderParam, Mirror, mirrored
from django_mcp.protocol.headers import check_parameters
from tests.primitives.makers import make_tool, taking

KEY = "x-mcp-header"


class Zone(enum.Enum):
    """Where it runs."""

    EAST = "east"
    WEST = "west"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Place(BaseModel):
    region: Annotated[str, HeaderParam("Region")]


def of(value: Mapping[str, Any]) -> dict[str, Any]:
    """An input schema with one property ``value``."""
    return {"type": "object", "properties": {"value": value}}


def test_a_marked_parameter_is_published_with_its_type_and_the_mark(subtests: pytest.Subtests) -> None:
    for annotation, kind, published in [
        (str, "string", {"type": "string"}),
        (int, "integer", {"type": "integer"}),
        (bool, "boolean", {"type": "boolean"}),
        (Literal["a", "b"], "string", {"type": "string", "enum": ["a", "b"]}),
        (datetime.date, "string", {"type": "string", "format": "date"}),
        (Zone, "string", {"type": "string", "enum": ["east", "west"], "description": "Where it runs."}),
        (Level, "integer", {"type": "integer", "minimum": 1, "maximum": 2}),
        (Annotated[int, Field(ge=1)], "integer", {"type": "integer", "minimum": 1}),
        (str | None, "string", {"type": "string"}),
        (Optional[Zone], "string", {"type": "string", "enum": ["east", "west"], "description": "Where it runs."}),  # noqa: UP045
        (Annotated[int | None, Field(ge=1)], "integer", {"type": "integer", "minimum": 1}),
    ]:
        with subtests.test(annotation=annotation, kind=kind, published=published):
            made = taking(Annotated[annotation, HeaderParam("Region")])
            schema = made.definition["inputSchema"]
            assert schema["properties"]["value"] == {**published, KEY: "Region"}
            assert schema["required"] == ["value"]
            assert made.mirrors == (Mirror("Mcp-Param-Region", ("value",), kind),)
            assert find_invalid_x_mcp_header(schema) is None
            assert x_mcp_header_map(schema) == {("value",): "Region"}


def test_what_else_is_said_of_a_marked_parameter_stays(subtests: pytest.Subtests) -> None:
    for case, annotation in {
        "before": Annotated[str | None, HeaderParam("Region"), Field(max_length=5, description="Where.", title="R")],
        "after": Annotated[str | None, Field(max_length=5, description="Where.", title="R"), HeaderParam("Region")],
        "within": Annotated[
            Annotated[str, Field(max_length=5)] | None, HeaderParam("Region"), Field(description="Where.", title="R")
        ],
    }.items():
        with subtests.test(case):
            made = taking(annotation, None)
            assert made.definition["inputSchema"]["properties"]["value"] == {
                "type": "string",
                "maxLength": 5,
                "description": "Where.",
                "title": "R",
                KEY: "Region",
            }
            assert "required" not in made.definition["inputSchema"]


def test_a_marked_parameter_may_be_none_though_its_published_type_has_no_null() -> None:
    made = taking(Annotated[str | None, HeaderParam("Region")], None)
    for given in ({}, {"value": None}):
        assert made.arguments.validate(given) == {"value": None}
        check_parameters({}, [(mirror.header, mirror.path) for mirror in made.mirrors], given)


def test_other_defaults_of_marked_parameters_and_null_of_others_stay() -> None:
    def run(region: Annotated[str, HeaderParam("Region")] = "eu", words: str | None = None) -> None: ...

    properties = make_tool(run).definition["inputSchema"]["properties"]
    assert properties["region"] == {"type": "string", "default": "eu", KEY: "Region"}
    assert properties["words"]["default"] is None


def test_an_enum_that_is_used_twice_is_written_out_where_it_is_marked() -> None:
    def run(zone: Annotated[Zone, HeaderParam("Zone")], other: Zone) -> None: ...

    schema = make_tool(run).definition["inputSchema"]
    assert schema["properties"]["zone"][KEY] == "Zone"
    assert "$ref" not in schema["properties"]["zone"]
    assert find_invalid_x_mcp_header(schema) is None


def test_a_tool_without_marks_has_no_mirrors() -> None:
    assert taking(str).mirrors == ()


def test_a_parameter_no_header_can_hold_is_refused(subtests: pytest.Subtests) -> None:
    for annotation, words in [
        (float, "of type 'number'"),
        (list[str], "of type 'array'"),
        (dict[str, str], "of type 'object'"),
        (Place, "of type 'object'"),
        (None, "of type 'null'"),
        (int | str, "of no single type"),
        (Literal["a", None], "of no single type"),  # noqa: PYI061 - unlike Literal["a"] | None it has no type
        (Any, "of no single type"),
        (SecretStr, "is a secret"),
    ]:
        with (
            subtests.test(annotation=annotation, words=words),
            pytest.raises(
                ImproperlyConfigured, match=rf"tool 'take' \(tests.*\): (parameter 'value'.*{words}|.*function itself)"
            ),
        ):
            taking(Annotated[annotation, HeaderParam("Region")])


def test_the_field_of_a_model_can_be_marked_where_properties_alone_lead_to_it(subtests: pytest.Subtests) -> None:
    assert [mirror.path for mirror in taking(Place).mirrors] == [("value", "region")]
    for annotation in [Place | None, list[Place], dict[str, Place]]:
        with (
            subtests.test(annotation=annotation),
            pytest.raises(ImproperlyConfigured, match=r"tool 'take'.*properties/region.*function itself"),
        ):
            taking(annotation)


def test_an_item_of_a_list_cannot_be_marked() -> None:
    with pytest.raises(ImproperlyConfigured, match="properties/value/items of the input schema"):
        taking(list[Annotated[str, HeaderParam("Region")]])


def test_a_name_that_is_no_header_name_everywhere_is_refused(subtests: pytest.Subtests) -> None:
    for name in ["", " ", "My Region", "Région", "a:b", "a\r\nX: y", "a\x00", "a(b)", "Region\n", "tenant_id", 5]:
        with subtests.test(name=name):
            with pytest.raises(ImproperlyConfigured, match="letters, digits and hyphens"):
                taking(Annotated[str, HeaderParam(name)])
            with pytest.raises(ImproperlyConfigured, match="letters, digits and hyphens"):
                mirrored(of({"type": "string", KEY: name}), "tool 'x'")


def test_any_other_token_is_a_name(subtests: pytest.Subtests) -> None:
    for name in ["Region", "X-1", "a.b", "!#$%&'*+.^`|~-"]:
        with subtests.test(name=name):
            (mirror,) = mirrored(of({"type": "string", KEY: name}), "tool 'x'")
            assert mirror.header == f"Mcp-Param-{name}"
            assert find_invalid_x_mcp_header(of({"type": "string", KEY: name})) is None


def test_two_parameters_with_one_header_are_refused_whatever_the_case() -> None:
    def run(region: Annotated[str, HeaderParam("Region")], place: Annotated[str, HeaderParam("REGION")]) -> None: ...

    with pytest.raises(ImproperlyConfigured, match=r"'region' and 'place' have the same x-mcp-header, 'REGION'"):
        make_tool(run)


MARKED = {"type": "string", KEY: "Region"}

# Every place where a schema may stand and clients do not look for the value.
ELSEWHERE: dict[str, dict[str, Any]] = {
    "the top": {"type": "object", KEY: "Region"},
    **{
        f"properties/value/{key}": of({key: MARKED})
        for key in (
            "items",
            "contains",
            "additionalProperties",
            "propertyNames",
            "unevaluatedItems",
            "unevaluatedProperties",
            "not",
            "if",
            "then",
            "else",
        )
    },
    **{f"properties/value/{key}/0": of({key: [MARKED]}) for key in ("oneOf", "anyOf", "allOf", "prefixItems")},
    **{
        f"{key}/deep": {"type": "object", key: {"deep": MARKED}}
        for key in ("$defs", "definitions", "patternProperties", "dependentSchemas")
    },
    "properties/value/items/properties/deep": of({"items": {"properties": {"deep": MARKED}}}),
    "allOf/0/properties/deep": {"type": "object", "allOf": [{"properties": {"deep": MARKED}}]},
    "$defs/properties": {"type": "object", "$defs": {"properties": MARKED}},
}


def test_a_mark_where_clients_do_not_find_the_value_is_refused(subtests: pytest.Subtests) -> None:
    for where, schema in ELSEWHERE.items():
        with subtests.test(where):
            assert find_invalid_x_mcp_header(schema)
            with pytest.raises(ImproperlyConfigured) as caught:
                mirrored(schema, "tool 'x'")
            assert str(caught.value).startswith(f"tool 'x': x-mcp-header at {where} of the input schema.")


def test_a_marked_ref_has_no_type_and_is_refused() -> None:
    schema = {**of({"$ref": "#/$defs/R", KEY: "Region"}), "$defs": {"R": {"type": "string"}}}
    assert find_invalid_x_mcp_header(schema)
    with pytest.raises(ImproperlyConfigured, match="of no single type"):
        mirrored(schema, "tool 'x'")


def test_a_nested_property_and_one_named_like_a_keyword_can_be_marked() -> None:
    inner = {"type": "object", "properties": {"properties": MARKED, "items": {"type": "integer", KEY: "Count"}}}
    schema = {"type": "object", "properties": {"anyOf": inner, KEY: {"type": "boolean", KEY: "Flag"}}}
    assert mirrored(schema, "tool 'x'") == (
        Mirror("Mcp-Param-Region", ("anyOf", "properties"), "string"),
        Mirror("Mcp-Param-Count", ("anyOf", "items"), "integer"),
        Mirror("Mcp-Param-Flag", (KEY,), "boolean"),
    )
    assert set(x_mcp_header_map(schema)) == {mirror.path for mirror in mirrored(schema, "tool 'x'")}


def test_data_that_looks_like_a_mark_is_none(subtests: pytest.Subtests) -> None:
    for key in ["default", "const", "enum", "examples"]:
        with subtests.test(key=key):
            data: Any = {KEY: "Region"}
            schema = of({key: [data] if key in {"enum", "examples"} else data})
            assert mirrored(schema, "tool 'x'") == ()


# Input schemas somebody wrote

WRITTEN = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {"city": {"type": "string"}}}},
    "properties": {
        "region": {"type": "string", KEY: "Region"},
        "address": {"$ref": "#/$defs/address"},
        "phone": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["address"]}]}],
    "if": {"properties": {"region": {"const": "eu"}}},
    "then": {"required": ["phone"]},
    "else": {"required": ["address"]},
    "additionalProperties": False,
}


def written(schema: Any) -> Any:
    def run(region: str = "eu", address: dict[str, str] | None = None, phone: str = "") -> str:
        return f"{region} {address} {phone}"

    return make_tool(run, input_schema=schema)


def test_a_written_input_schema_is_published_as_it_stands() -> None:
    made = written(WRITTEN)
    assert json.dumps(made.definition["inputSchema"]) == json.dumps(WRITTEN)
    assert made.mirrors == (Mirror("Mcp-Param-Region", ("region",), "string"),)


def test_arguments_are_checked_by_the_signature_whatever_is_published() -> None:
    validate = written({"type": "object"}).arguments.validate
    assert validate({"phone": "1"}) == {"region": "eu", "address": None, "phone": "1"}
    with pytest.raises(Exception, match="Unknown argument 'fax'"):
        validate({"fax": "1"})


def test_changing_a_written_schema_later_changes_nothing() -> None:
    schema = json.loads(json.dumps(WRITTEN))
    made = written(schema)
    schema["properties"].clear()
    assert made.definition["inputSchema"] == WRITTEN


def test_a_written_schema_that_clients_would_not_take_is_refused(subtests: pytest.Subtests) -> None:
    for schema, words in [
        ({}, '"type": "object" at the top level'),
        ({"type": ["object"]}, '"type": "object" at the top level'),
        ({"anyOf": [{"type": "object"}]}, '"type": "object" at the top level'),
        ({"type": "object", "properties": {"a": {1, 2}}}, "must be JSON"),
        ({"type": "object", "maxProperties": float("inf")}, "must be JSON"),
        ({"type": "object", "properties": {"a": {"type": "number", KEY: "A"}}}, "of type 'number'"),
    ]:
        with subtests.test(schema=schema, words=words):
            with pytest.raises(ImproperlyConfigured) as caught:
                written(schema)
            assert str(caught.value).startswith("tool 'run' (tests.primitives.test_markers.run): ")
            assert words in str(caught.value)


def test_the_decorator_takes_a_written_schema(server: MCPServer) -> None:
    @tool(server=server, input_schema=WRITTEN)
    def run(region: str = "eu") -> str:
        return region

    assert server.tools["run"].definition["inputSchema"] == WRITTEN
    Draft202012Validator.check_schema(server.tools["run"].definition["inputSchema"])


def test_what_the_official_client_sends_passes(subtests: pytest.Subtests) -> None:
    for arguments in [
        {"value": value}
        for value in ("eu", "", " padded ", "São Paulo", "a\nb", "=?base64?SGVsbG8=?=", 42, -7, 0, True, False, None)
    ] + [{}]:
        with subtests.test(arguments=arguments):
            schema = of({"type": "string", KEY: "Region"})
            sent = {
                name.lower(): value for name, value in mcp_param_headers(x_mcp_header_map(schema), arguments).items()
            }
            mirrors = [(mirror.header, mirror.path) for mirror in mirrored(schema, "tool 'x'")]
            check_parameters(sent, mirrors, arguments)
